// The parameters of a model: one entry per tensor, named by global layer index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/type.h"
#include "registry/block_desc.h"

namespace lamina::decoder {

// The options of a run for the training of a parameter.
struct Learning {
  bool frozen = false;    // does not change, to the bit
  bool exact = false;     // stored without more digits than the run computes with; needs frozen
  double lr_scale = 1;    // of the run's learning rate
  double multiplier = 1;  // times what the optimizer updates
  std::optional<double> weight_decay;         // nothing: the run's, where it decays
  std::vector<std::int64_t> split_rows = {};  // of the matrices that are its parts
};

// Returns "attention.wq" for "attention.wq.weight"; other names unchanged.
std::string module_name(std::string_view weight);

// Suffixes of an adapter's parameters for the matrix "attention.wq.weight": "attention.wq.lora_a",
// ".lora_b" and, with DoRA, ".lora_magnitude".
inline constexpr std::string_view kAdapterDown = ".lora_a", kAdapterUp = ".lora_b",
                                  kAdapterMagnitude = ".lora_magnitude";
std::string adapter_name(std::string_view weight, std::string_view part);
// Returns the adapted matrix of "attention.wq.lora_a"; empty for other names.
std::string adapted_name(std::string_view adapter);
inline bool is_adapter(std::string_view name) {
  return name.ends_with(kAdapterDown) || name.ends_with(kAdapterUp) ||
         name.ends_with(kAdapterMagnitude);
}

// One tensor: "layers.3.attention.wq.weight", "embed.weight".
struct Parameter {
  std::string name;
  std::int64_t layer = -1;   // global index; -1 outside the layers
  std::uint32_t block = 0;   // id of the block it belongs to; 0 outside
  registry::ParamDesc desc;  // its name is that inside the block
  Learning learning = {};
  // The format of its values in memory (Type::storage), in training only if it is frozen; null:
  // plain.
  const formats::BlockFormat* storage = nullptr;

  std::int64_t num_elements() const { return desc.shape.num_elements(); }
  // True if it has a gradient and moments.
  bool learns() const { return desc.trained && !learning.frozen; }
  // True if weight decay applies. The plugin decides; else matrices, tables and heads decay, but no
  // biases, gains, scalars or parameters of one dim.
  bool decays() const;
  // Returns the element type for ops of a run in `compute`. The plugin decides; else parameters
  // with at most one dim are f32 for any compute type.
  DType used_dtype(DType compute) const;
  // Returns the type of its memory in such a run, with its storage.
  Type used_type(DType compute) const {
    return Type{used_dtype(compute), desc.shape, {}}.stored_as(storage);
  }
  // Returns the element type in memory of a training run: f32, or used_dtype() if this loses
  // nothing or the values are in blocks.
  DType kept_dtype(DType compute) const {
    return learning.frozen && (learning.exact || storage) ? used_dtype(compute) : DType::f32;
  }
  // Returns the type of its memory in a training run, with its storage.
  Type kept_type(DType compute) const {
    return Type{kept_dtype(compute), desc.shape, {}}.stored_as(learning.frozen ? storage : nullptr);
  }
};

// All parameters of a model, in the order of the stack: embedding, layers, norm, head.
class ParameterTable {
 public:
  // Throws PluginError if the name is taken.
  int add(Parameter parameter);
  const std::vector<Parameter>& all() const { return parameters_; }
  const Parameter& operator[](int index) const {
    return parameters_[static_cast<std::size_t>(index)];
  }
  // Returns -1 if there is none.
  int find(std::string_view name) const;
  std::int64_t num_elements() const;
  void set_learning(int index, const Learning& learning) {
    parameters_[static_cast<std::size_t>(index)].learning = learning;
  }
  void set_storage(int index, const formats::BlockFormat* storage) {
    parameters_[static_cast<std::size_t>(index)].storage = storage;
  }
  void set_init(int index, const registry::InitSpec& init) {
    parameters_[static_cast<std::size_t>(index)].desc.init = init;
  }

 private:
  std::vector<Parameter> parameters_;
  std::unordered_map<std::string, int> by_name_;
};

}  // namespace lamina::decoder
