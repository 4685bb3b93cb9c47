// Invalid configs of families with experts, latents, recurrent layers and patterns: the message
// names the key, the value and the expected value.
#include <map>

#include "errors/workplace.h"

namespace lamina::testing {
namespace {

using Settings = std::vector<std::string>;

// Settings that turn the model of run.toml into each family: two layers, width 16, two heads.
const std::map<std::string, Settings>& possible() {
  static const Settings delta = {"num_key_value_heads=2",  "head_dim=8",
                                 "linear_num_key_heads=2", "linear_num_value_heads=4",
                                 "linear_key_head_dim=4",  "linear_value_head_dim=4"};
  static const Settings latent = {"q_lora_rank=8",
                                  "kv_lora_rank=8",
                                  "qk_nope_head_dim=4",
                                  "qk_rope_head_dim=4",
                                  "v_head_dim=4",
                                  "n_routed_experts=8",
                                  "n_group=4",
                                  "topk_group=2",
                                  "first_k_dense_replace=1",
                                  "num_experts_per_tok=2"};
  auto with = [](Settings to, const Settings& more) {
    to.insert(to.end(), more.begin(), more.end());
    return to;
  };
  static const Settings experts = {"num_experts=4", "num_experts_per_tok=2"};
  static const Settings rotary = {"partial_rotary_factor=0.5",
                                  "rope_scaling.mrope_section=[1, 1, 0]"};
  static const Settings heads = {"num_key_value_heads=2", "head_dim=8"};
  static const std::map<std::string, Settings> all = {
      {"mixtral", {"num_key_value_heads=2", "num_local_experts=4"}},
      {"qwen3_moe", with(heads, experts)},
      {"qwen3_vl_moe", with(heads, with(experts, {"rope_scaling.mrope_section=[2, 1, 1]"}))},
      {"qwen3_omni_moe", with(heads, with(experts, {"rope_scaling.mrope_section=[2, 1, 1]"}))},
      {"qwen3_custom_moe", with(heads, experts)},
      {"qwen3_next", with(delta, experts)},
      {"qwen3_5", with(delta, rotary)},
      {"qwen3_5_moe", with(with(delta, rotary), experts)},
      {"gpt_oss", with(heads, {"num_local_experts=4", "num_experts_per_tok=2"})},
      {"llama4", with(heads, {"num_local_experts=4"})},
      {"envy", with(heads, {"num_experts=4"})},
      {"gemma", heads},
      {"gemma2", heads},
      {"gemma3", heads},
      {"gemma4", heads},
      {"deepseek", latent},
      {"deepseek_v2", latent},
  };
  return all;
}

struct Impossible {
  std::string family;
  Settings settings;  // after the valid ones
  std::vector<std::string> says;
};

// `lamina train` of run.toml as that family; the last value of a repeated key counts.
void expect(const Workplace& w, const Impossible& mistake) {
  std::vector<std::string> words = {"train", "run.toml", "--set", "family=" + mistake.family};
  Settings all = possible().at(mistake.family);
  all.insert(all.end(), mistake.settings.begin(), mistake.settings.end());
  for (const std::string& setting : all) {
    words.emplace_back("--set");
    words.push_back("model." + setting);
  }
  std::vector<std::string> says = mistake.says;
  for (const std::string& setting : mistake.settings)  // the place of the setting
    says.push_back("--set model." + setting.substr(0, setting.find('=')));
  if (mistake.settings.size() > 1) says.resize(mistake.says.size());
  w.expect({words, 2, says});
}

void expect_each(const std::vector<std::string>& families, const Settings& settings,
                 const std::vector<std::string>& says) {
  Workplace w;
  for (const std::string& family : families) expect(w, {family, settings, says});
}

TEST(SparseFamilyErrors, ValidSettingsAreAccepted) {
  Workplace w;
  for (const auto& [family, settings] : possible()) {
    std::vector<std::string> words = {"explain", "run.toml", "--set", "family=" + family};
    for (const std::string& setting : settings) {
      words.emplace_back("--set");
      words.push_back("model." + setting);
    }
    Finished f = w.lamina(words);
    EXPECT_EQ(f.code, 0) << family << "\n" << f.err;
  }
}

TEST(SparseFamilyErrors, SizesThatMakeNoHeadsAreRefused) {
  expect_each({"mixtral", "qwen3_moe", "qwen3_custom_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe",
               "gpt_oss", "llama4", "envy", "gemma", "gemma2", "gemma3", "gemma4"},
              {"num_key_value_heads=3"},
              {"'num_key_value_heads': got 3; it must divide num_attention_heads = 2"});
  expect_each({"gpt_oss"}, {"head_dim=7"}, {"'head_dim': got 7", "need an even head_dim"});
  expect_each({"deepseek", "deepseek_v2"}, {"qk_rope_head_dim=3"},
              {"'qk_rope_head_dim': got 3", "need an even number"});
  expect_each({"deepseek", "deepseek_v2"}, {"kv_lora_rank=0"}, {"at least 1, got 0"});
  expect_each({"deepseek", "deepseek_v2"}, {"q_lora_rank=-1"}, {"at least 0, got -1"});
  expect_each({"deepseek", "deepseek_v2"}, {"v_head_dim=0"}, {"at least 1, got 0"});
}

TEST(SparseFamilyErrors, ImpossibleNumbersOfExpertsAreRefused) {
  expect_each({"mixtral", "gpt_oss", "llama4"}, {"num_experts_per_tok=5"},
              {"'num_experts_per_tok': got 5; a layer has num_local_experts = 4 experts, so it "
               "must be at most that"});
  expect_each({"qwen3_moe", "qwen3_custom_moe", "qwen3_next", "qwen3_5_moe", "envy"},
              {"num_experts_per_tok=5"}, {"got 5; a layer has num_experts = 4 experts"});
  expect_each({"mixtral", "gpt_oss"}, {"num_local_experts=0"},
              {"at least 1 and at most 65536, got 0"});
  expect_each({"qwen3_custom_moe", "qwen3_5_moe"}, {"num_experts=0"},
              {"at least 1 and at most 65536, got 0"});
  expect_each({"qwen3_moe", "qwen3_vl_moe", "qwen3_omni_moe", "qwen3_next"},
              {"num_experts_per_tok=0"},
              {"'num_experts_per_tok': got 0; a layer has num_experts = 4 experts, so it must be "
               "at least 1"});
  expect_each({"llama4"}, {"num_local_experts=0"},
              {"'num_local_experts': got 0, but by interleave_moe_layer_step there are layers with "
               "experts; it must be at least 1, or moe_layers must be empty"});
  expect_each({"llama4"}, {"num_local_experts=0", "moe_layers=[1]"},
              {"'num_local_experts': got 0, but by moe_layers there are layers with experts"});
  expect_each({"llama4"}, {"num_experts_per_tok=0"},
              {"'num_experts_per_tok': got 0; a layer has num_local_experts = 4 experts, so it "
               "must be at least 1"});
  expect_each({"deepseek", "deepseek_v2"}, {"num_experts_per_tok=9"},
              {"got 9; a layer has n_routed_experts = 8 experts"});
  expect_each(
      {"gemma4"},
      {"enable_moe_block=true", "num_experts=4", "moe_intermediate_size=8", "top_k_experts=5"},
      {"'top_k_experts': got 5; it must be at most num_experts = 4"});
  expect_each({"gemma4"}, {"enable_moe_block=true", "num_experts=4", "moe_intermediate_size=0"},
              {"'moe_intermediate_size'", "enable_moe_block needs at least 1"});
  expect_each({"qwen3_custom_moe"}, {"moe_expert_input_dim=0"}, {"at least 1, got 0"});
  expect_each({"mixtral", "qwen3_moe", "envy", "llama4"}, {"capacity_factor=-1"},
              {"at least 0, got -1"});
  expect_each({"gpt_oss"}, {"swiglu_limit=-1"}, {"at least 0, got -1"});
}

TEST(SparseFamilyErrors, GroupsThatDoNotDivideTheExpertsAreRefused) {
  // Null in config.json means "not grouped" in DeepSeek V2 alone; an export of V3 would not run.
  expect_each({"deepseek"}, {"n_group=0"}, {"at least 1, got 0"});
  expect_each({"deepseek"}, {"n_group=3"}, {"'n_group': got 3; it must divide the 8 experts"});
  expect_each({"deepseek"}, {"topk_group=5"}, {"'topk_group': got 5; it must be 1 to n_group = 4"});
  expect_each({"deepseek"}, {"num_experts_per_tok=4", "topk_group=1"},
              {"'topk_group': got 1 groups of 2 experts; a token is routed to 4 of them"});
  expect_each({"deepseek"}, {"scoring_func=\"relu\""},
              {"must be \"softmax\" or \"sigmoid\", got \"relu\""});
  expect_each({"deepseek_v2"}, {"topk_method=\"best\""},
              {"\"greedy\"", "\"group_limited_greedy\"", "got \"best\""});
}

TEST(SparseFamilyErrors, KeysOfMissingPartsAreRefused) {
  const std::vector<std::string> both = {"deepseek", "deepseek_v2"};
  const std::vector<std::string> no_indexer = {"needs an indexer, and index_n_heads is 0"};
  for (const char* key : {"index_topk=4", "indexer_loss_weight=0.5",
                          "indexer_sparse_training=false", "indexer_warm_up_chooses=true"})
    expect_each(both, {key}, no_indexer);
  const Settings indexer = {"index_n_heads=2", "index_head_dim=8"};
  auto indexed = [&](const char* key) {
    Settings all = indexer;
    all.emplace_back(key);
    return all;
  };
  expect_each(both, indexed("q_lora_rank=0"), {"'q_lora_rank': got 0; the indexer reads"});
  expect_each(both, indexed("index_head_dim=2"),
              {"'index_head_dim': got 2; it must be at least qk_rope_head_dim = 4"});
  expect_each(both, indexed("indexer_warm_up_chooses=true"),
              {"'indexer_warm_up_chooses': got true, which needs the dense warm-up"});
  expect_each({"deepseek"}, {"n_group=8"}, {"'n_group': got 8 groups of one expert", "at most 4"});
  for (const char* key :
       {"biased_routing_weights=true", "learned_router_bias=true", "router_bias_update_rate=0.1"})
    expect_each({"deepseek_v2"}, {key},
                {"a correction bias, which topk_method = \"greedy\" does not have"});
  expect_each(both, {"router_bias_counts_padding=true"},
              {"'router_bias_counts_padding': got true, and router_bias_update_rate is 0"});
  expect_each(both, {"mhc_permutations=true"}, {"'mhc_permutations': got true with one residual"});
  expect_each(both, {"mhc_permutations=true", "mhc_expansion_rate=9"},
              {"'mhc_expansion_rate': got 9; with mhc_permutations it must be at most"});
}

TEST(SparseFamilyErrors, PatternsThatDoNotFitTheLayersAreRefused) {
  expect_each({"qwen3_next", "qwen3_5", "qwen3_5_moe", "gpt_oss", "gemma3", "gemma4", "llama4"},
              {"layer_types=[\"full_attention\"]"},
              {"'layer_types' must have one element per layer (2), got 1"});
  expect_each({"gpt_oss", "gemma4", "qwen3_next"}, {"layer_types=[\"full_attention\", \"far\"]"},
              {"\"full_attention\"", "\"far\""});
  expect_each({"llama4"}, {"no_rope_layers=[1]"},
              {"'no_rope_layers': has 1 elements; it must have one for each of the 2 layers"});
  expect_each({"llama4"}, {"layer_types=[\"chunked_attention\", \"full_attention\"]"},
              {"'layer_types': got full_attention for layer 1", "it must be chunked_attention"});
  expect_each({"envy"}, {"interleave_moe_layer_step=0"}, {"at least 1, got 0"});
  expect_each({"llama4"}, {"interleave_moe_layer_step=0"},
              {"'interleave_moe_layer_step': got 0 without moe_layers; it must be at least 1, or "
               "moe_layers must list the layers with experts, eg: [] for none"});
  expect_each({"qwen3_next", "qwen3_5"}, {"full_attention_interval=0"}, {"at least 1, got 0"});
  expect_each({"gemma3"}, {"sliding_window_pattern=0"}, {"at least 1, got 0"});
  expect_each({"gemma4"}, {"num_kv_shared_layers=2"},
              {"'num_kv_shared_layers': got 2; it must be less than num_hidden_layers = 2"});
}

TEST(SparseFamilyErrors, RoutersThatAlwaysNormaliseHaveNoKeyForIt) {
  expect_each({"qwen3_vl_moe", "qwen3_5_moe"}, {"norm_topk_prob=true"},
              {"unknown key 'model.norm_topk_prob'"});
}

TEST(SparseFamilyErrors, WindowsAndPositionsOutsideOfLimitsAreRefused) {
  expect_each({"gemma4"}, {"sliding_window=0"}, {"at least 1, got 0"});
  expect_each({"gemma2", "gemma3", "gpt_oss"}, {"sliding_window=0"},
              {"'sliding_window': got 0 with sliding_attention layers; it must be at least 1"});
  expect_each({"llama4"}, {"attention_chunk_size=-1"}, {"at least 0, got -1"});
  expect_each({"qwen3_next", "qwen3_5"}, {"partial_rotary_factor=1.5"},
              {"greater than 0 and at most 1, got 1.5"});
  expect_each({"qwen3_vl_moe", "qwen3_omni_moe"},
              {"rope_scaling.mrope_section=[1, 2, 3]", "rope_scaling.mrope_interleaved=false"},
              {"got 3 numbers with the sum 6", "three with the sum 4"});
  expect_each({"gemma2"}, {"query_pre_attn_scalar=0"}, {"greater than 0, got 0"});
}

TEST(SparseFamilyErrors, ImpossibleSizesOfRecurrentLayersAreRefused) {
  expect_each({"qwen3_next", "qwen3_5", "qwen3_5_moe"}, {"linear_num_value_heads=3"},
              {"'linear_num_value_heads': got 3; it must be a multiple of "
               "linear_num_key_heads = 2"});
  expect_each({"qwen3_next", "qwen3_5"}, {"linear_conv_kernel_dim=0"}, {"at least 1, got 0"});
  expect_each({"qwen3_next", "qwen3_5"}, {"linear_key_head_dim=0"}, {"at least 1, got 0"});
}

// A family that has few of run.toml's keys.
TEST(SparseFamilyErrors, ImpossibleCompressedAttentionIsRefused) {
  const std::string model = R"(family = "deepseek4"
[model]
vocab_size = 258
hidden_size = 16
num_hidden_layers = 3
num_attention_heads = 2
head_dim = 8
q_lora_rank = 8
qk_rope_head_dim = 4
o_groups = 2
o_lora_rank = 4
index_n_heads = 2
index_head_dim = 8
n_routed_experts = 4
num_experts_per_tok = 2
moe_intermediate_size = 8
)";
  Workplace w;
  w.write("model.toml", model);
  Finished f = w.lamina({"plan", "model.toml"});
  EXPECT_EQ(f.code, 0) << f.err;
  auto refuses = [&](const std::string& line, const std::vector<std::string>& says) {
    const std::string key = line.substr(0, line.find(' '));
    const std::size_t at = model.find("\n" + key + " =");
    std::string changed = model;
    if (at != model.npos) changed.erase(at, model.find('\n', at + 1) - at);
    w.write("model.toml", changed + line + "\n");
    w.expect({{"plan", "model.toml"}, 2, says});
  };
  refuses("compress_ratios = [0, 4, 8]", {"'compress_ratios': got 8; use 0, 4 or 128"});
  refuses("compress_ratios = [0, 4]",
          {"'compress_ratios': has 2 elements; it must have one for each of the 3 layers"});
  refuses(
      "layer_types = [\"sliding_attention\", \"sliding_attention\", "
      "\"compressed_sparse_attention\"]\ncompress_ratios = [0, 4, 4, 0]",
      {"'layer_types': contradicts compress_ratios"});
  refuses("qk_rope_head_dim = 10", {"'qk_rope_head_dim': got 10; it must be even and at most"});
  refuses("layer_types = [\"sliding_attention\", \"full\", \"full\"]",
          {"model.layer_types", "\"compressed_sparse_attention\""});
  refuses("qk_rope_head_dim = 3", {"'qk_rope_head_dim': got 3; it must be even"});
  refuses("index_head_dim = 2", {"'index_head_dim': got 2; it must be at least qk_rope_head_dim"});
  refuses("o_groups = 3", {"'o_groups': got 3; it must divide num_attention_heads = 2"});
  refuses("num_key_value_heads = 2", {"got 2; keys and values are one head"});
  refuses("num_experts_per_tok = 5", {"got 5; a layer has n_routed_experts = 4 experts"});
  refuses("norm_topk_prob = false", {"weights of experts are always divided by their sum"});
  refuses("scoring_func = \"sigmoid\"", {"\"sqrtsoftplus\""});
}

}  // namespace
}  // namespace lamina::testing
