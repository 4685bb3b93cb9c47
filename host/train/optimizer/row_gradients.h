// Gradients of tables that are only looked up, as lists of the rows that were.
//
// A lookup adds one row per token to the gradient of its table; a table of a billion rows has
// a gradient that is zero nearly everywhere. Such a gradient is kept as a list: the ids of its
// rows, rising, and the rows, summed by id (op sum_rows). Cost and memory go with the tokens of a
// step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decoder/model.h"

namespace lamina::train {

// Makes lists of the gradients that add_gradients() gave, where a gradient is a sum of lookups and
// of nothing else: at the top or in the body of a scan. Output::gradient is then f32[(times,) S,
// D], and a further output, Output::gradient_ids, i32[(times,) S]. The rows have the bits of the
// whole gradient. A table that is also read otherwise (tied to the head) keeps a whole one.
decoder::ModelGraph list_table_gradients(decoder::ModelGraph graph);

// How gradients are kept, by parameter. Which are lists, and of how many slots; 0, or no element:
// whole.
struct GradientLists {
  std::vector<std::int64_t> microbatch;  // what one microbatch fills at most
  std::vector<std::int64_t> step;        // what all of them do

  // With optimizer.in_backward a gradient of layer_gradients.h lives until its layer is updated, in
  // memory that all layers share: the byte where; -1, or no element: it has memory of its own.
  std::vector<std::int64_t> shared;
  std::size_t shared_bytes = 0;

  bool any() const;
  bool is_shared(int parameter) const {
    return !shared.empty() && shared[static_cast<std::size_t>(parameter)] >= 0;
  }
  std::size_t num_shared() const;
  bool operator==(const GradientLists&) const = default;
};

// Those of a graph that is run `microbatches` times a step; with `in_backward` they share memory
// where they can. REQUIRES: one microbatch then.
GradientLists gradient_lists(const decoder::ModelGraph& graph,
                             const decoder::ParameterTable& parameters, std::int64_t microbatches,
                             bool in_backward = false);

}  // namespace lamina::train
