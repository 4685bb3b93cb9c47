// Reverse-mode differentiation of plain graphs.
#include "autodiff/vjp.h"

#include "ops/op.h"
#include "support/expect_error.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

const Type kRow{DType::f64, {3}, {}};

// Gradient of the sum of `y` by each of `wanted`; zeros for a tensor that y does not depend on.
std::vector<Tensor> gradients(Graph& g, Tensor y, std::vector<Tensor> wanted) {
  Tensor one = ops::constant(g, y.type(), 1);
  return autodiff::vjp(g, std::span(&y, 1), std::span(&one, 1), wanted,
                       autodiff::save_everything());
}

Doubles value_of(Graph& g, Tensor t, std::vector<Array> inputs) {
  g.add_output("value", t);
  return to_doubles(run(g, std::move(inputs))[0]);
}

TEST(Vjp, Example) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  Tensor dx = gradients(g, ops::square(x), {x})[0];
  EXPECT_EQ(value_of(g, dx, {array(kRow, {1, 2, 3})}), (Doubles{2, 4, 6}));
}

TEST(Vjp, UsesOfAValueAddUp) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  Tensor dx = gradients(g, x * x + ops::scale(x, 5), {x})[0];
  EXPECT_EQ(value_of(g, dx, {array(kRow, {1, 2, 3})}), (Doubles{7, 9, 11}));
}

TEST(Vjp, IsNullWithoutAPathToTheOutput) {
  Graph g;
  Tensor x = g.add_input("x", kRow), y = g.add_input("y", kRow);
  auto grads = gradients(g, ops::exp(x) + ops::call("stop_gradient", {y}), {x, y});
  EXPECT_TRUE(grads[0]);
  EXPECT_FALSE(grads[1]);
}

TEST(Vjp, StopGradientCutsOnePathOnly) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  Tensor dx = gradients(g, x * ops::call("stop_gradient", {x}), {x})[0];
  EXPECT_EQ(value_of(g, dx, {array(kRow, {1, 2, 3})}), (Doubles{1, 2, 3}));
}

// The op is differentiated through its decomposition, and one of its operands depends on another.
TEST(Vjp, OperandsThatDependOnEachOtherAreCountedOnce) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  Tensor up = ops::scale(x, 3);
  Tensor dx =
      gradients(g, ops::call("glu", {x, up}, {{"activation", std::string("relu")}}), {x})[0];
  EXPECT_EQ(value_of(g, dx, {array(kRow, {1, 2, 3})}), (Doubles{6, 12, 18}));
}

TEST(Vjp, OneValueAsBothOperandsIsCountedOnce) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  Tensor dx = gradients(g, ops::call("glu", {x, x}, {{"activation", std::string("relu")}}), {x})[0];
  EXPECT_EQ(value_of(g, dx, {array(kRow, {1, 2, 3})}), (Doubles{2, 4, 6}));
}

TEST(Vjp, OfAbsIsZeroAtZero) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  Tensor dx = gradients(g, ops::call("abs", {x}), {x})[0];
  EXPECT_EQ(value_of(g, dx, {array(kRow, {-2, 0, 3})}), (Doubles{-1, 0, 1}));
}

TEST(Vjp, OfABaseWithTheExponentZeroIsZero) {
  Graph g;
  Tensor a = g.add_input("a", kRow), b = g.add_input("b", kRow);
  Tensor da = gradients(g, ops::call("pow", {a, b}), {a})[0];
  EXPECT_EQ(value_of(g, da, {array(kRow, {0, 2, 3}), array(kRow, {0, 0, 2})}), (Doubles{0, 0, 6}));
}

TEST(Vjp, OfTheExponentOfABaseThatIsNotPositiveIsZero) {
  Graph g;
  Tensor a = g.add_input("a", kRow), b = g.add_input("b", kRow);
  Tensor db = gradients(g, ops::call("pow", {a, b}), {b})[0];
  EXPECT_EQ(value_of(g, db, {array(kRow, {0, 0, -2}), array(kRow, {-1, 2, 0.5})}),
            (Doubles{0, 0, 0}));
}

TEST(Vjp, GradientsOfBf16ParametersAreF32) {
  Graph g;
  Tensor x = g.add_input("x", {DType::bf16, {4, 6}, {}}),
         w = g.add_input("w", {DType::bf16, {5, 6}, {}});
  Tensor norm = g.add_input("norm", {DType::bf16, {5}, {}});
  auto grads = gradients(g, ops::call("rms_norm", {ops::linear(x, w), norm}), {x, w, norm});
  EXPECT_EQ(grads[0].dtype(), DType::bf16);
  EXPECT_EQ(grads[1].dtype(), DType::f32);
  EXPECT_EQ(grads[2].dtype(), DType::f32);
}

TEST(Vjp, LossIsTakenFromTheWalkThatMakesItsGradient) {
  Graph g;
  Tensor x = g.add_input("x", {DType::f32, {4, 6}, {}}),
         w = g.add_input("w", {DType::f32, {9, 6}, {}});
  Tensor labels = g.add_input("labels", {DType::i32, {4}, {}});
  Tensor loss = ops::call_all("cross_entropy", {x, w, labels})[0];
  g.add_output("loss", loss);
  Tensor dw = gradients(g, loss, {w})[0];
  g.add_output("dw", dw);
  Graph best = optimized_for(cpu::cpu_backend(), g);
  for (const Node& node : best.nodes()) EXPECT_NE(node.op->name, "cross_entropy");
}

TEST(Vjp, NamesTheOpThatHasNoGradient) {
  Graph g;
  Tensor cache = g.add_input("cache", {DType::f32, {1, 4, 2, 3}, {}});
  Tensor q = g.add_input("q", {DType::f32, {1, 1, 2, 3}, {}});
  Tensor start = g.add_input("start", {DType::i32, {1}, {}});
  Tensor y =
      ops::call_all("attention", {q, cache, cache, {}, {}, {}, {}, {}, {}, {}, {}, {}, start})[0];
  EXPECT_ERROR_SAYS(gradients(g, y, {q}), ExitCode::usage,
                    "attention over decode state has no gradient");
}

}  // namespace
}  // namespace lamina::testing
