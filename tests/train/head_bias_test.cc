// Models whose logits have a bias.
#include <gtest/gtest.h>

#include "passes/pipeline.h"
#include "support/models.h"
#include "train/optimizer/gradients.h"

namespace lamina::testing {
namespace {

TEST(HeadBias, MovesTheLogits) {
  const TestModel& from = test_model("features_bias");
  const decoder::Model model = open_model(from.path);
  const weights::Weights weights = load_weights(from, model);
  const Rows rows = random_rows(model, 1, 5);
  const std::vector<float> before = forward(model, weights.pointers(), rows);
  const int bias = model.parameters().find("head.bias");
  ASSERT_GE(bias, 0);
  float& moved = floats(weights.own_tensor(bias))[3];
  moved += 0.5F;
  const std::vector<float> after = forward(model, weights.pointers(), rows);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR(after[i] - before[i], i % 47 == 3 ? 0.5 : 0, 1e-5) << i;
}

// One pass over the vocabulary computes the loss and its gradients.
TEST(HeadBias, TheLossEqualsTheGradientKernels) {
  const decoder::Model model = open_model(test_model("features_bias").path);
  decoder::ModelGraph graph = train::add_gradients(model.loss_graph({1, 8}, {.training = true}),
                                                   model.parameters(), autodiff::save_everything());
  const Graph simplified = passes::simplify(std::move(graph.graph));
  std::size_t walks = 0;
  for (const Node& node : simplified.nodes()) {
    EXPECT_NE(node.op->name, "cross_entropy");
    walks += node.op->name == "cross_entropy_grad";
  }
  EXPECT_EQ(walks, 1u);
}

}  // namespace
}  // namespace lamina::testing
