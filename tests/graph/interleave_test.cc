#include "graph/interleave.h"

#include <gtest/gtest.h>

#include "ops/tensor.h"

namespace lamina {
namespace {

// y = -exp(x), over x; and w + w if `adds`.
Graph interleave_sample(std::int64_t size, bool adds) {
  Graph g;
  Tensor x = g.add_input("x", {DType::f32, {size}, {}});
  Tensor w = g.add_input("w", {DType::f32, {size}, {}});
  g.add_output("y", ops::neg(ops::exp(x)), 0);
  if (adds) g.add_output("z", w + w);
  return g;
}

TEST(Interleaved, EqualNodesAreNeighbours) {
  const Graph a = interleave_sample(3, false), b = interleave_sample(5, true),
              c = interleave_sample(7, false);
  const Graph* const graphs[] = {&a, &b, &c};
  const Graph all = interleaved(graphs);
  std::string order;
  for (const Node& node : all.nodes())
    order += std::string(node.op->name) + to_string(all.type(node.outputs[0])) + " ";
  EXPECT_EQ(order, "expf32[3] expf32[5] expf32[7] negf32[3] negf32[5] negf32[7] addf32[5] ");
  std::string inputs, outputs;
  for (const GraphInput& input : all.inputs())
    inputs += input.name + to_string(all.type(input.value)) + " ";
  for (const GraphOutput& output : all.outputs())
    outputs += output.name + to_string(all.type(output.value)) + " over " +
               std::to_string(output.alias_input) + ", ";
  EXPECT_EQ(inputs, "xf32[3] wf32[3] xf32[5] wf32[5] xf32[7] wf32[7] ");
  EXPECT_EQ(outputs, "yf32[3] over 0, yf32[5] over 2, zf32[5] over -1, yf32[7] over 4, ");
}

TEST(Interleaved, OneGraphIsUnchanged) {
  const Graph a = interleave_sample(3, true);
  const Graph* const graphs[] = {&a};
  EXPECT_TRUE(same_graph(interleaved(graphs), a));
}

}  // namespace
}  // namespace lamina
