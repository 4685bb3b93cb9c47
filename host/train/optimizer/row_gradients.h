// Gradients of tables that are only looked up, as lists of the rows that were looked up.
//
// A lookup adds one row per token to the gradient of its table; a table of a billion rows has
// a gradient that is zero nearly everywhere. Such a gradient is kept as a list: the ids of its
// rows, in rising order, and the rows, summed by id (op sum_rows). Cost and memory are
// proportional to the tokens of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decoder/model.h"

namespace lamina::train {

// Replaces gradients of add_gradients() by lists, if they are sums of lookups and of nothing else:
// at the top or in the body of a scan. Output::gradient is then f32[(times,) S, D], with a further
// output, Output::gradient_ids, i32[(times,) S]. The rows have the same bits as the whole gradient.
// The gradient of a table that is also read otherwise (tied to the head) stays whole.
decoder::ModelGraph list_table_gradients(decoder::ModelGraph graph);

// How gradients are kept, by parameter: the number of slots of a list; 0, or no element, for a
// whole gradient.
struct GradientLists {
  std::vector<std::int64_t> microbatch;  // maximum for one microbatch
  std::vector<std::int64_t> step;        // maximum for all microbatches of a step

  // A gradient of a layer that is updated during the backward pass lives until then, in
  // memory that all layers share: its first byte there; -1, or no element: it has separate memory.
  std::vector<std::int64_t> shared;
  std::size_t shared_bytes = 0;
  // These parameters, by round of the pass (backward_rounds.h).
  std::vector<std::vector<int>> rounds = {};

  bool any() const;
  bool is_shared(int parameter) const {
    return !shared.empty() && shared[static_cast<std::size_t>(parameter)] >= 0;
  }
  std::size_t num_shared() const;
  bool operator==(const GradientLists&) const = default;
};

// Returns the lists of a graph that is run `microbatches` times per step.
GradientLists gradient_lists(const decoder::ModelGraph& graph,
                             const decoder::ParameterTable& parameters, std::int64_t microbatches);

}  // namespace lamina::train
