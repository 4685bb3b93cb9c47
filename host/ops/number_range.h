// The least and the largest element of a value, from op to op.
#pragma once

#include <optional>
#include <span>

#include "graph/graph.h"

namespace lamina::ops {

struct NumberRange {
  double least, most;
};

// Returns the range of the one result of `node`, from a range for each of its inputs; nothing for
// ops that are not followed.
std::optional<NumberRange> range_of_result(const Graph& graph, const Node& node,
                                           std::span<const NumberRange> inputs);

}  // namespace lamina::ops
