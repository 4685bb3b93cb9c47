// Gradients of tables that are only looked up, as lists of the rows that were.
//
// A lookup adds one row per token to the gradient of its table; a table of a billion rows has
// a gradient that is zero nearly everywhere. Such a gradient is kept as a list: the ids of its
// rows, rising, and the rows, summed by id (op sum_rows). Cost and memory go with the tokens of a
// step.
#pragma once

#include <cstdint>
#include <vector>

#include "decoder/model.h"

namespace lamina::train {

// Makes lists of the gradients that add_gradients() gave, where a gradient is a sum of lookups and
// of nothing else: at the top or in the body of a scan. Output::gradient is then f32[(times,) S,
// D], and a further output, Output::gradient_ids, i32[(times,) S]. The rows have the bits of the
// whole gradient. A table that is also read otherwise (tied to the head) keeps a whole one.
decoder::ModelGraph list_table_gradients(decoder::ModelGraph graph);

// Which gradients are lists, and of how many slots, by parameter. 0, or no element: whole.
struct GradientLists {
  std::vector<std::int64_t> microbatch;  // what one microbatch fills at most
  std::vector<std::int64_t> step;        // what all of them do

  bool any() const;
  bool operator==(const GradientLists&) const = default;
};

// Those of a graph that is run `microbatches` times a step.
GradientLists gradient_lists(const decoder::ModelGraph& graph,
                             const decoder::ParameterTable& parameters, std::int64_t microbatches);

}  // namespace lamina::train
