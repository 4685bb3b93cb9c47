// Passes and the bodies of scans: a shared body is transformed once; a body that stays in use is
// unchanged.
#include "passes/levels.h"

#include <gtest/gtest.h>

#include "ops/op.h"
#include "passes/common_subexpressions.h"
#include "passes/count_ops.h"
#include "passes/dead_code.h"
#include "passes/hoist.h"
#include "passes/pipeline.h"
#include "passes/share_bodies.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

using Body = std::shared_ptr<const Graph>;

const Type kRow{DType::f32, {3}, {}}, kStacked{DType::f32, {2, 3}, {}};

// c' = c * exp(k) + a, and y = exp(k) * a.
Body layer() {
  auto body = std::make_shared<Graph>();
  Tensor k = body->add_input("k", kRow), c = body->add_input("c", kRow),
         a = body->add_input("a", kRow);
  body->add_output("c", c * ops::exp(k) + a);
  body->add_output("y", ops::exp(k) * a);
  return body;
}

// One scan per body, in sequence; y is read of the first `read` scans.
Graph scans(const std::vector<Body>& bodies, std::size_t read) {
  Graph g;
  Tensor k = g.add_input("k", kRow), c = g.add_input("c", kRow);
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    auto made = ops::call_all("scan", {k, c, g.add_input("a", kStacked)},
                              {{"body", bodies[i]},
                               {"times", std::int64_t{2}},
                               {"num_consts", std::int64_t{1}},
                               {"num_carries", std::int64_t{1}}});
    c = made[0];
    if (i < read) g.add_output("y", made[1]);
  }
  g.add_output("c", c);
  return g;
}

std::vector<Body> bodies_of(const Graph& g) {
  std::vector<Body> out;
  for (const Node& node : g.nodes())
    if (node.op->name == "scan") out.push_back(node.body());
  return out;
}

TEST(Levels, SharedBodiesAreTransformedOnceAndStayShared) {
  int asked = 0;
  Body body = layer();
  Graph out = passes::on_all_levels(scans({body, body}, 2), [&](const Graph& level) {
    ++asked;
    std::optional<Graph> made;
    if (level.inputs().size() == 3 && level.inputs()[0].name == "k" && level.nodes().size() == 5)
      made = passes::merge_common_subexpressions(level);
    return made;
  });
  EXPECT_EQ(asked, 2);  // the body and the graph around it
  EXPECT_NE(bodies_of(out)[0], body);
  EXPECT_EQ(bodies_of(out)[0], bodies_of(out)[1]);
}

TEST(Levels, UnchangedGraphsAreTheSameObject) {
  Body body = layer();
  Graph out =
      passes::on_all_levels(scans({body}, 1), [](const Graph&) { return std::optional<Graph>(); });
  EXPECT_EQ(bodies_of(out)[0], body);
  Graph merged = passes::merge_common_subexpressions(std::move(out));
  Body once = bodies_of(merged)[0];
  EXPECT_NE(once, body);
  merged = passes::remove_dead_code(passes::merge_common_subexpressions(std::move(merged)));
  EXPECT_EQ(bodies_of(merged)[0], once);
}

TEST(Levels, BodiesInBodiesAreReached) {
  auto outer = std::make_shared<Graph>(scans({layer()}, 0));
  Graph g;
  g.add_output("c", ops::call_all("scan",
                                  {g.add_input("k", kRow), g.add_input("c", kRow),
                                   g.add_input("a", {DType::f32, {4, 2, 3}, {}})},
                                  {{"body", Body(outer)},
                                   {"times", std::int64_t{4}},
                                   {"num_consts", std::int64_t{1}},
                                   {"num_carries", std::int64_t{1}}})[0]);
  EXPECT_EQ(count_ops(g, "exp"), 2);
  EXPECT_EQ(count_ops(passes::merge_common_subexpressions(g), "exp"), 1);
}

TEST(Levels, EqualBodiesBecomeOne) {
  Graph out = passes::share_bodies(scans({layer(), layer(), layer()}, 3));
  EXPECT_EQ(bodies_of(out)[0], bodies_of(out)[1]);
  EXPECT_EQ(bodies_of(out)[0], bodies_of(out)[2]);
}

TEST(Levels, HoistingFromASharedBodyKeepsItShared) {
  Body body = layer();
  Graph g = scans({body, body}, 2), out = passes::hoist_from_scans(g);
  verify(out, "hoisting");
  EXPECT_EQ(bodies_of(out)[0], bodies_of(out)[1]);
  EXPECT_EQ(count_ops(*bodies_of(out)[0], "exp"), 0);
}

TEST(Levels, ScansThatLoseTheSameStayShared) {
  Body body = layer();
  Graph out = passes::remove_dead_code(scans({body, body, body}, 1));
  verify(out, "dead code");
  std::vector<Body> left = bodies_of(out);
  EXPECT_EQ(left[0], body);
  EXPECT_NE(left[1], body);
  EXPECT_EQ(left[1], left[2]);
  EXPECT_EQ(left[1]->outputs().size(), 1u);
}

// Ops that only compute a removed operand of a scan are removed in the same pass.
TEST(Levels, ProducersOfRemovedOperandsAreRemoved) {
  auto body = std::make_shared<Graph>();
  body->add_input("k", kRow);
  body->add_output("c", ops::neg(body->add_input("c", kRow)));
  Graph g;
  Tensor k = ops::exp(g.add_input("k", kRow));
  g.add_output("c", ops::call_all("scan", {k, g.add_input("c", kRow)},
                                  {{"body", Body(body)},
                                   {"times", std::int64_t{2}},
                                   {"num_consts", std::int64_t{1}},
                                   {"num_carries", std::int64_t{1}}})[0]);
  Graph out = passes::remove_dead_code(g);
  ASSERT_EQ(out.nodes().size(), 1u);
  EXPECT_EQ(out.nodes()[0].inputs.size(), 1u);
}

TEST(Levels, PassesKeepTheBitsOfScans) {
  Body body = layer();
  Graph g = scans({body, layer(), body}, 2);
  std::mt19937 random(5);
  std::vector<Array> inputs;
  for (const GraphInput& input : g.inputs())
    inputs.push_back(random_array(g.type(input.value), random));
  auto want = run_unoptimized(g, inputs), got = run_unoptimized(passes::simplify(g), inputs);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].bytes, want[i].bytes);
}

// Would take seconds if a pass walked the graph for each of its nodes.
TEST(Levels, LongGraphsTakeTimeByTheirLengthAlone) {
  Graph g;
  Tensor x = g.add_input("x", kRow), first = x;
  for (int i = 0; i < 15000; ++i)
    x = i % 50 ? ops::scale(x, 1.0 + i) : x + ops::reduce_sum(ops::exp(first), {0}, true);
  g.add_output("x", x);
  Graph out = passes::optimize(passes::simplify(g), [](const Graph&, const Node&) { return true; });
  EXPECT_EQ(count_ops(out, "scale"), 14700);
  EXPECT_LT(out.nodes().size(), 2000u);
}

}  // namespace
}  // namespace lamina::testing
