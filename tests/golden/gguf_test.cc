// Models in GGUF files, compared with the reference's results from their widened weights, and with
// the same weights in safetensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "model/load.h"
#include "support/expect_error.h"
#include "support/gguf_golden.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

class GgufGolden : public ::testing::TestWithParam<fs::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GgufGolden);

TEST_P(GgufGolden, AgreesWithTheReference) {
  const inspect::VerifyReport report =
      inspect::verify_case(GetParam().string(), DType::f32, built_plugins(), cpu::cpu_backend());
  EXPECT_GE(report.rows.size(), 2u);  // logits, greedy ids
  for (const inspect::VerifyRow& row : report.rows)
    EXPECT_TRUE(row.passed()) << row.quantity << " is off by " << row.error << ", allowed "
                              << row.tolerance << " " << row.note;
  EXPECT_TRUE(report.skipped.empty());
}

INSTANTIATE_TEST_SUITE_P(All, GgufGolden, ::testing::ValuesIn(gguf_cases()), [](const auto& test) {
  return test_name(test.param.filename().string());
});

// Logits of a few tokens.
Floats logits_of(const std::string& path) {
  const model::Loaded m = model::load(path, built_plugins(), DType::f32, cpu::cpu_backend());
  const std::vector<std::int32_t> ids = {3, 1, 41, 59, 26, 5, 35, 89, 79, 32};
  const Rows rows = program::rows_of(ids, std::vector<std::int32_t>(ids.size(), -100), 1,
                                     static_cast<std::int64_t>(ids.size()));
  return forward(m.model(), m.weights.pointers(), rows);
}

void expect_same_logits(const GgufBuilder& gguf, const std::string& published) {
  TempDir dir;
  const Floats got = logits_of(dir.write("m.gguf", gguf.bytes())), want = logits_of(published);
  ASSERT_EQ(got.size(), want.size());
  float largest = 0, worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    worst = std::max(worst, std::abs(want[i] - got[i]));
  }
  EXPECT_LE(worst, 1e-5f * largest);
}

const fs::path kLlama = kOwnCases / "llama3_gqa";

GgufBuilder llama_as_gguf() { return as_llama(kLlama).layers(kFeedForwardNames).gguf; }

TEST(GgufModels, InterleavedRowsEqualHalves) {
  SKIP_WITHOUT(kLlama);
  expect_same_logits(llama_as_gguf(), kLlama.string());
}

TEST(GgufModels, VerifyComparesWeightsInPublishedOrder) {
  SKIP_WITHOUT(kLlama);
  const GgufConversion published(kLlama, "llama");
  const std::string prefix = "dequant.";
  std::vector<io::TensorSpec> specs;
  for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) {
    const std::string tensor = GgufConversion::published_layer(1, name) + ".weight";
    specs.push_back({prefix + tensor, DType::f32, published.stored(tensor).shape});
  }
  specs.push_back({prefix + "model.layers.0.unknown.weight", DType::f32, {1}});
  TempDir dir;
  Floats values;
  io::write_safetensors(dir / "golden.safetensors", specs, {}, [&](const io::TensorSpec& spec) {
    const std::string tensor = spec.name.substr(prefix.size());
    values = published.has(tensor) ? published.values(tensor) : Floats{0};
    return std::as_bytes(std::span(values));
  });
  dir.write("golden.json", "{}");
  dir.write("model.gguf", llama_as_gguf().bytes());
  const inspect::VerifyReport report =
      inspect::verify_case(dir.path(), DType::f32, built_plugins(), cpu::cpu_backend());
  EXPECT_EQ(report.rows.size(), 3u);
  EXPECT_TRUE(report.passed());
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_EQ(report.skipped[0].reason,
            "belongs to a published tensor, whose name or order of rows may differ in a GGUF file");
}

// The divisors that converters compute from a rope_scaling of 8, 1, 4 and 8192.
TEST(GgufModels, RotaryFactorsAreTheScalingThatTheyCameFrom) {
  SKIP_WITHOUT(kLlama);
  Floats divisors;
  for (int i = 0; i < 6; ++i) {  // heads of 12
    const double wavelength = 2 * std::numbers::pi * std::pow(500000.0, i / 6.0);
    const double smooth = (8192 / wavelength - 1) / (4 - 1);
    divisors.push_back(static_cast<float>(wavelength < 8192.0 / 4 ? 1
                                          : wavelength > 8192     ? 8
                                                              : 1 / ((1 - smooth) / 8 + smooth)));
  }
  ASSERT_GT(divisors[4], 1) << "no divisor between the bands";
  GgufBuilder gguf = llama_as_gguf();
  gguf.tensor("rope_freqs.weight", {6}, divisors);
  TempDir scaled;
  for (const fs::directory_entry& entry : fs::directory_iterator(kLlama))
    fs::copy(entry.path(), scaled / entry.path().filename().string());
  fs::permissions(scaled / "config.json", fs::perms::owner_all);
  std::string config = scaled.read("config.json");
  const std::string null = "\"rope_scaling\": null";
  config.replace(config.find(null), null.size(),
                 R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                     "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})");
  scaled.write("config.json", config);
  expect_same_logits(gguf, scaled.path());
}

TEST(GgufModels, StackedExpertsEqualSingleOnes) {
  const fs::path from = kOwnCases / "qwen3_moe_norm";
  SKIP_WITHOUT(from);
  GgufConversion model(from, "qwen3moe");
  model.common_keys().copy_count("feed_forward_length", "intermediate_size");
  model.copy_count("attention.key_length", "head_dim").copy_number("rope.freq_base", "rope_theta");
  model.copy_count("expert_count", "num_experts");
  model.copy_count("expert_used_count", "num_experts_per_tok");
  model.copy_count("expert_feed_forward_length", "moe_intermediate_size");
  model.outer_tensors().layers(kAttentionNames).layers(kNormNames);
  model.layers({{"attn_q_norm", "self_attn.q_norm"},
                {"attn_k_norm", "self_attn.k_norm"},
                {"ffn_gate_inp", "mlp.gate"}});
  for (const std::string which : {"gate", "up", "down"})
    model.experts("ffn_" + which + "_exps", "mlp.experts.{E}." + which + "_proj.weight",
                  model.count("num_experts"));
  expect_same_logits(model.gguf, from.string());
}

TEST(GgufModels, AFamilyMustSayThatItReadsThem) {
  const fs::path from = kOwnCases / "qwen3_next_4";
  SKIP_WITHOUT(from);
  TempDir dir;
  GgufConversion model(from, "qwen3next");
  model.common_keys().copy_count("feed_forward_length", "intermediate_size");
  const std::string path = dir.write("m.gguf", model.outer_tensors().gguf.bytes());
  EXPECT_USER_ERROR(
      static_cast<void>(model::open(path, built_plugins())), ExitCode::checkpoint,
      path +
          ": is of family 'qwen3_next', which does not declare its weights in GGUF files\n"
          "  use the safetensors files of the same model\n"
          "  authors of plugins: declare the key 'gguf_weights', ext/gguf.h");
}

TEST(GgufModels, AFusedTensorIsNamedWhereOthersAreMissing) {
  SKIP_WITHOUT(kLlama);
  GgufConversion model(kLlama, "llama");
  model.common_keys().copy_count("feed_forward_length", "intermediate_size");
  model.copy_number("rope.freq_base", "rope_theta").outer_tensors().layers(kNormNames);
  model.layers(kFeedForwardNames).layers({{"attn_output", "self_attn.o_proj"}});
  for (std::int64_t layer = 0; layer < model.count("num_hidden_layers"); ++layer) {
    Floats rows;
    for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) {
      const Floats next = model.values(GgufConversion::published_layer(layer, name) + ".weight");
      rows.insert(rows.end(), next.begin(), next.end());
    }
    const std::int64_t width = model.count("hidden_size");
    model.gguf.tensor(GgufConversion::layer_name(layer, "attn_qkv") + ".weight",
                      {width, std::ssize(rows) / width}, rows);
  }
  TempDir dir;
  const std::string path = dir.write("m.gguf", model.gguf.bytes());
  EXPECT_ERROR_SAYS(
      static_cast<void>(model::load(path, built_plugins(), DType::f32, cpu::cpu_backend())),
      ExitCode::checkpoint,
      "is missing\n  for parameter 'layers.0.attention.wk.weight'\n"
      "  the file has 'blk.0.attn_qkv.weight', which family 'llama2' does not read\n"
      "  convert the model again without options that fuse tensors, such as --fuse-qkv, or use its "
      "safetensors files");
}

// Weights whose stored type is usable in place are not copied, for every type.
TEST(GgufModels, PlainWeightsAreUsedInPlace) {
  SKIP_WITHOUT(kLlama);
  TempDir dir;
  const model::Loaded m = model::load(dir.write("m.gguf", llama_as_gguf().bytes()), built_plugins(),
                                      DType::f32, cpu::cpu_backend());
  for (std::size_t i = 0; i < m.model().parameters().all().size(); ++i)
    EXPECT_TRUE(m.weights.is_mapped(static_cast<int>(i))) << m.model().parameters().all()[i].name;
}

}  // namespace
}  // namespace lamina::testing
