// custom: an op of a plugin equals its body, or the result of its kernel.
#include "ops/custom.h"

#include "autodiff/vjp.h"
#include "ops/op.h"
#include "ops/required_flops.h"
#include "support/expect_error.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

const Type kRow{DType::f32, {3}, {}};

// by * x for rows of three; ignores the body.
class Multiplies final : public ops::CustomKernel {
 public:
  explicit Multiplies(float by) : by_(by) {}
  std::string refusal(const NodeView& n) const override {
    return n.type(0).dtype == DType::f32 ? "" : "float32 only";
  }
  std::unique_ptr<ops::CustomRun> prepare(const NodeView& n) const override {
    struct Run final : ops::CustomRun {
      std::size_t last = 0;
      float by = 0;
      std::size_t workspace_bytes() const override { return 4; }
      void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace,
               ops::ParallelFor parallel_for) override {
        *static_cast<float*>(workspace) = by;
        struct Context {
          const float *x, *by;
          float* y;
        } context{static_cast<const float*>(inputs[last]), static_cast<float*>(workspace),
                  static_cast<float*>(outputs[0])};
        parallel_for(
            3,
            [](void* of, std::uint64_t i) {
              const auto& c = *static_cast<Context*>(of);
              c.y[i] = *c.by * c.x[i];
            },
            &context);
      }
    };
    auto out = std::make_unique<Run>();
    out->by = by_;
    // In a gradient the cotangent, which is the last input; otherwise x.
    for (int i = 0; i < n.num_inputs(); ++i)
      if (n.has(i)) out->last = static_cast<std::size_t>(i);
    return out;
  }

 private:
  float by_;
};

const Multiplies kTwice(2), kTen(10);

ops::CustomOp named(const char* name, const ops::CustomKernel* kernel, bool is_gradient) {
  ops::CustomOp op;
  op.name = name;
  op.inputs = {{.name = "x"}};
  op.outputs = {{.name = "y"}};
  op.kernel = kernel;
  ops::complete(op, is_gradient, false);
  return op;
}

// y = 2 x, as a node of `op`.
Tensor call(Graph& g, const ops::CustomOp& op, Tensor x) {
  auto body = std::make_shared<Graph>();
  body->add_output("y", ops::scale(body->add_input("x", x.type()), 2));
  const std::pair<std::string_view, AttrValue> attr{"body", std::shared_ptr<const Graph>(body)};
  return g.add_node(op, std::array{x}, std::span(&attr, 1))[0];
}

Array row(std::vector<double> values) { return array(kRow, values); }

TEST(Custom, IsItsBodyWithoutAKernel) {
  const ops::CustomOp op = named("test.twice", nullptr, false);
  Graph g;
  g.add_output("y", call(g, op, g.add_input("x", kRow)));
  EXPECT_EQ(get(run(g, {row({1, 2, 3})})[0], 2), 6);
}

TEST(Custom, EqualsTheResultOfItsKernel) {
  const ops::CustomOp op = named("test.ten", &kTen, false);
  Graph g;
  g.add_output("y", call(g, op, g.add_input("x", kRow)));
  EXPECT_EQ(get(run(g, {row({1, 2, 3})})[0], 2), 30);
}

TEST(Custom, IsItsBodyWhereTheKernelDoesNotTakeTheType) {
  const ops::CustomOp op = named("test.ten", &kTen, false);
  const Type wide = kRow.with(DType::f64);
  Graph g;
  g.add_output("y", call(g, op, g.add_input("x", wide)));
  EXPECT_EQ(get(run(g, {array(wide, {1, 2, 3})})[0], 2), 6);
}

double slope(const ops::CustomOp& op) {
  Graph g;
  Tensor x = g.add_input("x", kRow), seed = g.add_input("seed", kRow);
  Tensor y = call(g, op, x);
  g.add_output("dx", autodiff::vjp(g, std::array{y}, std::array{seed}, std::array{x},
                                   autodiff::save_everything())[0]);
  return get(run(g, {row({1, 2, 3}), row({1, 1, 1})})[0], 1);
}

TEST(Custom, HasTheGradientOfItsBodyWithoutABackwardKernel) {
  EXPECT_EQ(slope(named("test.ten", &kTen, false)), 2);
}

TEST(Custom, HasTheGradientOfItsBackwardKernel) {
  const ops::CustomOp gradient = named("test.ten_grad", &kTen, true);
  ops::CustomOp op = named("test.ten", &kTwice, false);
  op.gradient = &gradient;
  EXPECT_EQ(slope(op), 10);
}

TEST(Custom, HasTheGradientOfItsBodyWhereTheBackwardKernelIsRefused) {
  const ops::CustomOp gradient = named("test.ten_grad", nullptr, true);
  ops::CustomOp op = named("test.ten", &kTwice, false);
  op.gradient = &gradient;
  EXPECT_EQ(slope(op), 2);
}

TEST(Custom, RejectsOperandsOfAnotherType) {
  const ops::CustomOp op = named("test.twice", nullptr, false);
  Graph g;
  Tensor x = g.add_input("x", kRow), other = g.add_input("x", {DType::f32, {4}, {}});
  auto body = std::make_shared<Graph>();
  body->add_output("y", body->add_input("x", x.type()));
  const std::pair<std::string_view, AttrValue> attr{"body", std::shared_ptr<const Graph>(body)};
  EXPECT_ERROR_SAYS(g.add_node(op, std::array{other}, std::span(&attr, 1)), ExitCode::usage,
                    "test.twice: x must be f32[3], got f32[4]");
}

TEST(Custom, HasTheWorkOfAttentionAndOfItsMaskInTheBody) {
  const ops::CustomOp op = named("test.mix", &kTwice, false);
  const Type rows{DType::f32, {1, 6, 1, 8}, {}};
  auto body = std::make_shared<Graph>();
  Tensor q = body->add_input("x", rows);
  Tensor mask =
      ops::call("moba_mask", {q, q}, {{"chunk", std::int64_t{2}}, {"k", std::int64_t{2}}});
  body->add_output("y", ops::call_all("attention", {q, q, q, {}, mask})[0]);
  const std::pair<std::string_view, AttrValue> attr{"body", std::shared_ptr<const Graph>(body)};
  Graph g;
  Tensor x = g.add_input("x", rows);
  g.add_node(op, std::array{x}, std::span(&attr, 1));
  const double choice = 2 * 6 * 8 * 3, pairs = 1 + 2 + 3 + 4 + 4 + 4;
  EXPECT_EQ(ops::required_flops(g), choice + pairs * 2 * (8 + 8));
}

TEST(Custom, IsGoneWhenItIsInlined) {
  const ops::CustomOp op = named("test.ten", &kTen, false);
  auto body = std::make_shared<Graph>();
  body->add_output("c", call(*body, op, body->add_input("c", kRow)));
  Graph g;
  Tensor y = call(g, op, g.add_input("x", kRow));
  g.add_output("y", ops::scan({y}, {.body = body, .times = 2, .num_carries = 1})[0]);
  EXPECT_EQ(get(run(g, {row({1, 2, 3})})[0], 0), 1000);
  EXPECT_EQ(get(run(ops::inline_custom(g), {row({1, 2, 3})})[0], 0), 8);
}

}  // namespace
}  // namespace lamina::testing
