// The memory of a training run: parameters, moments, gradients; one tensor each per parameter.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "decoder/parameter.h"
#include "runtime/backend.h"

namespace lamina::train {

class TrainState {
 public:
  // Zeroed. `accumulate`: also a second set of gradients, for microbatches after the first.
  TrainState(const decoder::ParameterTable& parameters, DType compute, bool accumulate,
             const Backend& backend);

  // Row-major f32 tensors, one a parameter. Moments and gradients are null where it does not learn.
  std::span<float* const> masters() const { return masters_; }
  std::span<float* const> first_moments() const { return first_moments_; }
  std::span<float* const> second_moments() const { return second_moments_; }
  std::span<void* const> gradients() const { return gradients_; }
  std::span<void* const> more_gradients() const { return more_gradients_; }

  // What the graphs read: masters, or their copies in the compute type.
  std::span<void* const> used() const { return used_; }
  bool has_copy(int parameter) const {
    return used_[static_cast<std::size_t>(parameter)] !=
           static_cast<const void*>(masters_[static_cast<std::size_t>(parameter)]);
  }
  // Makes the copies again from the masters (after loading).
  void refresh_copies();
  void refresh_copy(int parameter) const;

  std::size_t bytes() const { return buffer_->bytes(); }

 private:
  const decoder::ParameterTable& parameters_;
  std::unique_ptr<Buffer> buffer_;
  std::vector<float*> masters_, first_moments_, second_moments_;
  std::vector<void*> gradients_, more_gradients_, used_;
  std::vector<DType> copy_dtype_;  // of used_
};

}  // namespace lamina::train
