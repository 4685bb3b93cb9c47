// What the checks of op cases share: a case as a graph with numbers, and comparing numbers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "support/op_cases.h"

namespace lamina::testing {

// A graph of one node (or of what it means), and the case's numbers for its inputs.
struct Built {
  Graph graph;
  std::vector<Array> inputs;  // those that are present
  std::vector<Tensor> operands, results;

  const Node& node() const { return graph.nodes().front(); }
};

// The case with its floating inputs in `dtype`, rounded to `rounded` first.
void build(const OpCases& list, const OpCase& c, DType dtype, DType rounded, Built& out);

void add_outputs(Graph& graph, std::span<const Tensor> results);

// Calls check(case, dtype) for each case and dtype, naming them in failures.
void for_each(const OpCases& list, const std::function<void(const OpCase&, DType)>& check);

// Errors are shares of the largest expected number; `what` names the result.
void expect_close(const Array& got, const Doubles& want, double tolerance, const std::string& what);

}  // namespace lamina::testing
