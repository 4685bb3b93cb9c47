// The parameters of a model: one entry a tensor, named by global layer index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/type.h"
#include "registry/trace.h"

namespace lamina::decoder {

// What a run says of how a parameter learns.
struct Learning {
  bool frozen = false;                        // stays as it is, to the bit
  bool exact = false;                         // and has no more digits than the run computes with
  double lr_scale = 1;                        // of the run's learning rate
  double multiplier = 1;                      // times what the optimizer updates
  std::optional<double> weight_decay;         // nothing: the run's, where it decays
  std::vector<std::int64_t> split_rows = {};  // the matrix is several ones, of so many rows
};

// "attention.wq" of "attention.wq.weight"; other names as they are.
std::string module_name(std::string_view weight);

// What an adapter adds to the matrix "attention.wq.weight": "attention.wq.lora_a", ".lora_b" and,
// with DoRA, ".lora_magnitude".
inline constexpr std::string_view kAdapterDown = ".lora_a", kAdapterUp = ".lora_b",
                                  kAdapterMagnitude = ".lora_magnitude";
std::string adapter_name(std::string_view weight, std::string_view part);
// The matrix that "attention.wq.lora_a" is of; empty for other names.
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

  std::int64_t num_elements() const { return desc.shape.num_elements(); }
  // Whether it has a gradient and moments.
  bool learns() const { return desc.trained && !learning.frozen; }
  // Weight decay: what the plugin says, else by role: matrices, tables and heads; no biases, gains
  // or scalars, nor anything of one dim.
  bool decays() const;
  // The element type that ops of a run in `compute` read: what the plugin says, else by dims:
  // those with one dim or none stay in f32 whatever the run computes in.
  DType used_dtype(DType compute) const;
  // That in which a training run keeps it: f32, but used_dtype() where this loses nothing.
  DType kept_dtype(DType compute) const {
    return learning.frozen && learning.exact ? used_dtype(compute) : DType::f32;
  }
};

// All parameters of a model, in the order of the stack: embedding, layers, norm, head.
class ParameterTable {
 public:
  // Throws PluginError when a name is taken.
  int add(Parameter parameter);
  const std::vector<Parameter>& all() const { return parameters_; }
  const Parameter& operator[](int index) const {
    return parameters_[static_cast<std::size_t>(index)];
  }
  // -1 when there is none.
  int find(std::string_view name) const;
  std::int64_t num_elements() const;
  void set_learning(int index, const Learning& learning) {
    parameters_[static_cast<std::size_t>(index)].learning = learning;
  }
  void set_init(int index, const registry::InitSpec& init) {
    parameters_[static_cast<std::size_t>(index)].desc.init = init;
  }

 private:
  std::vector<Parameter> parameters_;
  std::unordered_map<std::string, int> by_name_;
};

}  // namespace lamina::decoder
