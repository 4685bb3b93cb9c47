// Graphs of the fused kernels of AdamW in f32: over whole tensors, and over listed rows of tables.
#pragma once

#include <compare>
#include <cstdint>
#include <span>

#include "config/sections.h"
#include "graph/graph.h"

namespace lamina::train {

struct FusedAdamw {
  std::int64_t rows = 1, width = 1;  // of the parameter; a whole tensor is rows of width 1
  std::int64_t slots = 0;            // of the list of rows of the gradient; 0: it is whole
  double weight_decay = 0;
  bool copy = false;  // also the new values in bf16
  auto operator<=>(const FusedAdamw&) const = default;
};

// Returns a graph of several updates. Inputs of each: p, (ids,) g, m, v, scalars f32[5], and with a
// list the copy. Outputs of each, in place: p, m, v, and the copy.
Graph fused_adamw_graph(std::span<const FusedAdamw> kinds, const config::OptimizerSection& config);

}  // namespace lamina::train
