// Tagged values of blocks as outputs of a forward graph.
#include <gtest/gtest.h>

#include <numeric>

#include "backends/cpu/backend.h"
#include "program/records.h"
#include "support/models.h"
#include "support/paths.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kTokens = 9;

program::LayerRecords records_of(const decoder::Model& model,
                                 const std::vector<std::string>& tags) {
  std::vector<std::int32_t> ids(2 * kTokens);
  std::iota(ids.begin(), ids.end(), 3);
  weights::Weights weights = weights::Weights::initialise(model, 7, DType::f32, cpu::cpu_backend());
  return program::record_layers(model, weights.pointers(), program::rows_of(ids, ids, 2, kTokens),
                                DType::f32, tags, cpu::cpu_backend());
}

decoder::Model open_described(const std::string& name, bool scan_layers = true) {
  return open_model(test_model(name).path, scan_layers);
}

TEST(Records, OfALayerAddUpToItsOutput) {
  decoder::Model model = open_described("llama2_deep");
  program::LayerRecords records = records_of(model, {"decoder_layer_input", "out_proj", "mlpwo"});
  auto value = [&](std::int64_t layer, const char* tag) {
    const std::vector<program::Record>& all = records.at({layer, tag});
    EXPECT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].shape, (Shape{2, kTokens, model.hidden_size()}));
    return all[0].values;
  };
  for (std::int64_t layer = 0; layer + 1 < model.config().num_layers(); ++layer) {
    std::vector<float> sum = value(layer, "decoder_layer_input"), next;
    for (const char* branch : {"out_proj", "mlpwo"}) {
      std::vector<float> more = value(layer, branch);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
    }
    EXPECT_LE(relative_difference(sum, value(layer + 1, "decoder_layer_input")), 1e-6) << layer;
  }
}

TEST(Records, AreTheSameScannedAndUnrolled) {
  const char* name = "llama2_deep_window";
  program::LayerRecords scanned = records_of(open_described(name, true), {"attention_out"});
  program::LayerRecords unrolled = records_of(open_described(name, false), {"attention_out"});
  ASSERT_EQ(scanned.size(), 11u);
  ASSERT_EQ(unrolled.size(), 11u);
  for (const auto& [key, list] : scanned)
    EXPECT_LE(relative_difference(list[0].values, unrolled.at(key)[0].values), 1e-6) << key.first;
}

TEST(Records, OfOneTagHaveTheOrderOfTheBuild) {
  decoder::Model model = open_description(R"(
family = "deepseek"
[model]
vocab_size = 31
hidden_size = 16
intermediate_size = 20
num_hidden_layers = 2
num_attention_heads = 2
q_lora_rank = 0
kv_lora_rank = 8
qk_nope_head_dim = 6
qk_rope_head_dim = 4
v_head_dim = 6
first_k_dense_replace = 2
mhc_expansion_rate = 3
)");
  program::LayerRecords records = records_of(model, {"mhc_collapsed", "mhc_post", "mhc_comb"});
  EXPECT_EQ(records.size(), 6u);
  for (const auto& [key, list] : records) {
    ASSERT_EQ(list.size(), 2u) << key.second << " of layer " << key.first;
    EXPECT_NE(list[0].values, list[1].values) << key.second << " of layer " << key.first;
  }
}

TEST(Records, OfAnUnusedTagAreEmpty) {
  EXPECT_TRUE(records_of(open_described("llama2_deep"), {"router_logits"}).empty());
}

}  // namespace
}  // namespace lamina::testing
