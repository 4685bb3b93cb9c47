// Models in GGUF files: against what the reference computed from their widened weights, and
// against the same weights in safetensors.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numbers>

#include "backends/cpu/backend.h"
#include "core/float16.h"
#include "core/json.h"
#include "inspect/verify/verify.h"
#include "io/stored_weight.h"
#include "model/load.h"
#include "support/expect_error.h"
#include "support/gguf_builder.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/paths.h"
#include "support/temp_dir.h"

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

INSTANTIATE_TEST_SUITE_P(All, GgufGolden,
                         ::testing::ValuesIn(golden_folders("gguf", "golden.safetensors")),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });

using Floats = std::vector<float>;

struct Published {
  explicit Published(const char* name)
      : directory(fs::path(LAMINA_SOURCE_DIR) / "tests/golden/hf" / name),
        files(directory.string()),
        config(JsonDocument::read((directory / "config.json").string())) {}

  Floats values(const std::string& name) const {
    const io::StoredWeight weight(files, name);
    Floats out(static_cast<std::size_t>(weight.shape().num_elements()));
    weight.decode(0, 1, out);
    return out;
  }
  std::vector<std::int64_t> dims(const std::string& name) const {  // as GGUF orders them
    const Shape shape = files.tensor(name).shape;
    std::vector<std::int64_t> out(shape.dims().begin(), shape.dims().end());
    std::reverse(out.begin(), out.end());
    return out;
  }
  std::int64_t number(std::string_view key) const { return config.root().at(key).as_int64(); }

  fs::path directory;
  io::WeightFiles files;
  JsonDocument config;
};

// What converters write for every architecture.
GgufBuilder converted(const Published& from, const std::string& architecture, float eps,
                      float theta) {
  GgufBuilder out;
  const auto key = [&](const char* name) { return architecture + "." + name; };
  const auto copy = [&](const char* name, const char* published) {
    out.set(key(name), static_cast<std::uint32_t>(from.number(published)));
  };
  out.set("general.architecture", architecture);
  copy("block_count", "num_hidden_layers");
  copy("context_length", "max_position_embeddings");
  copy("embedding_length", "hidden_size");
  copy("feed_forward_length", "intermediate_size");
  copy("attention.head_count", "num_attention_heads");
  copy("attention.head_count_kv", "num_key_value_heads");
  out.set(key("attention.layer_norm_rms_epsilon"), eps).set(key("rope.freq_base"), theta);
  out.tensor("token_embd.weight", from.dims("model.embed_tokens.weight"),
             from.values("model.embed_tokens.weight"));
  out.tensor("output_norm.weight", from.dims("model.norm.weight"),
             from.values("model.norm.weight"));
  return out;
}

// Rows of each head with its two halves interleaved.
Floats interleaved(const Floats& rows, std::int64_t heads) {
  const std::size_t head = rows.size() / static_cast<std::size_t>(heads);
  Floats out;
  for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h)
    for (std::size_t row = 0, width = 48, half = head / width / 2; row < half; ++row)
      for (std::size_t part = 0; part < 2; ++part) {
        const auto at =
            rows.begin() + static_cast<std::ptrdiff_t>(h * head + (part * half + row) * width);
        out.insert(out.end(), at, at + static_cast<std::ptrdiff_t>(width));
      }
  return out;
}

void add_layer(GgufBuilder& out, const Published& from, std::int64_t layer,
               const std::vector<std::pair<const char*, const char*>>& names) {
  for (const auto& [gguf, published] : names) {
    const std::string name = fmt::format("model.layers.{}.{}.weight", layer, published);
    Floats values = from.values(name);
    out.tensor(fmt::format("blk.{}.{}.weight", layer, gguf), from.dims(name), values);
  }
}

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

GgufBuilder llama_as_gguf(const Published& from) {
  GgufBuilder out = converted(from, "llama", 1e-5f, 500000.f);
  for (std::int64_t layer = 0; layer < from.number("num_hidden_layers"); ++layer) {
    add_layer(out, from, layer,
              {{"attn_norm", "input_layernorm"},
               {"attn_v", "self_attn.v_proj"},
               {"attn_output", "self_attn.o_proj"},
               {"ffn_norm", "post_attention_layernorm"},
               {"ffn_gate", "mlp.gate_proj"},
               {"ffn_up", "mlp.up_proj"},
               {"ffn_down", "mlp.down_proj"}});
    for (const auto& [gguf, published, heads] :
         {std::tuple{"attn_q", "q_proj", "num_attention_heads"},
          {"attn_k", "k_proj", "num_key_value_heads"}}) {
      const std::string name = fmt::format("model.layers.{}.self_attn.{}.weight", layer, published);
      const Floats rows = interleaved(from.values(name), from.number(heads));
      out.tensor(fmt::format("blk.{}.{}.weight", layer, gguf), from.dims(name), rows);
    }
  }
  return out;
}

TEST(GgufModels, InterleavedRowsComputeWhatHalvesDo) {
  const Published from("llama3_gqa");
  if (std::string reason = reason_to_skip(from.directory); !reason.empty()) GTEST_SKIP() << reason;
  expect_same_logits(llama_as_gguf(from), from.directory.string());
}

// The divisors that converters compute from a rope_scaling of 8, 1, 4 and 8192.
TEST(GgufModels, RotaryFactorsAreTheScalingThatTheyCameFrom) {
  const Published from("llama3_gqa");
  if (std::string reason = reason_to_skip(from.directory); !reason.empty()) GTEST_SKIP() << reason;
  Floats divisors;
  for (int i = 0; i < 6; ++i) {  // heads of 12
    const double wavelength = 2 * std::numbers::pi * std::pow(500000.0, i / 6.0);
    const double smooth = (8192 / wavelength - 1) / (4 - 1);
    divisors.push_back(static_cast<float>(wavelength < 8192.0 / 4 ? 1
                                          : wavelength > 8192     ? 8
                                                              : 1 / ((1 - smooth) / 8 + smooth)));
  }
  ASSERT_GT(divisors[4], 1) << "no divisor between the bands";
  GgufBuilder gguf = llama_as_gguf(from);
  gguf.tensor("rope_freqs.weight", {6}, divisors);
  TempDir scaled;
  for (const fs::directory_entry& entry : fs::directory_iterator(from.directory))
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

TEST(GgufModels, StackedExpertsComputeWhatSingleOnesDo) {
  const Published from("qwen3_moe_norm");
  if (std::string reason = reason_to_skip(from.directory); !reason.empty()) GTEST_SKIP() << reason;
  GgufBuilder out = converted(from, "qwen3moe", 1e-6f, 1000000.f);
  for (const auto& [gguf, published] : {std::pair{"expert_count", "num_experts"},
                                        {"expert_used_count", "num_experts_per_tok"},
                                        {"expert_feed_forward_length", "moe_intermediate_size"},
                                        {"attention.key_length", "head_dim"}})
    out.set(std::string("qwen3moe.") + gguf, static_cast<std::uint32_t>(from.number(published)));
  out.tensor("output.weight", from.dims("lm_head.weight"), from.values("lm_head.weight"));
  for (std::int64_t layer = 0; layer < from.number("num_hidden_layers"); ++layer) {
    add_layer(out, from, layer,
              {{"attn_norm", "input_layernorm"},
               {"attn_q", "self_attn.q_proj"},
               {"attn_k", "self_attn.k_proj"},
               {"attn_v", "self_attn.v_proj"},
               {"attn_output", "self_attn.o_proj"},
               {"attn_q_norm", "self_attn.q_norm"},
               {"attn_k_norm", "self_attn.k_norm"},
               {"ffn_norm", "post_attention_layernorm"},
               {"ffn_gate_inp", "mlp.gate"}});
    for (const char* which : {"gate", "up", "down"}) {
      Floats stack;
      std::vector<std::int64_t> dims;
      for (std::int64_t e = 0; e < from.number("num_experts"); ++e) {
        const std::string name =
            fmt::format("model.layers.{}.mlp.experts.{}.{}_proj.weight", layer, e, which);
        const Floats one = from.values(name);
        stack.insert(stack.end(), one.begin(), one.end());
        dims = from.dims(name);
      }
      dims.push_back(from.number("num_experts"));
      out.tensor(fmt::format("blk.{}.ffn_{}_exps.weight", layer, which), dims, stack);
    }
  }
  expect_same_logits(out, from.directory.string());
}

TEST(GgufModels, AFamilyMustSayThatItReadsThem) {
  const Published from("gemma2_7_layers");
  if (std::string reason = reason_to_skip(from.directory); !reason.empty()) GTEST_SKIP() << reason;
  TempDir dir;
  const std::string path = dir.write("m.gguf", converted(from, "gemma2", 1e-6f, 10000.f).bytes());
  EXPECT_USER_ERROR(
      static_cast<void>(model::open(path, built_plugins())), ExitCode::checkpoint,
      path +
          ": is of family 'gemma2', which does not say what its weights are in GGUF files\n"
          "  use the safetensors files of the same model\n"
          "  authors of plugins: declare the key 'gguf_weights', ext/gguf.h");
}

// Whatever type the file stores: what can be used in place is not copied.
TEST(GgufModels, PlainWeightsAreUsedInPlace) {
  const Published from("llama3_gqa");
  if (std::string reason = reason_to_skip(from.directory); !reason.empty()) GTEST_SKIP() << reason;
  TempDir dir;
  const model::Loaded m = model::load(dir.write("m.gguf", llama_as_gguf(from).bytes()),
                                      built_plugins(), DType::f32, cpu::cpu_backend());
  for (std::size_t i = 0; i < m.model().parameters().all().size(); ++i)
    EXPECT_TRUE(m.weights.is_mapped(static_cast<int>(i))) << m.model().parameters().all()[i].name;
}

}  // namespace
}  // namespace lamina::testing
