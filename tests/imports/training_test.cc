// Training settings of MaxText configurations in the run file: optimizer, groups and fine-tuning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/run_config.h"
#include "imports/run_file.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace lamina::imports {
namespace {

using lamina::testing::TempDir;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The tests' base.yml with `text` above it.
Imported import_text(const std::string& text) {
  const TempDir folder;
  Configuration configuration{.name = "mine",
                              .file = "mine.yml",
                              .base = read_yaml(LAMINA_SOURCE_DIR "/tests/imports/base.yml"),
                              .given = read_yaml(folder.write("mine.yml", text))};
  return import_run(configuration);
}

config::RunConfig run_of(const std::string& text) {
  return config::parse_run(import_text(text).toml, "run.toml");
}

std::string optional_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.6g}", *value) : "-";
}

// One text per group: "*.wq.weight x 8 decay 0.1".
std::vector<std::string> groups_of(const std::string& text) {
  std::vector<std::string> out;
  for (const config::ParameterGroup& g : run_of(text).optimizer.groups) {
    std::string line = g.match.value_or("") + g.role.value_or("") + g.group.value_or("");
    if (g.frozen.value_or(false)) line += " frozen";
    if (g.multiplier) line += " x " + optional_text(g.multiplier);
    if (g.weight_decay) line += " decay " + optional_text(g.weight_decay);
    if (!g.split_rows.empty()) line += fmt::format(" split {}", fmt::join(g.split_rows, "+"));
    out.push_back(line);
  }
  return out;
}

constexpr const char* kDeepSeek =
    "decoder_block: deepseek\nattention_type: mla\nnum_experts: 4\nshared_experts: 1\n";

TEST(ImportOptimizer, StateInHostMemoryIsCarriedOver) {
  EXPECT_TRUE(
      run_of("decoder_block: qwen3\noptimizer_memory_host_offload: True\n").optimizer.offload);
  EXPECT_FALSE(run_of("decoder_block: qwen3\n").optimizer.offload);
}

TEST(ImportOptimizer, EveryParameterDecays) {
  for (const char* type : {"adamw", "adam_pax"})
    EXPECT_THAT(groups_of(fmt::format("decoder_block: qwen3\nopt_type: {}\n", type)),
                ElementsAre("* decay 0.1"));
  EXPECT_THAT(groups_of("decoder_block: qwen3\nadam_weight_decay: 0\n"), IsEmpty());
}

TEST(ImportOptimizer, SgdDecaysNothing) {
  const config::RunConfig run = run_of("decoder_block: qwen3\nopt_type: sgd\n");
  EXPECT_EQ(run.optimizer.weight_decay, 0);
  EXPECT_THAT(run.optimizer.groups, IsEmpty());
}

// Blocks with 1 / sqrt(head_dim) in the kernel.
TEST(ImportOptimizer, QueryKernelsAreTrainedInTheirUnits) {
  for (const char* block : {"llama2", "default", "mistral", "mixtral"})
    EXPECT_THAT(groups_of(fmt::format("decoder_block: {}\nhead_dim: 64\n", block)),
                ElementsAre("*.wq.weight x 8 decay 0.1", "* decay 0.1"))
        << block;
  for (const char* block : {"qwen2", "qwen3", "envy"})
    EXPECT_THAT(groups_of(fmt::format("decoder_block: {}\nhead_dim: 64\n", block)),
                ElementsAre("* decay 0.1"))
        << block;
  EXPECT_THAT(groups_of("head_dim: 64\nopt_type: sgd\n"), ElementsAre("*.wq.weight x 8 decay 0"));
}

// MaxText's table is sqrt(width) times lamina's.
TEST(ImportOptimizer, TablesOfGemmaAreTrainedInTheirUnits) {
  EXPECT_THAT(
      groups_of("decoder_block: gemma\nhead_dim: 64\nbase_emb_dim: 256\n"
                "logits_via_embedding: true\n"),
      ElementsAre("*.wq.weight x 8 decay 0.1", "embed.weight x 0.0625 decay 0.1", "* decay 0.1"));
}

TEST(ImportOptimizer, NormsThatHoldAnotherValueAreNamed) {
  const std::string gemma = "decoder_block: gemma\nlogits_via_embedding: true\n";
  const auto decay = HasSubstr("adam_weight_decay: MaxText's decay moves the norms of this block");
  EXPECT_THAT(import_text(gemma).said, Contains(decay));
  EXPECT_THAT(import_text(gemma + "adam_weight_decay: 0\n").said, ::testing::Not(Contains(decay)));
}

TEST(ImportOptimizer, MuonHasASeparateDecayForMatrices) {
  const std::string muon = "opt_type: muon\nmuon_weight_decay: 0.05\n";
  EXPECT_THAT(groups_of("decoder_block: qwen3\n" + muon),
              ElementsAre("weight decay 0.05", "* decay 0.1"));
  EXPECT_THAT(groups_of(kDeepSeek + muon),
              ElementsAre("router decay 0.05", "weight decay 0.05", "* decay 0.1"));
  EXPECT_THAT(groups_of(kDeepSeek + muon + "mhc_expansion_rate: 4\n"),
              ElementsAre("*.mhc_@(attention|ffn).fn.weight decay 0.05 split 4+4+16",
                          "router decay 0.05", "weight decay 0.05", "* decay 0.1"));
  EXPECT_THAT(groups_of("decoder_block: qwen3\nopt_type: muon\nmuon_weight_decay: 0.1\n"),
              ElementsAre("* decay 0.1"));
}

TEST(ImportOptimizer, MuonOfDeepSeekV4HasTenSteps) {
  const std::string v4 =
      "decoder_block: deepseek4\nattention_type: compressed\nnum_experts: 4\nshared_experts: 1\n"
      "routed_bias: true\nmlp_activations_limit: 10.0\nfirst_num_hash_layers: 1\n"
      "o_groups: 2\no_lora_rank: 8\nq_lora_rank: 8\ncompress_ratios: [4, 4]\n"
      "base_num_decoder_layers: 2\nopt_type: muon\n";
  const Imported imported = import_text(v4);
  const config::RunConfig run = config::parse_run(imported.toml, "run.toml");
  EXPECT_EQ(run.optimizer.newton_schulz_steps, 8);
  EXPECT_EQ(run.optimizer.newton_schulz_stable_steps, 2);
  EXPECT_THAT(imported.said, Contains(HasSubstr("opt_type: MaxText's Muon takes the position "
                                                "biases of compressors as matrices")));
  const config::RunConfig v3 = run_of(std::string(kDeepSeek) + "opt_type: muon\n");
  EXPECT_EQ(v3.optimizer.newton_schulz_steps, 5);
  EXPECT_EQ(v3.optimizer.newton_schulz_stable_steps, 0);
}

TEST(ImportOptimizer, MasksBecomeGroups) {
  EXPECT_THAT(groups_of("decoder_block: qwen3\nadamw_mask: ['.*embedding.*', '.*norm.*', "
                        "'.*bias']\n"),
              ElementsAre("!(*embed*|positions.*|*engram.table*|*norm*|*bias*) decay 0.1"));
  EXPECT_EQ(run_of("decoder_block: qwen3\nadamw_mask: ['.*bias']\n").optimizer.weight_decay, 0);
  EXPECT_THAT(
      groups_of("decoder_block: qwen3\ntrainable_parameters_mask: ['mlp/', "
                "'embedding']\n"),
      ElementsAre("!(*feed_forward*|*embed*|positions.*|*engram.table*) frozen", "* decay 0.1"));
  EXPECT_THAT(groups_of("trainable_parameters_mask: ['.*mlp.*']\n"),
              ElementsAre("!(*feed_forward*) frozen", "* decay 0.1"));
  EXPECT_ERROR_SAYS(
      import_text("adamw_mask: ['layer1/.*kernel']\n"), ExitCode::usage,
      "'adamw_mask' and 'trainable_parameters_mask' may contain embedding, norm, bias, "
      "indexer, self_attention and mlp");
  EXPECT_ERROR_SAYS(import_text("adamw_mask: [bias]\nopt_type: muon\n"), ExitCode::usage,
                    "'adamw_mask' must be [] with muon");
}

// A group without a parameter outside of earlier groups is an error of the run.
TEST(ImportOptimizer, GroupsOfMasksHaveParameters) {
  const std::string gemma =
      "decoder_block: gemma\nhead_dim: 64\nbase_emb_dim: 256\nlogits_via_embedding: true\n";
  EXPECT_THAT(groups_of(gemma + "adamw_mask: ['.*embedding.*']\n"),
              ElementsAre("*.wq.weight x 8 decay 0.1", "embed.weight x 0.0625 decay 0",
                          "!(*embed*|positions.*|*engram.table*) decay 0.1"));
  EXPECT_THAT(groups_of(gemma + "trainable_parameters_mask: ['.*embedding.*']\n"),
              ElementsAre("!(*embed*|positions.*|*engram.table*) frozen",
                          "embed.weight x 0.0625 decay 0.1"));
  EXPECT_THAT(
      groups_of("head_dim: 64\nadamw_mask: [norm]\n"
                "trainable_parameters_mask: [self_attention]\n"),
      ElementsAre("!(*attention.*) frozen", "*.wq.weight x 8 decay 0.1", "!(*norm*) decay 0.1"));
  EXPECT_THAT(groups_of("decoder_block: qwen3\nadamw_mask: [norm, mlp]\n"
                        "trainable_parameters_mask: [mlp, norm]\n"),
              ElementsAre("!(*feed_forward*|*norm*) frozen"));
}

TEST(ImportOptimizer, QkClipIsForLatentAttention) {
  EXPECT_EQ(run_of(std::string(kDeepSeek) + "use_qk_clip: true\n").optimizer.qk_clip, 100);
  EXPECT_ERROR_SAYS(import_text("use_qk_clip: true\n"), ExitCode::usage,
                    "'use_qk_clip' must be false without attention_type = \"mla\"");
}

TEST(ImportOptimizer, MomentsInBfloat16AreCarriedOver) {
  const Imported run = import_text("mu_dtype: bfloat16\n");
  EXPECT_EQ(config::parse_run(run.toml, "run.toml").optimizer.moments, "bfloat16");
  EXPECT_THAT(run.said,
              Contains("mu_dtype: optimizer.moments = \"bfloat16\" applies to both moments; "
                       "MaxText keeps the second in float32"));
  EXPECT_EQ(run_of("mu_dtype: bfloat16\nopt_type: sgd\n").optimizer.moments, "float32");
  EXPECT_ERROR_SAYS(import_text("mu_dtype: float16\n"), ExitCode::usage, "'mu_dtype' must be");
}

TEST(ImportOptimizer, TeacherOfAttentionIsFrozen) {
  EXPECT_THAT(groups_of("learn_to_init_mode: true\nhead_dim: 64\nteacher_num_query_heads: 4\n"
                        "teacher_num_kv_heads: 4\nteacher_head_dim: 64\n"),
              ElementsAre("*.wq.channels.weight x 8 decay 0.1", "teacher frozen", "* decay 0.1"));
}

TEST(ImportFineTuning, ConversationsAreLearned) {
  const config::RunConfig run = run_of(
      "use_sft: true\nsft_train_on_completion_only: true\nload_parameters_path: models/llama\n"
      "use_tunix_gradient_accumulation: true\n");
  EXPECT_EQ(run.data.form, "chat");
  EXPECT_EQ(run.data.loss_on, "assistant");
  EXPECT_EQ(run.train.from, "models/llama");
  EXPECT_EQ(run_of("use_sft: true\n").data.loss_on, "all");
  EXPECT_THAT(import_text("use_sft: true\n").said,
              Contains("use_sft: the run begins with fresh weights; set a model in 'train.from'"));
  EXPECT_ERROR_SAYS(import_text("use_sft: true\nuse_dpo: true\n"), ExitCode::usage,
                    "'use_sft' and 'use_dpo' cannot be combined");
}

TEST(ImportFineTuning, PairsArePreferences) {
  const config::RunConfig run = run_of(
      "use_dpo: true\ndpo:\n  algo: dpo\n  dpo_beta: 0.2\n  dpo_label_smoothing: 0.1\n"
      "  max_prompt_length: null\nmax_target_length: 512\n");
  EXPECT_EQ(run.data.form, "preference");
  EXPECT_EQ(run.data.sequence_length, 1024) << "a row holds both answers";
  EXPECT_EQ(run.preference.loss, "dpo");
  EXPECT_EQ(run.preference.beta, 0.2);
  EXPECT_EQ(run.preference.label_smoothing, 0.1);
  const config::RunConfig odds = run_of("use_dpo: true\ndpo: {algo: orpo, orpo_lambda: 0.3}\n");
  EXPECT_EQ(odds.preference.loss, "orpo");
  EXPECT_EQ(odds.preference.beta, 0.3);
}

TEST(ImportFineTuning, AdaptersHaveTheNamedModules) {
  const std::string lora = "lora:\n  enable_lora: true\n  lora_rank: 8\n  lora_alpha: 16.0\n";
  const config::RunConfig run = run_of(lora + "head_dim: 64\n");
  EXPECT_EQ(run.lora.rank, 8);
  EXPECT_EQ(run.lora.alpha, 16);
  EXPECT_THAT(run.lora.target_modules, ElementsAre("q_proj", "k_proj", "v_proj", "o_proj",
                                                   "gate_proj", "up_proj", "down_proj"));
  EXPECT_THAT(groups_of(lora + "head_dim: 64\n"),
              ElementsAre("*.wq.weight x 8 decay 0.1", "*.wq.lora_b x 8 decay 0.1", "* decay 0.1"));
  EXPECT_THAT(
      run_of(lora +
             "  lora_module_path: 'decoder/layers/.*(self_attention/(query|out)|mlp/(wo))'\n")
          .lora.target_modules,
      ElementsAre("q_proj", "o_proj", "down_proj"));
  EXPECT_EQ(run_of("lora:\n  enable_lora: false\n  lora_rank: 0\n").lora.rank, 0);
  EXPECT_ERROR_SAYS(import_text(lora + "  lora_weight_qtype: nf4\n"), ExitCode::usage,
                    "'lora.lora_weight_qtype' must be null");
  EXPECT_ERROR_SAYS(import_text("lora:\n  enable_lora: true\n"), ExitCode::usage,
                    "'lora.lora_rank' must be at least 1");
  EXPECT_ERROR_SAYS(import_text("lora:\n  lora_rnk: 4\n"), ExitCode::usage,
                    "unknown key 'lora.lora_rnk'\n  did you mean 'lora.lora_rank'?");
}

const std::string kLora = "lora: {enable_lora: true, lora_rank: 8, lora_alpha: 16.0";

// `block`: keys of the decoder block; `path`: lora_module_path.
std::vector<std::string> modules_of(const std::string& block, const std::string& path) {
  return run_of(block + kLora + ", lora_module_path: '" + path + "'}\n").lora.target_modules;
}

// Whole paths, as qwix matches them: decoder/layers/self_attention/query.
TEST(ImportFineTuning, ModulesOfAdaptersMatchARegularExpression) {
  const std::string qwen = "decoder_block: qwen3\nlogits_via_embedding: true\n";
  EXPECT_THAT(modules_of(qwen, ".*(query|mlp/w.*)"),
              ElementsAre("q_proj", "gate_proj", "up_proj", "down_proj"));
  EXPECT_THAT(modules_of(qwen, ".*wi_.*|.*query"), ElementsAre("q_proj", "gate_proj", "up_proj"));
  EXPECT_THAT(modules_of(qwen, ".*self_attention.*(query|k.*y)"), ElementsAre("q_proj", "k_proj"));
  EXPECT_THAT(modules_of(qwen, "decoder/layers/self_attention/.*"),
              ElementsAre("q_proj", "k_proj", "v_proj", "o_proj"));
  EXPECT_THAT(modules_of(qwen, "decoder/layers(?:_[0-9]+|/[0-9]+)?/.*mlp/wo"),
              ElementsAre("down_proj"));
  EXPECT_THAT(modules_of(qwen, ".*mlp/w[a-z]{,1}"), ElementsAre("down_proj"));
  EXPECT_THAT(modules_of(qwen, ".*"), ::testing::SizeIs(7));
}

TEST(ImportFineTuning, OtherPathsOfAdaptersAreRefused) {
  struct Case {
    std::string block, path, says;
  };
  const std::string qwen = "decoder_block: qwen3\n";
  for (const Case& c : std::vector<Case>{
           {qwen, "'xyz'", "'lora.lora_module_path': matches no module of this block"},
           {qwen, "'query'", "matches no module of this block"},
           {qwen, "'.*'", "matches 'decoder/logits_dense', which cannot have an adapter here"},
           {qwen, "'a)|(b'", "'lora.lora_module_path': the pattern is not a regular expression"},
           {qwen, "null", "'lora.lora_module_path' must be a regular expression, or ''"},
           {qwen, "3", "'lora.lora_module_path' must be a regular expression, or ''"},
           {qwen, "'decoder/layers/0/.*query.*'",
            "matches only some of the layers with 'q_proj'; an adapter is in all of them"},
           {"decoder_block: gemma2\nlogits_via_embedding: true\nuse_post_attn_norm: true\n"
            "use_post_ffw_norm: true\n",
            "'.*attention_local/query'", "matches only some of the layers with 'q_proj'"},
           {"decoder_block: mixtral\nnum_experts: 4\n", "'decoder/layers/.*'",
            "matches 'decoder/layers/MoeBlock_0', which cannot have an adapter here"},
           {kDeepSeek, "''",
            "matches 'decoder/moe_layers/self_attention/wkv_b', which cannot have an adapter"},
           {std::string(kDeepSeek) + "first_num_dense_layers: 1\n", "'.*dense_layers.*/query'",
            "matches only some of the layers with 'q_proj'"}})
    EXPECT_ERROR_SAYS(import_text(c.block + kLora + ", lora_module_path: " + c.path + "}\n"),
                      ExitCode::usage, c.says);
  EXPECT_ERROR_SAYS(import_text(kLora + "}\nfused_qkv: true\n"), ExitCode::usage,
                    "'fused_mlp' must be false with 'lora.enable_lora'");
}

TEST(ImportFineTuning, AdaptersHaveTheModulesOfTheirBlock) {
  EXPECT_THAT(modules_of(kDeepSeek, ".*(query|wkv_a|shared_experts/w.*)"),
              ElementsAre("q_proj", "kv_a_proj_with_mqa", "shared_experts.gate_proj",
                          "shared_experts.up_proj", "shared_experts.down_proj"));
  EXPECT_THAT(modules_of(std::string(kDeepSeek) + "q_lora_rank: 8\nfirst_num_dense_layers: 1\n",
                         ".*(wq_.|mlp/wo)"),
              ElementsAre("q_a_proj", "q_b_proj", "mlp.down_proj"));
  EXPECT_THAT(modules_of("decoder_block: gpt3\nfused_qkv: true\ntrainable_position_size: 64\n"
                         "mlp_activations: [gelu]\n",
                         ""),
              ElementsAre("c_attn", "attn.c_proj", "c_fc", "mlp.c_proj"));
  EXPECT_THAT(groups_of(kLora + ", lora_module_path: '.*wo'}\nhead_dim: 64\n"),
              ElementsAre("*.wq.weight x 8 decay 0.1", "* decay 0.1"));
}

// The student's keys are the run's; the schedule ends one step later than MaxText's other
// schedules.
TEST(ImportFineTuning, TeachersAreNamedByTheirDirectory) {
  const std::string text =
      "teacher_overrides: {model_name: large, load_parameters_path: models/large}\n"
      "distill_alpha: 0.7\ndistill_temperature: 2.0\nsteps: 100\nlr_schedule_type: cosine\n";
  const config::RunConfig run = run_of(text);
  EXPECT_EQ(run.distillation.teacher, "models/large");
  EXPECT_EQ(run.distillation.alpha, 0.7);
  EXPECT_EQ(run.distillation.temperature, 2);
  EXPECT_EQ(run.schedule.steps, 101);
  EXPECT_EQ(run.schedule.warmup_steps, 10);
  EXPECT_THAT(import_text("teacher_overrides: {model_name: large}\n").said,
              Contains("distillation.teacher: replace the name by the directory of the teacher"));
  EXPECT_ERROR_SAYS(import_text(text + "distill_beta: 0.5\n"), ExitCode::usage,
                    "'distill_beta' must be 0");
  EXPECT_ERROR_SAYS(import_text(text + "distill_alpha_schedule: linear\n"), ExitCode::usage,
                    "'distill_alpha_schedule' and 'distill_temperature_schedule' must be constant");
}

TEST(ImportFineTuning, OverridesOfTheStudentAreAboveAllElse) {
  TempDir folder;
  folder.write("base.yml", "decoder_block: llama2\n");
  folder.write("models/small.yml", "base_emb_dim: 64\n");
  const std::string file =
      folder.write("run.yml", "student_overrides: {model_name: small, steps: 3}\nsteps: 5\n");
  const Configuration read = read_configuration(file, {"steps=4"});
  std::vector<std::string> keys;
  for (const YamlSetting& setting : read.given)
    keys.push_back(setting.key + "=" + config::to_toml(setting.value));
  EXPECT_THAT(keys, ElementsAre("base_emb_dim=64", "steps=5", "steps=4", "model_name=\"small\"",
                                "steps=3"));
}

}  // namespace
}  // namespace lamina::imports
