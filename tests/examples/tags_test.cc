// Layers of the example plugins tag the values that `lamina verify` compares.
#include <gtest/gtest.h>

#include "program/records.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

TEST(ExamplePlugins, TagTheOutputsOfMixersAndFeedForwards) {
  for (const std::string name :
       {"albert", "bloom", "griffin", "mamba2", "mingru", "rwkv7", "xielu"}) {
    const decoder::Model model = open_model(test_model(name).path);
    const weights::Weights weights =
        weights::Weights::initialise(model, 7, DType::f32, cpu::cpu_backend());
    const program::LayerRecords records =
        program::record_layers(model, weights.pointers(), random_rows(model, 1, 5), DType::f32,
                               {"out_proj", "mlpwo"}, cpu::cpu_backend());
    for (std::int64_t layer = 0; layer < model.config().num_layers(); ++layer) {
      EXPECT_TRUE(records.contains({layer, "out_proj"})) << name << ", layer " << layer;
      // Layers of mamba2 are a mixer alone.
      EXPECT_EQ(records.contains({layer, "mlpwo"}), name != "mamba2")
          << name << ", layer " << layer;
    }
  }
}

}  // namespace
}  // namespace lamina::testing
