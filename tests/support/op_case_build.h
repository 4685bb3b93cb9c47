// Helpers for the checks of op cases: a case as a graph with numbers, and comparisons.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/backend.h"
#include "support/op_cases.h"

namespace lamina::testing {

// A graph of one node (or of its definition), and the case's numbers for its inputs.
struct Built {
  Graph graph;
  std::vector<Array> inputs;  // without absent ones
  std::vector<Tensor> operands, results;

  const Node& node() const { return graph.nodes().front(); }
};

// Builds the case with floating inputs in `dtype`, rounded to `rounded` first.
void build(const OpCases& list, const OpCase& c, DType dtype, DType rounded, Built& out);

void add_outputs(Graph& graph, std::span<const Tensor> results);

// Calls check(case, dtype) for each case and dtype, and names them in failures.
void for_each(const OpCases& list, const std::function<void(const OpCase&, DType)>& check);

// check_decode() of op_cases.h, on any backend.
void check_decode(const OpCases& list, const Backend& backend);

// Errors are relative to the largest expected number; `what` names the result.
void expect_close(const Array& got, const Doubles& want, double tolerance, const std::string& what);

}  // namespace lamina::testing
