// Merging nodes that compute the same value.
#include "passes/common_subexpressions.h"

#include <gtest/gtest.h>

#include "ops/tensor.h"
#include "passes/count_ops.h"
#include "passes/dead_code.h"

namespace lamina::testing {
namespace {

const Type kRow{DType::f32, {3}, {}};

Graph merged(const Graph& g) {
  Graph out = passes::remove_dead_code(passes::merge_common_subexpressions(g));
  verify(out, "merging");
  return out;
}

TEST(CommonSubexpressions, EqualChainsBecomeOne) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  g.add_output("a", ops::exp(ops::scale(x, 2)));
  g.add_output("b", ops::exp(ops::scale(x, 2)));
  Graph out = merged(g);
  EXPECT_EQ(out.nodes().size(), 2u);
  EXPECT_EQ(out.outputs()[0].value, out.outputs()[1].value);
}

TEST(CommonSubexpressions, OperandsInAnotherOrderStayApart) {
  Graph g;
  Tensor x = g.add_input("x", kRow), y = g.add_input("y", kRow);
  g.add_output("a", x - y);
  g.add_output("b", y - x);
  EXPECT_EQ(merged(g).nodes().size(), 2u);
}

TEST(CommonSubexpressions, DifferentTagsStayApart) {
  Graph g;
  Tensor x = g.add_input("x", kRow), a = ops::exp(x), b = ops::exp(x);
  g.set_tag(a.id, "context");
  g.add_output("a", a);
  g.add_output("b", b);
  EXPECT_EQ(merged(g).nodes().size(), 2u);
}

TEST(CommonSubexpressions, ZerosOfBothSignsStayApart) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  g.add_output("a", ops::scale(x, 0.0));
  g.add_output("b", ops::scale(x, -0.0));
  g.add_output("c", ops::constant(g, kRow, 0.0));
  g.add_output("d", ops::constant(g, kRow, -0.0));
  EXPECT_EQ(merged(g).nodes().size(), 4u);
}

TEST(CommonSubexpressions, StateIsWrittenAsOftenAsAsked) {
  Graph g;
  Tensor cache = g.add_input("cache", {DType::f32, {1, 4, 2}, {}});
  Tensor update = g.add_input("update", {DType::f32, {1, 1, 2}, {}});
  Tensor start = g.add_input("start", {DType::i32, {1}, {}});
  g.add_output("a", ops::call("cache_write", {cache, update, start}));
  g.add_output("b", ops::call("cache_write", {cache, update, start}));
  EXPECT_EQ(count_ops(merged(g), "cache_write"), 2);
}

TEST(CommonSubexpressions, BodiesAreMergedInside) {
  auto body = std::make_shared<Graph>();
  Tensor c = body->add_input("c", kRow);
  body->add_output("c", ops::exp(c) + ops::exp(c));
  Graph g;
  g.add_output("c", ops::call_all("scan", {g.add_input("c", kRow)},
                                  {{"body", std::shared_ptr<const Graph>(body)},
                                   {"times", std::int64_t{2}},
                                   {"num_carries", std::int64_t{1}}})[0]);
  EXPECT_EQ(count_ops(merged(g), "exp"), 1);
}

TEST(CommonSubexpressions, ResultsThatAreWrittenOverStayApart) {
  Graph g;
  Tensor x = g.add_input("x", {DType::f32, {1, 4, 2}, {}});
  Tensor rows = g.add_input("rows", {DType::f32, {1, 1, 2}, {}});
  Tensor start = g.add_input("start", {DType::i32, {1}, {}});
  for (int i = 0; i < 2; ++i) g.add_output("y", ops::cache_write(ops::neg(x), rows, start));
  Tensor kept = ops::neg(x);
  g.add_output("a", ops::reshape(kept, {8}));
  g.add_output("b", ops::reshape(kept, {8}));
  const Graph out = merged(g);
  EXPECT_EQ(count_ops(out, "neg"), 3);
  EXPECT_EQ(count_ops(out, "reshape"), 1);
}

}  // namespace
}  // namespace lamina::testing
