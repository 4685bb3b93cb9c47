// The verifier.
#include "core/error.h"
#include "ops/tensor.h"
#include "support/expect_error.h"

namespace lamina {
namespace {

const Type kThree{DType::f32, {3}, {}};

TEST(Verify, AcceptsBuiltGraphs) {
  Graph g;
  g.add_output("y", ops::exp(g.add_input("x", kThree)));
  EXPECT_NO_THROW(verify(g, "tracing"));
}

TEST(Verify, NamesThePassThatBrokeAType) {
  auto body = std::make_shared<Graph>();
  body->add_output("c", ops::exp(body->add_input("c", kThree)));
  Graph g;
  Tensor x = g.add_input("x", kThree);
  ops::call_all("scan", {x},
                {{"body", std::shared_ptr<const Graph>(body)}, {"num_carries", std::int64_t{1}}});
  // A body whose carry is wider than the operand.
  auto other = std::make_shared<Graph>();
  other->add_output("c", ops::exp(other->add_input("c", {DType::f32, {4}, {}})));
  g.replace_body(0, other, {});
  EXPECT_THROW(verify(g, "breaking"), Error);
}

TEST(Verify, NamesResultsThatTheShapeRuleDoesNotHave) {
  auto body = std::make_shared<Graph>();
  body->add_output("c", ops::exp(body->add_input("c", kThree)));
  Graph g;
  Tensor x = g.add_input("x", kThree);
  ops::call_all("scan", {x},
                {{"body", std::shared_ptr<const Graph>(body)}, {"num_carries", std::int64_t{1}}});
  g.replace_body(0, body, std::span(&kThree, 1));
  EXPECT_ERROR_SAYS(verify(g, "breaking"), ExitCode::unclassified,
                    "graph after breaking: node 0 (scan) has 2 results, its shape rule says 1");
}

TEST(Verify, NamesNodesThatLackAnInput) {
  Graph g, broken;
  ops::rms_norm(g.add_input("x", kThree));
  Tensor x = broken.add_input("x", kThree);
  broken.add_copy(g, g.node(0), {x.id});
  EXPECT_ERROR_SAYS(verify(broken, "breaking"), ExitCode::unclassified,
                    "graph after breaking: node 0 (rms_norm) has 1 inputs, expected 2");
}

}  // namespace
}  // namespace lamina
