// Building graphs: refusals, and the information that nodes keep.
#include "graph/graph.h"

#include <limits>
#include <vector>

#include "ops/registry.h"
#include "ops/tensor.h"
#include "support/expect_error.h"

namespace lamina {
namespace {

const Type kMatrix{DType::f32, {2, 3}, {}};

TEST(Graph, Example) {
  Graph g;
  Tensor x = g.add_input("x", kMatrix);
  g.add_output("y", ops::exp(x) + x);
  ASSERT_EQ(g.nodes().size(), 2u);
  EXPECT_EQ(g.node(1).op->name, "add");
  EXPECT_EQ(g.inputs()[0].name, "x");
  EXPECT_EQ(g.outputs()[0].name, "y");
}

TEST(Graph, RefusalNamesOpAndOrigin) {
  Graph g;
  g.set_origin(std::make_shared<Origin>(Origin{"layers/attention", "model.cc", 37}));
  Tensor x = g.add_input("x", kMatrix), w = g.add_input("w", {DType::f32, {4}, {}});
  EXPECT_USER_ERROR(ops::call("rms_norm", {x, w}), ExitCode::usage,
                    "rms_norm: w must be [3] to match the last dim of x f32[2, 3], got f32[4]\n"
                    "  layers/attention, built at model.cc:37");
}

TEST(Graph, RefusesMissingAndSurplusInputs) {
  Graph g;
  Tensor x = g.add_input("x", kMatrix);
  EXPECT_ERROR_SAYS(ops::call("add", {x}), ExitCode::usage, "input 'b' is missing");
  EXPECT_ERROR_SAYS(ops::call("exp", {x, x}), ExitCode::usage, "takes 1 inputs, got 2");
}

TEST(Graph, AttributesTakeTheirDefaults) {
  Graph g;
  Tensor x = g.add_input("x", kMatrix);
  ops::call("rms_norm", {x});
  const Node& node = g.nodes().front();
  EXPECT_EQ(std::get<double>(node.attrs[static_cast<std::size_t>(node.op->attr_index("eps"))]),
            1e-6);
}

TEST(Graph, NodesHaveAnOperandForEveryInput) {
  Graph g;
  Tensor x = g.add_input("x", kMatrix);
  ops::call("layer_norm", {x});
  ops::layer_norm(x);
  EXPECT_EQ(g.node(0).inputs, (ValueList{x.id, kNoValue, kNoValue}));
  EXPECT_EQ(g.node(1).inputs, g.node(0).inputs);
}

TEST(Graph, EqualStructureIsEqualForAllNames) {
  auto make = [](const char* name, double by) {
    Graph g;
    g.add_output("y", ops::scale(g.add_input(name, kMatrix), by));
    return g;
  };
  EXPECT_TRUE(same_graph(make("x", 2), make("z", 2)));
  EXPECT_FALSE(same_graph(make("x", 2), make("x", 3)));
}

TEST(Graph, BodiesAreComparedByStructure) {
  auto body = [](double by) {
    auto g = std::make_shared<Graph>();
    g->add_output("y", ops::scale(g->add_input("x", kMatrix), by));
    return AttrValue(std::shared_ptr<const Graph>(g));
  };
  EXPECT_TRUE(same_attr(body(2), body(2)));
  EXPECT_FALSE(same_attr(body(2), body(3)));
  EXPECT_FALSE(same_attr(AttrValue(1.0), AttrValue(std::int64_t{1})));
}

TEST(Graph, NumbersOfAttributesAreComparedByTheirBits) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  using List = std::vector<double>;
  EXPECT_FALSE(same_attr(AttrValue(0.0), AttrValue(-0.0)));
  EXPECT_TRUE(same_attr(AttrValue(-0.0), AttrValue(-0.0)));
  EXPECT_TRUE(same_attr(AttrValue(nan), AttrValue(nan)));
  EXPECT_FALSE(same_attr(AttrValue(List{1, 0.0}), AttrValue(List{1, -0.0})));
  EXPECT_FALSE(same_attr(AttrValue(List{1}), AttrValue(List{1, 1})));
  EXPECT_TRUE(same_attr(AttrValue(List{1, nan}), AttrValue(List{1, nan})));
}

TEST(Registry, NumbersAndNamesAreUnique) {
  std::vector<std::string> names;
  for (const Op& op : ops::all()) {
    EXPECT_EQ(ops::find(op.name), &op);
    if (!op.host_only()) {
      EXPECT_EQ(ops::find(op.id, op.revision), &op);
    }
  }
  EXPECT_EQ(ops::find("no_such_op"), nullptr);
  EXPECT_EQ(ops::find(999u, 1), nullptr);
}

// A primitive without a gradient would make training fail: each op has exactly one way to be
// differentiated.
TEST(Registry, EveryOpHasAShapeRuleAndAGradientOrNone) {
  for (const Op& op : ops::all()) {
    EXPECT_NE(op.def->infer, nullptr) << op.name;
    bool known = op.def->vjp || op.def->lower || op.def->zero_gradient || op.name == "scan";
    EXPECT_TRUE(known) << op.name;
  }
}

}  // namespace
}  // namespace lamina
