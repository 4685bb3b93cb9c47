// The rules by which an optimizer updates parameters: the rule of each parameter, its state between
// steps, and one update as a graph. docs/optimizers.md has the equations.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "config/sections.h"
#include "decoder/stack/parameter.h"
#include "graph/graph.h"

namespace lamina::train {

enum class UpdateRule { adamw, sgd, muon, lion, adafactor };

// Returns the rule of optimizer.name. Muon is for matrices of weights and routers, one by one if
// there are several (experts). Beside it all other parameters have AdamW, with Nesterov's momentum.
UpdateRule rule_of(const decoder::Parameter& parameter, const config::OptimizerSection& config);

// A tensor of optimizer state. Its name in checkpoints is the prefix and the parameter's name:
// "m.embed.weight".
struct StateSpec {
  std::string prefix;
  Type type;
};
std::vector<StateSpec> state_of(const decoder::Parameter& parameter,
                                const config::OptimizerSection& config);

// Number of elements that share a scale, in a moment of 8 bits.
constexpr std::int64_t kBlock = 256;

// The properties that the graph of an update depends on.
struct UpdateKind {
  UpdateRule rule = UpdateRule::adamw;
  // A matrix or several. For elementwise rules: one row, or rows of kBlock.
  std::int64_t batch = 1, rows = 1, width = 1;
  double weight_decay = 0;
  bool copy = false;   // also the new values in bf16
  bool skips = false;  // changes nothing if the scalar kMayChange is 0
  std::vector<std::int64_t> split_rows = {};
  auto operator<=>(const UpdateKind&) const = default;
};

// True if the rule treats each element alone, so that large tensors can be updated in pieces.
bool is_elementwise(UpdateRule rule);

// Inputs: p, g, each state of state_of(), scalars f32[6]. Outputs: p and the states, in place, and
// the copy.
Graph update_graph(const UpdateKind& kind, const config::OptimizerSection& config);

// The scalars of a step, which counts from 1: the learning rate, the scale of gradients, two
// corrections, 1 for kMayChange, and a correction for the next step.
inline constexpr std::size_t kNumScalars = 6;
inline constexpr std::size_t kGradientScale = 1, kMayChange = 4;
std::array<float, kNumScalars> update_scalars(UpdateRule rule,
                                              const config::OptimizerSection& config, double lr,
                                              double gradient_scale, std::int64_t step);

}  // namespace lamina::train
