// adapter_config.json of PEFT: each of its keys is used, has no effect, or is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/json_writer.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "weights/publish/peft_config.h"

namespace lamina::testing {
namespace {

using weights::PeftConfig;

enum class Outcome { used, without_effect, refused };

struct KeyOfPeft {
  const char* name;
  const char* saved;  // the JSON value saved by LoraConfig(r=4, target_modules=["q_proj"])
  struct Value {
    const char* json;
    Outcome outcome;
  };
  std::vector<Value> values;
};

constexpr Outcome kUsed = Outcome::used, kNoEffect = Outcome::without_effect,
                  kRefused = Outcome::refused;

// The fields of LoraConfig in PEFT 0.21.2, without runtime_config, which it does not save.
const std::vector<KeyOfPeft>& keys_of_peft() {
  static const std::vector<KeyOfPeft> keys = {
      {"task_type",
       "null",
       {{"\"CAUSAL_LM\"", kNoEffect},
        {"\"FEATURE_EXTRACTION\"", kNoEffect},
        {"\"SEQ_CLS\"", kRefused},
        {"\"SEQ_2_SEQ_LM\"", kRefused}}},
      {"peft_type", "\"LORA\"", {{"\"IA3\"", kRefused}, {"\"LOHA\"", kRefused}}},
      {"auto_mapping", "null", {{"{\"base_model_class\": \"A\"}", kNoEffect}}},
      {"peft_version", "\"0.21.2\"", {{"\"0.5.0\"", kNoEffect}}},
      {"base_model_name_or_path", "null", {{"\"base\"", kUsed}}},
      {"revision", "null", {{"\"main\"", kNoEffect}}},
      {"inference_mode", "true", {{"false", kNoEffect}}},
      {"r", "4", {{"8", kUsed}, {"0", kRefused}, {"\"8\"", kRefused}}},
      {"target_modules",
       "[\"q_proj\"]",
       {{"[\"q_proj\", \"k_proj\"]", kUsed},
        {"\"all-linear\"", kUsed},
        {"\".*q_proj\"", kUsed},
        {"[]", kRefused},
        {"null", kRefused}}},
      {"exclude_modules",
       "null",
       {{"[\"lm_head\"]", kUsed}, {"\".*vision.*\"", kUsed}, {"[]", kNoEffect}}},
      {"lora_alpha", "8", {{"16", kUsed}, {"0.5", kUsed}, {"Infinity", kRefused}}},
      {"lora_dropout", "0.0", {{"0.1", kUsed}, {"NaN", kRefused}}},
      {"fan_in_fan_out", "false", {{"true", kNoEffect}}},
      {"bias", "\"none\"", {{"\"all\"", kRefused}, {"\"lora_only\"", kRefused}}},
      {"use_rslora", "false", {{"true", kUsed}}},
      {"modules_to_save", "null", {{"[\"lm_head\"]", kRefused}, {"[]", kNoEffect}}},
      {"init_lora_weights",
       "true",
       {{"false", kNoEffect},
        {"\"gaussian\"", kNoEffect},
        {"\"eva\"", kNoEffect},
        {"\"orthogonal\"", kNoEffect},
        {"\"mica\"", kNoEffect},
        {"\"pissa\"", kRefused},
        {"\"pissa_niter_16\"", kRefused},
        {"\"olora\"", kRefused},
        {"\"corda\"", kRefused},
        {"\"loftq\"", kRefused},
        {"\"lora_ga\"", kRefused},
        {"\"of tomorrow\"", kRefused}}},
      {"layers_to_transform", "null", {{"0", kRefused}, {"[0, 1]", kRefused}}},
      {"layers_pattern", "null", {{"\"layers\"", kRefused}, {"[\"h\"]", kRefused}}},
      {"rank_pattern", "{}", {{"{\"q_proj\": 2}", kRefused}, {"{\"^a.*\": 4}", kRefused}}},
      {"alpha_pattern", "{}", {{"{\"q_proj\": 2}", kRefused}, {"{\"^a.*\": 4}", kRefused}}},
      {"megatron_config", "null", {{"{\"tensor_parallel\": 2}", kRefused}}},
      {"megatron_core", "\"megatron.core\"", {{"\"other.core\"", kNoEffect}}},
      {"trainable_token_indices",
       "null",
       {{"[0, 5]", kRefused}, {"{\"embed_tokens\": [1]}", kRefused}}},
      {"loftq_config", "{}", {{"{\"loftq_bits\": 4}", kNoEffect}}},
      {"eva_config", "null", {{"{\"rho\": 2.0}", kNoEffect}, {"{\"rho\": Infinity}", kNoEffect}}},
      {"corda_config", "null", {{"{\"corda_method\": \"ipm\"}", kNoEffect}}},
      {"lora_ga_config", "null", {{"{\"direction\": \"ArB2r\"}", kNoEffect}}},
      {"use_dora", "false", {{"true", kUsed}}},
      {"velora_config", "null", {{"{\"num_groups\": 4}", kRefused}}},
      {"alora_invocation_tokens", "null", {{"[300, 301]", kRefused}}},
      {"use_qalora", "false", {{"true", kRefused}}},
      {"qalora_group_size", "16", {{"32", kNoEffect}}},
      {"monteclora_config", "null", {{"{\"num_samples\": 2}", kRefused}}},
      {"layer_replication", "null", {{"[[0, 1], [0, 1]]", kRefused}}},
      {"lora_bias", "false", {{"true", kRefused}}},
      {"target_parameters", "null", {{"[\"mlp.experts.down_proj\"]", kRefused}}},
      {"use_bdlora", "null", {{"{\"nblocks\": 2}", kRefused}}},
      {"arrow_config", "null", {{"{\"top_k\": 2}", kRefused}}},
      {"kasa_config", "null", {{"{\"beta\": 0.1}", kRefused}}},
      {"ensure_weight_tying", "false", {{"true", kNoEffect}}},
  };
  return keys;
}

// The saved configuration with another value of `changed`, or an additional key.
std::string config_with(const std::string& changed, const std::string& json) {
  std::string out = "{", separator;
  bool known = false;
  for (const KeyOfPeft& key : keys_of_peft()) {
    known = known || key.name == changed;
    out += separator + json_quote(key.name) + ": " + (key.name == changed ? json : key.saved);
    separator = ",\n";
  }
  if (!known && !changed.empty()) out += separator + json_quote(changed) + ": " + json;
  return out + "}\n";
}

PeftConfig read_with(const std::string& changed, const std::string& json) {
  const TempDir folder;
  folder.write("adapter_config.json", config_with(changed, json));
  return weights::read_peft_config(folder / ".");
}

TEST(AdapterConfig, ReadsTheSavedConfigOfPeft) {
  const PeftConfig config = read_with("", "");
  EXPECT_EQ(config.rank, 4);
  EXPECT_EQ(config.scale(), 2.0);
  EXPECT_EQ(config.target_modules, std::vector<std::string>{"q_proj"});
  EXPECT_FALSE(config.dora);
}

TEST(AdapterConfig, TakesAllLinearInAnyCase) {
  for (const char* json : {"\"ALL-LINEAR\"", "\"All-Linear\""})
    EXPECT_EQ(read_with("target_modules", json), read_with("target_modules", "\"all-linear\""));
}

TEST(AdapterConfig, UsesEachKeyOrKnowsItWithoutEffectOrRefusesItByName) {
  const PeftConfig saved = read_with("", "");
  for (const KeyOfPeft& key : keys_of_peft())
    for (const auto& [json, outcome] : key.values) {
      SCOPED_TRACE(std::string(key.name) + " = " + json);
      if (outcome == kRefused)
        EXPECT_ERROR_SAYS(read_with(key.name, json), ExitCode::checkpoint,
                          "'" + std::string(key.name) + "'")
      else
        EXPECT_EQ(read_with(key.name, json) == saved, outcome == kNoEffect);
    }
}

TEST(AdapterConfig, RefusesAKeyThatItDoesNotKnowUnlessItIsNothing) {
  for (const char* json : {"0.5", "true", "0", "\"on\"", "[1]", "{\"a\": null}"})
    EXPECT_ERROR_SAYS(read_with("kappa", json), ExitCode::checkpoint,
                      "which lamina's adapters do not support")
  for (const char* json : {"null", "false", "\"\"", "[]", "{}"})
    EXPECT_EQ(read_with("kappa", json), read_with("", ""));
}

TEST(AdapterConfig, SaysWhyAnAdapterThatChangesItsBaseIsRefused) {
  EXPECT_ERROR_SAYS(read_with("init_lora_weights", "\"pissa\""), ExitCode::checkpoint,
                    "PEFT changes the base when it loads such an adapter, which lamina does "
                    "not support\n"
                    "  save it again with path_initial_model_for_weight_conversion of PEFT");
  EXPECT_ERROR_SAYS(read_with("init_lora_weights", "\"of tomorrow\""), ExitCode::checkpoint,
                    "is \"of tomorrow\", which lamina does not know: it may change the base\n"
                    "  save it again with path_initial_model_for_weight_conversion of PEFT");
}

bool names(const std::string& targets, const std::string& module,
           const std::string& excluded = "null") {
  const TempDir folder;
  std::string text = config_with("target_modules", targets);
  const std::string empty = "\"exclude_modules\": null";
  text.replace(text.find(empty), empty.size(), "\"exclude_modules\": " + excluded);
  folder.write("adapter_config.json", text);
  return weights::TargetModules(weights::read_peft_config(folder / "."), "here").contains(module);
}

TEST(TargetModules, AreNamedByTheirWholePathOrItsEnd) {
  const std::string module = "model.layers.0.self_attn.q_proj";
  EXPECT_TRUE(names("[\"q_proj\"]", module));
  EXPECT_TRUE(names("[\"self_attn.q_proj\"]", module));
  EXPECT_TRUE(names("[\"" + module + "\"]", module));
  EXPECT_FALSE(names("[\"proj\"]", module));
  EXPECT_FALSE(names("[\"self_attn\"]", module));
  EXPECT_FALSE(names("[\"model.layers.1.self_attn.q_proj\"]", module));
}

TEST(TargetModules, MatchAPatternWithTheWholePath) {
  const std::string module = "model.layers.0.self_attn.q_proj";
  EXPECT_TRUE(names("\".*\\\\.(q_proj|v_proj)\"", module));
  EXPECT_TRUE(names("\".*\\\\.(q_proj|v_proj)$\"", module));
  EXPECT_TRUE(names("\"model\\\\.layers\\\\.\\\\d+\\\\.self_attn\\\\.[qk]_proj\"", module));
  EXPECT_TRUE(names("\"^(?!.*vision).*q_proj\"", module));
  EXPECT_TRUE(names("\".*layers\\\\.[0-9]{,2}\\\\..*q_proj\"", module));
  EXPECT_FALSE(names("\"q_proj\"", module));
  EXPECT_FALSE(names("\".*self_attn\"", module));
  EXPECT_FALSE(names("\"k_proj|.*v_proj\"", module));
}

TEST(TargetModules, SkipExcludedModules) {
  const std::string module = "model.layers.0.self_attn.q_proj";
  EXPECT_FALSE(names("\"all-linear\"", module, "[\"q_proj\"]"));
  EXPECT_FALSE(names("[\"q_proj\"]", module, "\".*layers\\\\.0\\\\..*\""));
  EXPECT_TRUE(names("[\"q_proj\"]", module, "\"layers\""));
}

TEST(TargetModules, RefuseAnInvalidPattern) {
  for (const char* pattern : {"\"(q_proj\"", "\"a)|(b\"", "\"*\""})
    EXPECT_ERROR_SAYS(names(pattern, "q_proj"), ExitCode::checkpoint, "'target_modules'")
}

}  // namespace
}  // namespace lamina::testing
