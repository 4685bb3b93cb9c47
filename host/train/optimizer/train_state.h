// The memory of a training run: parameters, moments, gradients; one tensor each per parameter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/sections.h"
#include "decoder/stack/parameter.h"
#include "graph/bytes_type.h"
#include "runtime/backend.h"
#include "train/optimizer/row_gradients.h"

namespace lamina::train {

// Bytes of a training state, by purpose.
struct TrainBytes {
  std::size_t weights = 0;    // f32
  std::size_t frozen = 0;     // weights that are kept in the type that products read
  std::size_t copies = 0;     // of weights, in the type that products read
  std::size_t moments = 0;    // optimizer states
  std::size_t average = 0;    // of the weights, in f32; its copies are in `copies`
  std::size_t gradients = 0;  // including the second lists for accumulation
  std::size_t offloaded = 0;  // moments and weights in host memory, which are not counted above
  // In the memory of the device.
  std::size_t total() const { return weights + frozen + copies + moments + average + gradients; }
  // In the files of a checkpoint.
  std::size_t checkpoint() const { return weights + frozen + moments + average + offloaded; }
};

// The moving average of the weights that a run keeps.
enum class KeptAverage {
  none,
  kept,
  validated,  // kept, and used by validation
};
KeptAverage kept_average(const config::TrainSection& train);

// Returns the section as it applies on a device: without `offload` if the device computes in host
// memory.
config::OptimizerSection for_backend(config::OptimizerSection optimizer, const Backend& backend);

// Returns the bytes of a TrainState without making one.
TrainBytes train_bytes(const decoder::ParameterTable& parameters, DType compute, bool accumulate,
                       const GradientLists& lists = {},
                       const config::OptimizerSection& optimizer = {},
                       KeptAverage average = KeptAverage::none);

// Optimizer state of one kind, of all parameters: null for parameters that have none.
struct OptimizerState {
  std::string prefix;  // StateSpec::prefix
  std::vector<TensorRef> data;
  std::vector<std::optional<Type>> types;
};

class TrainState {
 public:
  // All tensors are 0. `accumulate`: also second lists of rows, for microbatches after the first.
  // With optimizer.offload, masters that have copies and the optimizer's states are in pinned
  // memory, if the device has separate memory.
  TrainState(const decoder::ParameterTable& parameters, DType compute, bool accumulate,
             const Backend& backend, GradientLists lists = {},
             const config::OptimizerSection& optimizer = {},
             KeptAverage average = KeptAverage::none);

  // f32 tensors, one per parameter; null if Parameter::kept_dtype() is another type. Moments and
  // gradients are null for parameters that do not learn; moments also if the optimizer keeps none,
  // or none in f32.
  std::span<const TensorRef> masters() const { return masters_; }
  std::span<const TensorRef> first_moments() const { return first_moments_; }
  std::span<const TensorRef> second_moments() const { return second_moments_; }
  // The moments and all other state of the optimizer, as state_of() lists it.
  std::span<const OptimizerState> optimizer_states() const { return optimizer_states_; }
  // The moving average of each weight that learns; null for others, and if none is kept.
  std::span<const TensorRef> averages() const { return averages_; }
  std::span<const TensorRef> gradients() const { return gradients_; }
  // Gradients of microbatches after the first: the same tensors, except for lists.
  std::span<const TensorRef> more_gradients() const { return more_gradients_; }

  // If a gradient is a list, its rows [slots, width] are above, and its ids i32[slots] are here;
  // null for others.
  std::span<const TensorRef> gradient_ids() const { return gradient_ids_; }
  std::span<const TensorRef> more_gradient_ids() const { return more_gradient_ids_; }
  const GradientLists& lists() const { return lists_; }
  bool is_listed(int parameter) const {
    return static_cast<bool>(gradient_ids_[static_cast<std::size_t>(parameter)]);
  }
  std::int64_t num_gradient_elements(int parameter) const;

  // The tensors that the graphs read: masters, or their copies in the compute type.
  std::span<const ConstTensorRef> used() const { return used_; }
  // The copies in the compute type; null if the graphs read the tensor that is kept.
  std::span<const TensorRef> copies() const { return copies_; }
  bool has_copy(int parameter) const {
    return static_cast<bool>(copies_[static_cast<std::size_t>(parameter)]);
  }
  // The tensor that is kept of a parameter, and its type: its master, or the one that graphs read,
  // which may be in blocks.
  TensorRef kept(int parameter) const { return kept_[static_cast<std::size_t>(parameter)]; }
  DType kept_dtype(int parameter) const;
  // Returns its values in f32.
  std::vector<float> values(int parameter) const;
  // Calls the observer with the parameter. Training calls it before it changes a parameter's
  // master, average or optimizer states.
  void will_change(int parameter) const {
    if (observer_) observer_(parameter);
  }
  void set_observer(std::function<void(int)> observer) { observer_ = std::move(observer); }

  // Makes the copies again from the masters, after loading.
  void refresh_copies();
  void refresh_copy(int parameter) const;

  // Sets the averages to the weights.
  void begin_averages() const;
  // As used(), of the averages; makes their copies now. REQUIRES: KeptAverage::validated.
  std::span<const ConstTensorRef> used_averages() const;

  std::size_t bytes() const { return buffer_->bytes(); }
  std::size_t offloaded_bytes() const { return host_buffer_ ? host_buffer_->bytes() : 0; }
  // Copies the tensors in host memory from a state of the same arguments. REQUIRES: no work on them
  // is under way.
  void copy_offloaded(const TrainState& from);
  // All tensors on the device, as bytes. States of the same arguments have them at the same places.
  TensorRef whole() const { return {*buffer_, 0, bytes_type(bytes())}; }
  // The queue for work on its tensors.
  Queue& queue() const { return context_.queue(); }
  Context& context() const { return context_; }

 private:
  void declare_states(const config::OptimizerSection& optimizer);
  std::vector<TensorRef> float_states(std::string_view prefix) const;
  void store(const ConstTensorRef& from, const TensorRef& to) const;
  void lay_out(DType compute, bool accumulate, const config::OptimizerSection& optimizer,
               KeptAverage average);

  const decoder::ParameterTable& parameters_;
  GradientLists lists_;
  Context& context_;
  std::unique_ptr<Buffer> buffer_, host_buffer_;
  std::vector<TensorRef> masters_, first_moments_, second_moments_, averages_;
  std::vector<OptimizerState> optimizer_states_;
  std::vector<TensorRef> gradients_, more_gradients_, gradient_ids_, more_gradient_ids_;
  std::vector<TensorRef> kept_, copies_, average_copies_;
  std::vector<ConstTensorRef> used_, used_averages_;
  std::vector<DType> copy_dtype_;  // of used_
  std::function<void(int)> observer_;
};

}  // namespace lamina::train
