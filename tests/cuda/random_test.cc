// Ops that draw numbers, and custom ops, on the emulated GPU.
#include <gtest/gtest.h>

#include "cuda/gpu.h"
#include "ops/custom.h"
#include "ops/op.h"
#include "same_bytes.h"

namespace lamina::testing {
namespace {

TEST(GpuRandom, DropoutHasTheMaskOfTheCpu) {
  std::mt19937 random(9);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    Graph graph;
    const Tensor x = graph.add_input("x", {dtype, {1003}, {}});
    const Tensor seed = graph.add_input("seed", {DType::i64, {2}, {}});
    const Tensor layer = graph.add_input("layer", {DType::i32, {}, {}});
    graph.add_output(
        "y", ops::call("dropout", {x, seed, layer}, {{"rate", 0.3}, {"stream", std::int64_t{5}}}));
    expect_bytes_of_the_cpu(graph, {random_array(x.type(), random), array(seed.type(), {-11, 17}),
                                    array(layer.type(), {3})});
  }
}

TEST(GpuRandom, NumbersAreTheCpus) {
  Graph graph;
  const Tensor seed = graph.add_input("seed", {DType::i64, {2}, {}});
  graph.add_output("y", ops::random(seed, {}, {.shape = {5, 77}, .stream = 2}));
  expect_bytes_of_the_cpu(graph, {array(seed.type(), {42, 7})});
}

class CpuOnly final : public ops::CustomKernel {
 public:
  std::string refusal(const NodeView&) const override { return {}; }
  std::unique_ptr<ops::CustomRun> prepare(const NodeView&) const override { return nullptr; }
};

TEST(GpuCustomOp, ComputesTheLoweringAndSaysWhy) {
  const CpuOnly kernel;
  ops::CustomOp op;
  op.name = "test.double";
  op.inputs = {{.name = "x"}};
  op.outputs = {{.name = "y"}};
  op.kernel = &kernel;
  ops::complete(op, false, false);
  const Type row{DType::f32, {3}, {}};
  auto body = std::make_shared<Graph>();
  const Tensor inside = body->add_input("x", row);
  body->add_output("y", inside + inside);
  Graph graph;
  const Tensor x = graph.add_input("x", row);
  const std::pair<std::string_view, AttrValue> attr{"body", std::shared_ptr<const Graph>(body)};
  graph.add_output("y", graph.add_node(op, std::array{x}, std::span(&attr, 1))[0]);
  with_node_view(graph, graph.nodes().front(), [&](const NodeView& view) {
    std::vector<Refusal> refusals;
    EXPECT_EQ(choose_kernel(test_gpu(), view, &refusals), nullptr);
    ASSERT_EQ(refusals.size(), 1u);
    EXPECT_EQ(refusals[0].why, "the plugin's kernel computes on the CPU; it has none for GPUs");
  });
  EXPECT_EQ(to_doubles(run(graph, {array(row, {1, 2, 3})}, test_gpu())[0]),
            (std::vector<double>{2, 4, 6}));
}

}  // namespace
}  // namespace lamina::testing
