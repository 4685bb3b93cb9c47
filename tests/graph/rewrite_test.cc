// Copies of graphs.
#include "graph/rewrite.h"

#include <gtest/gtest.h>

#include "ops/tensor.h"

namespace lamina {
namespace {

const Type kFloats{DType::f32, {3}, {}};

Graph sample() {
  Graph g;
  Tensor x = g.add_input("x", kFloats), w = g.add_input("w", kFloats);
  Tensor y = ops::call("layer_norm", {x, {}, w}, {{"eps", 0.5}});
  g.set_tag(y.id, "context");
  g.add_output("y", y);
  g.add_output("state", ops::exp(w), 1);
  return g;
}

Graph copied(const Graph& from) {
  Graph to;
  Copier copy(from, to);
  copy.inputs();
  for (const Node& node : from.nodes()) copy.node(node);
  copy.outputs();
  return to;
}

TEST(Copier, CopyIsTheSameGraph) {
  Graph g = sample(), other = copied(g);
  EXPECT_TRUE(same_graph(g, other));
  EXPECT_EQ(to_string(g), to_string(other));
}

TEST(Copier, NodeCanBeReplaced) {
  Graph g = sample(), to;
  Copier copy(g, to);
  copy.inputs();
  for (const Node& node : g.nodes()) {
    if (node.op->name == "exp")
      copy.set(node.outputs[0], ops::neg(copy.get(node.inputs[0])));
    else
      copy.node(node);
  }
  copy.outputs();
  EXPECT_EQ(to.node(1).op->name, "neg");
  EXPECT_EQ(to.outputs()[1].alias_input, 1);
}

TEST(Copier, SubstituteInheritsTheTag) {
  Graph g = sample(), to;
  Copier copy(g, to);
  copy.inputs();
  Tensor other = ops::neg(copy.get(g.inputs()[0].value));
  copy.set(g.outputs()[0].value, other);
  EXPECT_EQ(to.value(other.id).tag, "context");
}

TEST(Copier, CopyKeepsNamesOfDims) {
  Graph g;
  Tensor y = ops::exp(g.add_input("x", kFloats));
  const AxisId axis = intern_axis("embed");
  g.set_axes(y.id, std::span(&axis, 1));
  g.add_output("y", y);
  Graph other = copied(g);
  EXPECT_EQ(other.type(other.outputs()[0].value).axes[0], axis);
}

TEST(Copier, SubstituteOfAnotherTypeChangesTypesBehindIt) {
  Graph g, to;
  Tensor x = g.add_input("x", kFloats), w = g.add_input("w", kFloats);
  g.add_output("y", ops::exp(ops::neg(x)));
  g.add_output("z", ops::exp(w));
  Copier copy(g, to);
  copy.set(x.id, to.add_input("x", {DType::bf16, {5, 3}, {}}));
  copy.set(w.id, to.add_input("w", kFloats));
  for (const Node& node : g.nodes()) copy.node(node);
  copy.outputs();
  EXPECT_EQ(to_string(to.type(to.outputs()[0].value)), "bf16[5, 3]");
  EXPECT_EQ(to_string(to.type(to.outputs()[1].value)), "f32[3]");
  verify(to, "copying");
}

TEST(InlineGraph, TakesTensorsForTheInputs) {
  Graph to;
  Tensor a = to.add_input("a", kFloats);
  Tensor operands[] = {ops::neg(a), a};
  std::vector<Tensor> results = inline_graph(sample(), to, operands);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(to.inputs().size(), 1u);
  EXPECT_EQ(to.node(to.value(results[1].id).node).inputs[0], a.id);
}

}  // namespace
}  // namespace lamina
