// Every key that llama.cpp reads, for every supported GGUF architecture: it changes the model's
// config, has no effect and is listed here, or is refused by name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <variant>

#include "config/value.h"
#include "io/gguf_names.h"
#include "model/open.h"
#include "registry/library.h"
#include "support/expect_error.h"
#include "support/gguf_builder.h"
#include "support/models.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

using KeyValue = std::variant<std::uint32_t, float, bool, std::string, std::vector<std::uint32_t>,
                              std::vector<std::string>>;
using KeyValues = std::map<std::string, KeyValue>;  // after "<architecture>."

// A model of two layers with the required keys of its architecture.
KeyValues keys_of(const std::string& architecture) {
  KeyValues out{{"block_count", 2u},
                {"embedding_length", 32u},
                {"feed_forward_length", 64u},
                {"context_length", 128u},
                {"attention.head_count", 4u},
                {"attention.head_count_kv", 2u},
                {"attention.key_length", 8u},
                {"attention.value_length", 8u},
                {"attention.layer_norm_rms_epsilon", 1e-5f}};
  const auto experts = [&] {
    out["expert_count"] = 4u;
    out["expert_used_count"] = 2u;
  };
  if (architecture == "gpt2") {
    for (const char* key : {"attention.head_count_kv", "attention.layer_norm_rms_epsilon",
                            "attention.key_length", "attention.value_length"})
      out.erase(key);
    out["attention.layer_norm_epsilon"] = 1e-5f;
  } else if (architecture == "qwen3moe" || architecture == "llama4" || architecture == "gpt-oss") {
    experts();
    out["expert_feed_forward_length"] = 16u;
  } else if (architecture == "deepseek2") {
    experts();
    out["expert_feed_forward_length"] = 16u;
    out["expert_shared_count"] = 1u;
    out["leading_dense_block_count"] = 1u;
    out["attention.kv_lora_rank"] = 16u;
    out["attention.key_length"] = 12u;
    out["attention.value_length"] = 8u;
    out["rope.dimension_count"] = 4u;
  }
  if (architecture == "cohere2" || architecture == "command-r") {
    out.erase("attention.layer_norm_rms_epsilon");
    out["attention.layer_norm_epsilon"] = 1e-4f;
    out["logit_scale"] = 0.25f;
  } else if (architecture == "lfm2") {
    out["attention.head_count_kv"] = std::vector<std::uint32_t>{0, 2};
    out["shortconv.l_cache"] = 4u;
  }
  if (architecture == "gpt-oss" || architecture == "cohere2" ||
      architecture.starts_with("gemma2") || architecture.starts_with("gemma3"))
    out["attention.sliding_window"] = 16u;
  return out;
}

using Tensors = std::vector<std::string>;

// Returns a file with the keys and a token table.
GgufBuilder file_of(const std::string& architecture, const KeyValues& keys) {
  GgufBuilder gguf;
  gguf.set("general.architecture", architecture);
  for (const auto& [key, value] : keys)
    std::visit([&](const auto& v) { gguf.set(architecture + "." + key, v); }, value);
  gguf.tensor("token_embd.weight", {32, 3}, std::vector<float>(96));
  return gguf;
}

config::ModelSource source_of(const GgufBuilder& gguf) {
  TempDir dir;
  return model::describe(dir.write("m.gguf", gguf.bytes()), built_plugins()).source;
}

// `more`: tensors besides the token table.
config::ModelSource source_of(const std::string& architecture, const KeyValues& keys,
                              const Tensors& more = {}) {
  GgufBuilder gguf = file_of(architecture, keys);
  for (const std::string& name : more) gguf.tensor(name, {32}, std::vector<float>(32));
  return source_of(gguf);
}

// The values of the family's keys.
std::map<std::string, std::string> values_of(const std::string& architecture, const KeyValues& keys,
                                             const Tensors& more = {}) {
  const config::ModelSource source = source_of(architecture, keys, more);
  const registry::ModelConfig config =
      registry::load_family(built_plugins(), source).configure(source.raw, source.where);
  std::map<std::string, std::string> out;
  for (const config::Entry& entry : config.values().entries())
    out[entry.key] = config::to_toml(entry.value);
  return out;
}

struct KnownKey {
  std::string name;
  KeyValue value;  // a value that no model has
};

std::vector<KnownKey> known_keys() {
  std::ifstream file(std::string(LAMINA_SOURCE_DIR) + "/tests/golden/gguf_architecture_keys.txt");
  const std::map<std::string, KeyValue> values{{"n", 24u},
                                               {"f", 0.375f},
                                               {"b", true},
                                               {"t", std::string("other")},
                                               {"l", std::vector<std::uint32_t>{1, 0}},
                                               {"s", std::vector<std::string>{"a"}}};
  std::vector<KnownKey> out;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string name, kind;
    words >> name >> kind;
    out.push_back({name, values.at(kind)});
  }
  return out;
}

// Keys that may have no effect; gguf_names.h gives the reasons.
const std::set<std::string> kWithoutEffect = {
    "vocab_size",
    "context_length",
    "tensor_data_layout",
    "pooling_type",
    "expert_weights_norm",  // true where the family divides by the sum
    "rope.dimension_sections",
    "rope.scaling.finetuned"};

// Scaling of another kind than the file's: only the type key would enable it.
bool waits_for_a_type(const std::string& key) {
  return key.starts_with("rope.scaling.") && key != "rope.scaling.type" &&
         key != "rope.scaling.factor" && key != "rope.scaling.attn_factor";
}

// Names for a key in errors: its own name and the names in config.json.
std::vector<std::string> names_of(const std::string& whole, const std::string& key) {
  std::vector<std::string> out{"'" + whole + "'"};
  for (const auto& rows : {std::span<const io::ConfigName>(io::kConfigNames),
                           std::span<const io::ConfigName>(io::kWrittenNames)})
    for (const io::ConfigName& row : rows)
      if (row.gguf == key) out.emplace_back(row.published);
  if (key.starts_with("rope.")) out.emplace_back("rope_scaling");
  // A list with one element per layer has the wrong length for another number of layers.
  if (key == "block_count") out.emplace_back("per layer");
  // Errors name both widths of a head together.
  if (key == "attention.key_length") out.emplace_back("attention.value_length");
  return out;
}

// True if the family declares that the key has no effect, or if latent attention ignores it: it has
// as many key heads as query heads.
bool family_ignores(const std::string& architecture, const std::string& name) {
  if (architecture == "deepseek2" && name == "attention.head_count_kv") return true;
  const config::ModelSource source = source_of(architecture, keys_of(architecture));
  const std::vector<std::string> names = names_of(architecture + "." + name, name);
  return std::ranges::any_of(
      registry::load_family(built_plugins(), source).keys(), [&](const registry::ModelKey& key) {
        return key.ignored && std::ranges::any_of(names, [&](const std::string& n) {
                 return config::is_called(key.key, n);
               });
      });
}

void expect_one_outcome(const std::string& architecture, const KnownKey& key,
                        const std::map<std::string, std::string>& before) {
  SCOPED_TRACE(fmt::format("{}.{}", architecture, key.name));
  KeyValues keys = keys_of(architecture);
  keys[key.name] = key.value;
  try {
    bool is_used = values_of(architecture, keys) != before;
    if (!is_used && std::holds_alternative<bool>(key.value)) {  // true is the family's default
      keys[key.name] = false;
      is_used = values_of(architecture, keys) != before;
    }
    EXPECT_TRUE(is_used || kWithoutEffect.contains(key.name) || waits_for_a_type(key.name) ||
                family_ignores(architecture, key.name))
        << "is neither used nor refused";
  } catch (const Error& e) {
    const std::vector<std::string> names = names_of(architecture + "." + key.name, key.name);
    EXPECT_TRUE(std::ranges::any_of(names, [&](const std::string& name) {
      return std::string_view(e.what()).find(name) != std::string_view::npos;
    })) << e.what();
  }
}

class GgufKeys : public ::testing::TestWithParam<const char*> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GgufKeys);

TEST_P(GgufKeys, AreUsedOrWithoutEffectOrRefused) {
  const std::string architecture = GetParam();
  const auto before = values_of(architecture, keys_of(architecture));
  const std::vector<KnownKey> all = known_keys();
  ASSERT_GT(all.size(), 100u);
  for (const KnownKey& key : all) expect_one_outcome(architecture, key, before);
}

TEST_P(GgufKeys, PositionsAreStretchedOnlyByKeys) {
  KeyValues keys = keys_of(GetParam());
  for (const bool says_none : {false, true}) {
    if (says_none) keys["rope.scaling.type"] = std::string("none");
    const auto values = values_of(GetParam(), keys);
    for (const auto& [key, right] :
         {std::pair{"rope_scaling.rope_type", "\"default\""}, {"rope_scaling.factor", "1.0"}})
      if (const auto at = values.find(key); at != values.end()) {
        EXPECT_EQ(at->second, right) << key;
      }
  }
}

TEST_P(GgufKeys, KeysWithoutADefaultAreRequired) {
  const std::string architecture = GetParam();
  std::vector<std::string> required = {
      "block_count", "embedding_length",  "context_length",    "attention.layer_norm_rms_epsilon",
      "logit_scale", "expert_used_count", "shortconv.l_cache", "attention.layer_norm_epsilon"};
  if (architecture == "cohere2" || architecture == "gpt-oss")
    required.emplace_back("attention.sliding_window");
  for (const std::string& key : required) {
    KeyValues keys = keys_of(architecture);
    if (keys.erase(key) == 0) continue;
    EXPECT_ERROR_SAYS(values_of(architecture, keys), ExitCode::checkpoint,
                      fmt::format("'{}.{}' is missing", architecture, key));
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufKeys,
                         ::testing::Values("llama", "llama4", "qwen2", "qwen3", "qwen3moe", "gemma",
                                           "gemma2", "gemma3", "olmo2", "command-r", "cohere2",
                                           "lfm2", "gpt-oss", "gpt2", "deepseek2"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(GgufKeyRules, FilesOf2023HaveTheFactorOfPositionsUnderAnotherName) {
  KeyValues old = keys_of("llama"), current = old, both = old;
  old["rope.scale_linear"] = 4.f;
  current["rope.scaling.type"] = std::string("linear");
  current["rope.scaling.factor"] = 4.f;
  both["rope.scaling.factor"] = 4.f;  // the kind is linear if the file has none
  both["rope.scale_linear"] = 2.f;
  const auto want = values_of("llama", current);
  EXPECT_EQ(want.at("rope_scaling.factor"), "4.0");
  EXPECT_EQ(values_of("llama", old), want);
  EXPECT_EQ(values_of("llama", both), want);
}

TEST(GgufKeyRules, ModelsOfConvolutionsAloneHaveNoKeyHeads) {
  KeyValues keys = keys_of("lfm2");
  keys["attention.head_count_kv"] = std::vector<std::uint32_t>{0, 0};
  const auto values = values_of("lfm2", keys);
  EXPECT_EQ(values.at("num_attention_heads"), "4");
  EXPECT_EQ(values.at("num_key_value_heads"), "4");  // without effect
}

TEST(GgufKeyRules, LayersOfGemma3WithoutAWindowAreGlobal) {
  const auto without_window = [](const char* architecture) {
    KeyValues keys = keys_of(architecture);
    keys.erase("attention.sliding_window");
    return values_of(architecture, keys);
  };
  EXPECT_FALSE(values_of("gemma3", keys_of("gemma3")).contains("sliding_window_pattern"));
  EXPECT_EQ(without_window("gemma3").at("sliding_window_pattern"), "1");
  EXPECT_EQ(without_window("gemma2").at("sliding_window"), "4096");  // the first files lack it
}

TEST(GgufKeyRules, LayersOfDeepSeekHaveExpertsUnlessAKeyNamesDenseOnes) {
  KeyValues keys = keys_of("deepseek2");
  EXPECT_EQ(values_of("deepseek2", keys).at("first_k_dense_replace"), "1");
  keys.erase("leading_dense_block_count");
  EXPECT_EQ(values_of("deepseek2", keys).at("first_k_dense_replace"), "0");
}

// Otherwise llama.cpp has chunks of 8192 tokens, whatever the key says.
TEST(GgufKeyRules, Llama4WithoutChunksIsRefused) {
  KeyValues keys = keys_of("llama4");
  keys["attention.sliding_window"] = 0u;
  EXPECT_ERROR_SAYS(values_of("llama4", keys), ExitCode::checkpoint,
                    "'gguf_window': got 0, no chunks");
  keys["attention.sliding_window"] = 64u;
  EXPECT_EQ(values_of("llama4", keys).at("attention_chunk_size"), "8192");
}

TEST(GgufKeyRules, AttentionToLaterTokensIsRefused) {
  KeyValues keys = keys_of("llama");
  keys["attention.causal"] = true;
  EXPECT_EQ(values_of("llama", keys), values_of("llama", keys_of("llama")));
  keys["attention.causal"] = false;
  EXPECT_ERROR_SAYS(values_of("llama", keys), ExitCode::checkpoint,
                    "'llama.attention.causal' is unknown for family 'llama2'");
}

constexpr float kNotFinite[] = {std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity()};

// A null in config.json would be the default of the family, or no cap.
TEST(GgufKeyRules, NumbersMustBeFinite) {
  for (const auto& [architecture, key] : {std::pair{"llama", "attention.layer_norm_rms_epsilon"},
                                          {"gpt2", "attention.layer_norm_epsilon"},
                                          {"gemma2", "attn_logit_softcapping"},
                                          {"gemma2", "final_logit_softcapping"},
                                          {"deepseek2", "expert_weights_scale"},
                                          {"command-r", "logit_scale"}})
    for (const float value : kNotFinite) {
      KeyValues keys = keys_of(architecture);
      keys[key] = value;
      EXPECT_ERROR_SAYS(
          values_of(architecture, keys), ExitCode::checkpoint,
          fmt::format("'{}.{}' is {}; expected a finite number", architecture, key, value));
    }
}

TEST(GgufKeyRules, FactorsOfScaledPositionsMustBeFinite) {
  KeyValues yarn = keys_of("llama");
  yarn["rope.scaling.type"] = std::string("yarn");
  yarn["rope.scaling.factor"] = 4.f;
  yarn["rope.scaling.original_context_length"] = 32u;
  for (const float value : kNotFinite) {
    KeyValues keys = yarn;
    keys["rope.scaling.yarn_beta_fast"] = value;
    EXPECT_ERROR_SAYS(
        values_of("llama", keys), ExitCode::checkpoint,
        fmt::format("'llama.rope.scaling.yarn_beta_fast' is {}; expected a finite number", value));
  }
  KeyValues keys = keys_of("deepseek2");
  keys.insert(yarn.begin(), yarn.end());
  keys["rope.scaling.yarn_log_multiplier"] = 1e38f;  // is written as its tenfold
  EXPECT_ERROR_SAYS(values_of("deepseek2", keys), ExitCode::checkpoint,
                    "'deepseek2.rope.scaling.yarn_log_multiplier' is too large for f32");
}

TEST(GgufKeyRules, DivisorsOfRotaryFrequenciesMustBeFinite) {
  KeyValues keys = keys_of("phi3");
  keys["rope.scaling.original_context_length"] = 64u;
  for (const float value : kNotFinite) {
    GgufBuilder gguf = file_of("phi3", keys);
    gguf.tensor("rope_factors_short.weight", {4}, std::vector<float>{1, 1, 1, 1});
    gguf.tensor("rope_factors_long.weight", {4}, std::vector<float>{1, 2, value, 4});
    EXPECT_ERROR_SAYS(
        source_of(gguf), ExitCode::checkpoint,
        fmt::format("tensor 'rope_factors_long.weight' has {} at element 2; expected a finite "
                    "number",
                    value));
  }
}

TEST(GgufKeyRules, FactorsOfYarnHaveAnEffectAtZeroToo) {
  KeyValues keys = keys_of("llama");
  keys["rope.scaling.type"] = std::string("yarn");
  keys["rope.scaling.factor"] = 4.f;
  keys["rope.scaling.original_context_length"] = 32u;
  const auto want = values_of("llama", keys);
  for (const char* name : {"rope.scaling.attn_factor", "rope.scaling.yarn_ext_factor"}) {
    KeyValues more = keys;
    more[name] = 1.f;
    EXPECT_EQ(values_of("llama", more), want) << name;
    for (const float value : {0.f, 0.5f, 1.5f}) {
      more[name] = value;
      EXPECT_ERROR_SAYS(values_of("llama", more), ExitCode::checkpoint,
                        fmt::format("'llama.{}' is a kind of position scaling", name));
    }
  }
}

TEST(GgufKeyRules, BiasesFollowFromTensors) {
  const auto biases = [](const char* architecture, const Tensors& tensors) {
    const auto values = values_of(architecture, keys_of(architecture), tensors);
    return values.at("attention_bias") +
           (values.contains("mlp_bias") ? " " + values.at("mlp_bias") : "");
  };
  const std::string q = "blk.0.attn_q.bias", o = "blk.0.attn_output.bias", up = "blk.0.ffn_up.bias",
                    down = "blk.0.ffn_down.bias";
  EXPECT_EQ(biases("llama", {}), "false false");
  EXPECT_EQ(biases("llama", {q, o}), "true false");
  EXPECT_EQ(biases("llama", {up, down}), "false true");
  EXPECT_EQ(biases("llama", {q, o, up, down}), "true true");
  EXPECT_EQ(biases("llama", {q}), "false false");  // the check of tensors refuses it
  EXPECT_EQ(biases("qwen3", {q, o}), "true");
  EXPECT_EQ(biases("qwen2", {q}), "true");  // by its architecture
}

TEST(GgufKeyRules, ModelsWithExpertsUseSome) {
  KeyValues keys = keys_of("qwen3moe");
  keys["expert_used_count"] = 0u;
  EXPECT_ERROR_SAYS(values_of("qwen3moe", keys), ExitCode::checkpoint,
                    "'num_experts_per_tok': got 0; a layer has num_experts = 4 experts");
  KeyValues dense = keys_of("qwen3");
  dense["expert_count"] = 0u;
  dense["expert_used_count"] = 0u;
  EXPECT_EQ(values_of("qwen3", dense), values_of("qwen3", keys_of("qwen3")));
}

TEST(GgufKeyRules, KeysThatAFamilyLacksAreRefusedByName) {
  KeyValues keys = keys_of("qwen2");
  keys["logit_scale"] = 0.5f;
  EXPECT_ERROR_SAYS(values_of("qwen2", keys), ExitCode::checkpoint,
                    "'qwen2.logit_scale' is unknown for family 'qwen2', so the model could compute "
                    "something else");
  keys["logit_scale"] = 1.f;
  EXPECT_EQ(values_of("qwen2", keys), values_of("qwen2", keys_of("qwen2")));
}

}  // namespace
}  // namespace lamina::testing
