// Configurations of MaxText as run files: converted keys, messages and refusals.
#include "imports/run_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "config/run_config.h"
#include "imports/key_page.h"
#include "imports/table.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace lamina::imports {
namespace {

using lamina::testing::TempDir;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// base.yml and a second file above it.
class Folder {
 public:
  explicit Folder(const std::string& text, const std::string& name = "models/mine.yml") {
    folder_.write("base.yml", text_of(LAMINA_SOURCE_DIR "/tests/imports/base.yml"));
    file_ = folder_.write(name, text);
  }
  Imported import(const std::vector<std::string>& settings = {}) const {
    return import_run(read_configuration(file_, settings));
  }
  void write(const std::string& name, const std::string& text) { folder_.write(name, text); }
  const std::string& file() const { return file_; }

 private:
  TempDir folder_;
  std::string file_;
};

// The value of "section.key" or "model.key" in the run file.
std::string value(const Imported& imported, const std::string& key) {
  const config::Raw raw =
      config::parse_toml(imported.toml, "run.toml", config::Origin::Kind::run_file);
  for (const config::RawEntry& entry : raw.entries)
    if (entry.key == key) return config::to_toml(entry.value);
  return "";
}

TEST(ImportRun, Example) {
  const Imported run = Folder(
                           "base_emb_dim: 512\nbase_mlp_dim: 1_024\nnormalization_layer_epsilon: "
                           "1.e-06\nlearning_rate: 1.e-3\nsteps: 200\ndtype: \"float32\"\n")
                           .import();
  EXPECT_EQ(value(run, "family"), "\"llama2\"");
  EXPECT_EQ(value(run, "model.hidden_size"), "512");
  EXPECT_EQ(value(run, "model.intermediate_size"), "1024");
  EXPECT_EQ(value(run, "model.rms_norm_eps"), "1e-06");
  EXPECT_EQ(value(run, "optimizer.lr"), "0.001");
  EXPECT_EQ(value(run, "schedule.warmup_steps"), "20");
  const config::RunConfig read = config::parse_run(run.toml, "run.toml");
  EXPECT_EQ(read.train.steps, 200);
  EXPECT_EQ(read.train.dtype, DType::f32);
  EXPECT_EQ(read.model.family, "llama2");
}

// MaxText's validation data has no key in the run file.
TEST(ImportRun, TheSizeOfAValidationIsCarriedOver) {
  const Imported run = Folder("eval_interval: 100\neval_steps: 5\n").import();
  EXPECT_EQ(value(run, "train.eval_every_steps"), "100");
  EXPECT_EQ(value(run, "train.eval_batches"), "5");
}

TEST(ImportRun, ScalesSizesByGlobalParameterScale) {
  const Folder folder("");
  struct Case {
    const char *scale, *width, *heads, *layers;
  };
  for (const Case& c :
       {Case{"1", "2048", "16", "16"}, Case{"2", "2048", "32", "16"}, Case{"4", "4096", "32", "16"},
        Case{"8", "4096", "32", "32"}, Case{"16", "4096", "64", "32"}}) {
    const Imported run = folder.import({std::string("global_parameter_scale=") + c.scale});
    EXPECT_EQ(value(run, "model.hidden_size"), c.width) << c.scale;
    EXPECT_EQ(value(run, "model.num_attention_heads"), c.heads) << c.scale;
    EXPECT_EQ(value(run, "model.num_hidden_layers"), c.layers) << c.scale;
  }
  EXPECT_USER_ERROR(folder.import({"global_parameter_scale=3"}), ExitCode::usage,
                    "global_parameter_scale=3: 'global_parameter_scale' must be a power of "
                    "2, got 3");
  EXPECT_ERROR_SAYS(folder.import({"global_parameter_scale=8", "base_emb_dim=4611686018427387904"}),
                    ExitCode::usage,
                    "'base_emb_dim' times the scale of global_parameter_scale is too large");
}

TEST(ImportRun, TakesTheModelThatIsNamed) {
  Folder folder("model_name: small\nbase_num_decoder_layers: 3\n", "run.yml");
  folder.write("models/small.yml", "base_emb_dim: 64\nbase_num_decoder_layers: 2\n");
  const Imported run = folder.import();
  EXPECT_EQ(value(run, "model.hidden_size"), "64");
  EXPECT_EQ(value(run, "model.num_hidden_layers"), "3");
  EXPECT_ERROR_SAYS(folder.import({"model_name=large"}), ExitCode::usage,
                    "models/large.yml: does not exist, but 'model_name' = 'large' refers to it\n  "
                    "copy it there, or choose one of that folder");
  EXPECT_ERROR_SAYS(folder.import({"model_name=smal"}), ExitCode::usage,
                    "'model_name' = 'smal' refers to it\n  did you mean 'small'?");
  EXPECT_ERROR_SAYS(Folder("model_name: small\n", "run.yml").import(), ExitCode::usage,
                    "refers to it\n  copy the folder models of MaxText to the folder of its base");
}

TEST(ImportRun, FilesOfModelsTakeNoOtherModel) {
  Folder folder("base_emb_dim: 64\n");
  folder.write("models/other.yml", "base_emb_dim: 32\n");
  EXPECT_EQ(value(folder.import({"model_name=mine"}), "model.hidden_size"), "64");
  EXPECT_USER_ERROR(folder.import({"model_name=other"}), ExitCode::usage,
                    folder.file() +
                        ": is a model, but 'model_name' = 'other' refers to another\n  remove "
                        "model_name, or import other.yml instead of mine.yml");
  EXPECT_ERROR_SAYS(folder.import({"model_name=xyz"}), ExitCode::usage, "is a model, but");
}

// Angles are position / (min * (max / min)^(2i / d)).
TEST(ImportRun, SmallestTimescaleIsALinearScaling) {
  const Imported run = Folder("rope_min_timescale: 2\n").import();
  EXPECT_EQ(value(run, "model.rope_theta"), "5000.0");
  EXPECT_EQ(value(run, "model.rope_scaling.rope_type"), "\"linear\"");
  EXPECT_EQ(value(run, "model.rope_scaling.factor"), "2.0");
  EXPECT_ERROR_SAYS(Folder("rope_min_timescale: 2\nrope_type: yarn\n").import(), ExitCode::usage,
                    "must be 1 with this 'rope_type'");
}

TEST(ImportRun, TimescalesAreKeysOfTheHostWhereTheFamilyHasNone) {
  const Imported run = Folder(
                           "decoder_block: llama4\nshared_experts: 1\nnope_layer_interval: "
                           "4\nrope_min_timescale: 2\n"
                           "rope_linear_scaling_factor: 4.0\n")
                           .import();
  EXPECT_EQ(value(run, "model.rope_min_timescale"), "2.0");
  EXPECT_EQ(value(run, "model.rope_linear_scaling_factor"), "4.0");
}

TEST(ImportRun, PositionsAndLogitsOfTheStackApplyToEveryBlock) {
  for (const char* block : {"llama2", "mistral", "qwen2", "simple"}) {
    const Imported run =
        Folder(std::string("decoder_block: ") + block +
               "\nlogits_via_embedding: true\nfinal_logits_soft_cap: 30.\n"
               "use_untrainable_positional_embedding: true\ntrainable_position_size: 64\n")
            .import();
    EXPECT_EQ(value(run, "model.normalize_embedding_logits"), "true") << block;
    EXPECT_EQ(value(run, "model.final_logit_softcapping"), "30.0") << block;
    EXPECT_EQ(value(run, "model.use_sinusoidal_positions"), "true") << block;
    EXPECT_EQ(value(run, "model.trainable_position_size"), "64") << block;
  }
}

TEST(ImportRun, TiedTablesOfFloat32RunsAreNamed) {
  const auto rounds = HasSubstr("logits_via_embedding: MaxText rounds the tied table to bfloat16");
  const Folder tied("logits_via_embedding: true\n");
  EXPECT_THAT(tied.import({"dtype=float32"}).said, Contains(rounds));
  EXPECT_THAT(tied.import().said, Not(Contains(rounds)));
}

// MaxText's embedding table multiplies embeddings by the number by which it divides tied logits.
TEST(ImportRun, TiedLogitsOfGemmaMayStayUndivided) {
  const Folder gemma(
      "decoder_block: gemma\nbase_emb_dim: 64\nlogits_via_embedding: true\nmlp_activations: "
      "[gelu, linear]\n");
  EXPECT_EQ(value(gemma.import(), "model.logit_scale"), "");
  EXPECT_EQ(value(gemma.import({"normalize_embedding_logits=false"}), "model.logit_scale"), "8.0");
}

TEST(ImportRun, SinksApplyToEveryBlock) {
  for (const char* block : {"llama2", "mixtral", "qwen3"}) {
    const Folder folder(std::string("decoder_block: ") + block + "\n");
    EXPECT_EQ(value(folder.import({"attention_sink=true"}), "model.attention_sink"), "true");
    EXPECT_EQ(value(folder.import(), "model.attention_sink"), "");
  }
}

// MaxText's blocks pass the rotated part of a head only with mrope.
TEST(ImportRun, PartsOfHeadsAreTurnedWhereTheBlockPassesThem) {
  for (const char* block : {"llama2", "default", "mistral", "mixtral", "qwen2", "qwen3", "envy"}) {
    const Imported run =
        Folder(std::string("decoder_block: ") + block + "\n").import({"partial_rotary_factor=0.5"});
    EXPECT_EQ(value(run, "model.partial_rotary_factor"), "") << block;
    EXPECT_THAT(run.said, Contains(HasSubstr("partial_rotary_factor: not carried over: MaxText's "
                                             "block ")))
        << block;
  }
  const Folder mrope("decoder_block: qwen3\nuse_mrope: true\npartial_rotary_factor: 0.5\n");
  EXPECT_EQ(value(mrope.import(), "model.partial_rotary_factor"), "0.5");
  EXPECT_ERROR_SAYS(mrope.import({"rope_type=yarn"}), ExitCode::usage,
                    "'rope_type' must be default and 'rope_linear_scaling_factor' 1 with "
                    "'use_mrope'");
  const Folder hybrid("decoder_block: qwen3_next\nnum_experts: 4\nshared_experts: 1\n");
  EXPECT_EQ(value(hybrid.import({"partial_rotary_factor=0.25"}), "model.partial_rotary_factor"),
            "0.25");
}

TEST(ImportRun, WeightsOfExpertsAreDividedWhereTheFamilyAlwaysDoes) {
  const std::string experts = "\nnum_experts: 4\nshared_experts: 1\n";
  EXPECT_EQ(value(Folder("decoder_block: qwen3_next" + experts).import(), "model.norm_topk_prob"),
            "false");
  const Folder always("decoder_block: qwen3_5" + experts);
  EXPECT_ERROR_SAYS(always.import(), ExitCode::usage,
                    "'norm_topk_prob' must be true in this block");
  EXPECT_EQ(value(always.import({"norm_topk_prob=true"}), "model.norm_topk_prob"), "");
}

TEST(ImportRun, TokensMayGoToExpertsAtRandom) {
  const Imported run =
      Folder("decoder_block: mixtral\nnum_experts: 4\nuse_random_routing: true\n").import();
  EXPECT_EQ(value(run, "model.use_random_routing"), "true");
}

TEST(ImportRun, WeightsStartAsMaxTextsDo) {
  const Folder folder("");
  EXPECT_EQ(value(folder.import(), "model.initializer"), "\"maxtext\"");
  EXPECT_EQ(value(folder.import(), "model.dense_init_scale"), "");
  EXPECT_EQ(value(folder.import({"dense_init_scale=0.5"}), "model.dense_init_scale"), "0.5");
}

TEST(ImportRun, DropoutIsWhereTheBlockHasIt) {
  struct Case {
    const char *block, *of_layers;
  };
  for (const Case& c : {Case{"llama2", ""}, Case{"default", "\"update\""}, Case{"mistral", ""},
                        Case{"qwen2", "\"none\""}, Case{"simple", "\"none\""}}) {
    const Folder folder(std::string("decoder_block: ") + c.block + "\n");
    const Imported run = folder.import({"dropout_rate=0.1"});
    EXPECT_EQ(value(run, "model.dropout_rate"), "0.1") << c.block;
    EXPECT_EQ(value(run, "model.layer_dropout"), c.of_layers) << c.block;
    const Imported off = folder.import({"dropout_rate=0.1", "enable_dropout=false"});
    EXPECT_EQ(value(off, "model.dropout_rate"), "") << c.block;
    EXPECT_EQ(value(off, "model.layer_dropout"), "") << c.block;
  }
  EXPECT_ERROR_SAYS(Folder("decoder_block: simple_mlp\ndropout_rate: 0.1\n").import(),
                    ExitCode::usage, "'dropout_rate' must be 0 in this block");
}

TEST(ImportRun, SoftCapOfAttentionAppliesToBlocksThatReadIt) {
  EXPECT_EQ(value(Folder("attn_logits_soft_cap: 50.\n").import(), "model.attn_logits_soft_cap"),
            "50.0");
  EXPECT_ERROR_SAYS(Folder("decoder_block: mistral\nattn_logits_soft_cap: 50.\n").import(),
                    ExitCode::usage, "'attn_logits_soft_cap' must be 0.0");
}

TEST(ImportRun, NormsOfQueriesAndKeysFollowTheBlock) {
  const Folder qwen3("decoder_block: qwen3\n"), qwen2("decoder_block: qwen2\n");
  EXPECT_EQ(value(qwen3.import(), "model.use_qk_norm"), "false");
  EXPECT_EQ(value(qwen3.import({"use_qk_norm=true"}), "model.use_qk_norm"), "");
  EXPECT_EQ(value(qwen3.import({"use_qk_norm=true", "qk_norm_with_scale=false"}),
                  "model.qk_norm_with_scale"),
            "false");
  EXPECT_EQ(value(qwen2.import(), "model.use_qk_norm"), "");
  EXPECT_EQ(value(qwen2.import({"use_qk_norm=true"}), "model.use_qk_norm"), "true");
  EXPECT_ERROR_SAYS(Folder("use_qk_norm: true\n").import(), ExitCode::usage,
                    "'use_qk_norm' must be false with decoder_block = \"llama2\"");
}

TEST(ImportRun, ActivationsOtherThanAGateAreAListOfTheHost) {
  const Imported run = Folder("mlp_activations: [gelu, silu, linear]\n").import();
  EXPECT_EQ(value(run, "model.mlp_activations"), "[\"gelu_new\", \"silu\", \"linear\"]");
  EXPECT_EQ(value(Folder("mlp_activations: [gelu, linear]\n").import(), "model.mlp_activations"),
            "");
  const Folder first("decoder_block: default\nmlp_activations: [relu]\n");
  EXPECT_EQ(value(first.import(), "model.mlp_activations"), "");
  EXPECT_EQ(value(first.import(), "model.gated_mlp"), "false");
  EXPECT_EQ(value(first.import({"share_kv_projections=true"}), "model.share_kv_projections"),
            "true");
  EXPECT_ERROR_SAYS(
      Folder("decoder_block: mixtral\nnum_experts: 4\nmlp_activations: [linear, linear]\n")
          .import(),
      ExitCode::usage, "'mlp_activations' must begin with the activation of experts");
}

// MaxText's blocks do not pass the file's attention_type; its attention class reads it only for
// block diffusion.
TEST(ImportRun, AttentionSeesAllEarlierTokensWhereTheBlockPassesNoType) {
  for (const char* block : {"llama2", "default", "mistral", "mixtral", "gemma", "qwen2", "qwen3",
                            "qwen3_moe", "qwen3_custom_moe", "envy"}) {
    const Folder folder(std::string("decoder_block: ") + block + "\n");
    for (const char* type : {"local_sliding", "chunk", "full"}) {
      const Imported run = folder.import({std::string("attention_type=") + type,
                                          "sliding_window_size=64", "chunk_attn_window_size=32"});
      for (const char* key :
           {"attention_type", "sliding_window", "sliding_window_size", "chunk_attn_window_size"})
        EXPECT_EQ(value(run, std::string("model.") + key), "")
            << block << ' ' << type << ' ' << key;
      EXPECT_THAT(run.said,
                  Contains("attention_type: not carried over: MaxText's block does not pass it to "
                           "its attention, which sees all earlier tokens"));
      EXPECT_THAT(run.said, Contains(HasSubstr("sliding_window_size, chunk_attn_window_size: not "
                                               "carried over")));
    }
    const Imported blocks = folder.import({"attention_type=block_diffusion"});
    EXPECT_EQ(value(blocks, "model.attention_type"), "\"block_diffusion\"") << block;
    EXPECT_EQ(value(blocks, "model.causal_block_size"), "32") << block;
  }
}

TEST(ImportRun, MobaAppliesToEveryBlock) {
  for (const char* block : {"llama2", "qwen3"}) {
    const Folder folder(std::string("decoder_block: ") + block + "\n");
    const Imported moba = folder.import({"moba=true", "moba_chunk_size=16", "moba_topk=3"});
    EXPECT_EQ(value(moba, "model.moba_chunk_size"), "16");
    EXPECT_EQ(value(moba, "model.moba_topk"), "3");
    EXPECT_EQ(value(folder.import(), "model.moba_chunk_size"), "");
  }
}

TEST(ImportRun, PredictionIsCarriedOverWhereMaxTextTrainsIt) {
  for (const char* block : {"llama2", "default", "mistral", "mixtral", "gpt3", "qwen2", "qwen3"}) {
    const Imported run = Folder(std::string("decoder_block: ") + block +
                                "\nmtp_num_layers: 1\nmtp_loss_scaling_factor: 0.3\n"
                                "trainable_position_size: 64\n")
                             .import();
    EXPECT_EQ(value(run, "model.num_nextn_predict_layers"), "1") << block;
    EXPECT_EQ(value(run, "model.mtp_loss_weight"), "0.3") << block;
  }
  struct Case {
    const char *block, *says;
  };
  for (const Case& c : {Case{"envy", "with a whole cycle of layers, lamina with one layer"},
                        Case{"gemma2", "with two layers, lamina with one"},
                        Case{"simple", "MaxText cannot build a prediction layer of it"},
                        Case{"deepseek4", "MaxText cannot build a prediction layer of it"}})
    EXPECT_ERROR_SAYS(
        Folder(std::string("decoder_block: ") + c.block + "\nmtp_num_layers: 1\n").import(),
        ExitCode::usage, c.says);
}

TEST(ImportRun, ChannelsInPairsChangeNothing) {
  const Imported run = Folder("rope_pairwise: true\n").import();
  EXPECT_THAT(run.said, Contains("rope_pairwise: not carried over: the same order of channels in "
                                 "queries and keys, which changes no score"));
}

TEST(ImportRun, PoliciesWithQuantizationAreThePlainOnes) {
  const Folder folder("");
  EXPECT_EQ(value(folder.import({"remat_policy=minimal_with_quantization"}), "train.remat"),
            "\"minimal\"");
  const Imported both = folder.import({"remat_policy=minimal_with_context_and_quantization"});
  EXPECT_EQ(value(both, "train.remat"), "\"minimal_with_context\"");
  EXPECT_THAT(both.said,
              Contains(HasSubstr(
                  "remat_policy: what lamina keeps for the backward pass is not quantised")));
}

// In MaxText the norms of Gemma's layers have the epsilon 1e-6, for every configured value.
TEST(ImportRun, EpsilonOfGemmaAppliesToOtherNorms) {
  const std::string gemma3 =
      "decoder_block: gemma3\nlogits_via_embedding: true\nuse_post_attn_norm: true\n"
      "use_post_ffw_norm: true\n";
  const Imported run = Folder(gemma3).import();  // 1e-5
  EXPECT_EQ(value(run, "model.rms_norm_eps"), "1e-06");
  EXPECT_EQ(value(run, "model.final_norm_eps"), "1e-05");
  EXPECT_EQ(value(run, "model.qkv_norm_eps"), "1e-05");
  EXPECT_EQ(
      value(Folder(gemma3).import({"normalization_layer_epsilon=1e-6"}), "model.final_norm_eps"),
      "");
}

TEST(ImportRun, TagsOfACustomPolicyAreCarriedOver) {
  const Folder folder("context: device\nmlpwo: 'offload'\n");
  EXPECT_EQ(value(folder.import(), "train.remat_tags.context"), "");
  const Imported custom = folder.import({"remat_policy=custom"});
  EXPECT_EQ(value(custom, "train.remat"), "\"custom\"");
  EXPECT_EQ(value(custom, "train.remat_tags.context"), "\"device\"");
  EXPECT_EQ(value(custom, "train.remat_tags.mlpwo"), "\"offload\"");
  EXPECT_EQ(value(custom, "train.remat_tags.query_proj"), "") << "remat is what is not said";
}

TEST(ImportRun, ListsSettingsThatAreNotConverted) {
  const Imported run =
      Folder("ici_fsdp_parallelism: 4\nenable_wandb: true\nsa_block_q: 128\n").import();
  EXPECT_THAT(run.said,
              ElementsAre("data.train: replace the placeholder by the training files",
                          "data.tokenizer: set it to a directory with the model's tokenizer; "
                          "without it text is read as bytes",
                          "enable_wandb: not carried over: a run directory contains its "
                          "metrics and its log (docs/runs.md)",
                          "ici_fsdp_parallelism: not carried over: one process, nothing is "
                          "sharded",
                          "sa_block_q: not carried over: selects kernels; `lamina explain` "
                          "shows lamina's"));
}

TEST(ImportRun, SaysWhereMaxTextIsNotAsPublished) {
  const std::string gemma =
      "decoder_block: gemma2\nvocab_size: 256128\nlogits_via_embedding: true\nmlp_activations: "
      "[gelu, linear]\nnormalization_layer_epsilon: 1e-6\nuse_post_attn_norm: "
      "true\nuse_post_ffw_norm: true\n";
  const Imported run = Folder(gemma).import();
  EXPECT_EQ(value(run, "model.vocab_size"), "256000");
  EXPECT_EQ(value(run, "model.num_hidden_layers"), "32");
  EXPECT_THAT(run.said, Contains("'vocab_size': MaxText's table has 256128 rows, the published one "
                                 "256000"));
}

TEST(ImportRun, RefusesUnsupportedSettings) {
  const Folder folder("");
  struct Case {
    std::string setting, says;
  };
  for (const Case& c : std::vector<Case>{
           {"quantization=int8",
            "'quantization' must be \"\" with decoder_block = \"llama2\", got \"int8\"; lamina "
            "supports no other value"},
           {"num_experts=8",
            "'num_experts' must be 1 with decoder_block = \"llama2\", got 8; MaxText's block does "
            "not read it"},
           {"use_mrope=true", "no family supports it for this block"},
           {"engram_layers=[1]", "'engram_layers' must be [] with"},
           {"dtype=float8", "'dtype' must be float32 or bfloat16"},
           {"attention_type=mla",
            "must be global, local_sliding, chunk, full or block_diffusion in this block"},
           {"decoder_block=llama5", "no family implements 'decoder_block' = \"llama5\""},
           {"steps=~", "steps=~: 'steps' must be a number, got \"None\""},
           {"steps=abc", "steps=abc: 'steps' must be a number, got \"abc\""},
           {"steps=+", "steps=+: 'steps' must be a number, got \"+\""},
           {"steps=_", "steps=_: 'steps' must be a number, got \"_\""},
           {"steps=1:40", "steps=1:40: 'steps' must be a number"},
           {"steps=1e3", "steps=1e3: 'train.steps' must be an integer, at least 1 and at most"},
           {"steps=0189", "'steps' must be a number, got \"0189\""},
           {"adam_b1=null", "adam_b1=null: 'adam_b1' must be a number, got \"None\""},
           {"learning_rate=nan", "learning_rate=nan: 'learning_rate' must be a number"},
           {"logits_via_embedding='true'", "must be true or false, got \"true\""},
           {"mlp_activations=gelu", "'mlp_activations' must be a list, got \"gelu\""},
           {"gradient_accumulation_steps=0", "must be at least 1"},
           {"per_device_batch_size=0", "must be above 0"},
           {"gradient_clipping_threshold=-1", "gradient_clipping_threshold=-1: 'train.clip_norm'"},
           {"head_dim=-4", "head_dim=-4: cannot be converted"},
           {"base_emb_dimm=4", "unknown key 'base_emb_dimm'\n  did you mean 'base_emb_dim'?"},
           {"base_emb_dim=wide", "'base_emb_dim' must be an integer"},
           {"base_emb_dim", "base_emb_dim: expected KEY=VALUE"}})
    EXPECT_ERROR_SAYS(folder.import({c.setting}), ExitCode::usage, c.says);
}

TEST(ImportRun, ReadsWordsAndNumbersAsPyYaml) {
  const Folder folder("");
  EXPECT_EQ(value(folder.import({"steps=0100"}), "train.steps"), "64");
  EXPECT_EQ(value(folder.import({"steps=0x10"}), "train.steps"), "16");
  EXPECT_EQ(value(folder.import({"steps=0b11"}), "train.steps"), "3");
  EXPECT_EQ(value(folder.import({"packing=no"}), "data.pack"), "false");
  EXPECT_EQ(value(folder.import({"logits_via_embedding=yes"}), "model.tie_word_embeddings"),
            "true");
}

TEST(ImportRun, SaysWhatAnotherKeySwitchesOff) {
  const Folder folder("");
  EXPECT_THAT(folder.import({"final_logits_soft_cap=30."}).said,
              Contains(HasSubstr("final_logits_soft_cap: not carried over: MaxText applies it")));
  EXPECT_THAT(folder.import({"per_device_batch_size=0.5"}).said,
              Contains(HasSubstr("per_device_batch_size: lamina has one device")));
}

TEST(ImportRun, MistakesOfTheRunFileAreAtTheUsersLine) {
  const Folder folder("base_emb_dim: 64\nadam_b1: 2.0\nwarmup_steps_fraction: -1.0\n");
  EXPECT_ERROR_SAYS(folder.import(), ExitCode::usage,
                    "models/mine.yml:2: 'optimizer.beta1' must be");
  EXPECT_ERROR_SAYS(folder.import(), ExitCode::usage,
                    "models/mine.yml:3: 'schedule.warmup_steps' must be");
}

TEST(ImportRun, ReportsEveryMistakeAtItsLine) {
  const Folder folder("base_emb_dim: 64\nquantization: int8\nuse_indexer: true\n");
  EXPECT_ERROR_SAYS(folder.import(), ExitCode::usage, "models/mine.yml:2: 'quantization' must be");
  EXPECT_ERROR_SAYS(folder.import(), ExitCode::usage, "models/mine.yml:3: 'use_indexer' must be");
}

TEST(ImportRun, RefusesFilesThatAreNotConfigurations) {
  struct Case {
    std::string text, says;
  };
  for (const Case& c :
       std::vector<Case>{{"a: [1, 2", "mine.yml:1: not YAML: "},
                         {"- 1\n", "mine.yml: must be a mapping of keys to values"},
                         {"a: 1\n---\na: 2\n", "mine.yml:3: a second document begins (---)"},
                         {"a: 1\na: 2\n", "mine.yml:2: 'a' appears twice"},
                         {"a: " + std::string(40, '[') + std::string(40, ']'),
                          "mine.yml:1: lists are nested deeper than 16 levels"}})
    EXPECT_ERROR_SAYS(Folder(c.text).import(), ExitCode::usage, c.says);
}

// Nine lists of nine aliases to the list before: 300 bytes, and 387 million values.
TEST(ImportRun, RefusesAliasesThatStandForTooMuch) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    text += fmt::format("a{}: &a{} [", i, i);
    for (int k = 0; k < 9; ++k) text += fmt::format("{}*a{}", k ? ", " : "", i - 1);
    text += "]\n";
  }
  EXPECT_ERROR_SAYS(Folder(text).import(), ExitCode::usage,
                    "has more than 100000 values after expanding aliases (*name)");
  EXPECT_ERROR_SAYS(Folder("").import({"x=&a [1, *a]"}), ExitCode::usage, "nested deeper than 16");
  EXPECT_NO_THROW(Folder("steps: &n 5\nlog_period: *n\n").import());
}

TEST(ImportRun, NeedsABase) {
  TempDir folder;
  const std::string file = folder.write("alone/mine.yml", "base_emb_dim: 64\n");
  EXPECT_ERROR_SAYS(read_configuration(file, {}), ExitCode::usage, "base.yml is missing");
  folder.write("bases/base.yml", "decoder_block: llama2\n");
  folder.write("alone/mine.yml", "base_config: ../bases/base.yml\n");
  EXPECT_EQ(read_configuration(file, {}).base.size(), 1u);
  EXPECT_ERROR_SAYS(import_run(read_configuration(file, {})), ExitCode::usage,
                    "alone/mine.yml: 'base_emb_dim', 'base_num_query_heads', 'base_num_kv_heads', "
                    "'base_mlp_dim', 'base_moe_mlp_dim', 'base_num_decoder_layers' are missing\n"
                    "  base.yml of every version since 2025 contains them");
}

TEST(ImportRun, FilesThatNeedNoImportAreNamed) {
  TempDir folder;
  const std::string json = folder.write("hub/config.json", "{\"model_type\": \"llama\"}");
  const std::string advice = "\n  such a model needs no import: write model = \"" +
                             (folder / "hub") + "\" in a run file, or train.from = \"" +
                             (folder / "hub") + "\" to begin with its weights";
  EXPECT_USER_ERROR(read_configuration(json, {}), ExitCode::usage,
                    json +
                        ": is JSON, as the config.json of a Hugging Face model; expected a "
                        "configuration of MaxText, in YAML" +
                        advice);
  EXPECT_USER_ERROR(read_configuration(folder / "hub", {}), ExitCode::usage,
                    (folder / "hub") +
                        ": is a directory of a Hugging Face model; expected a "
                        "configuration of MaxText, in YAML" +
                        advice);
  const std::string toml = folder.write("run.toml", "family = \"llama2\"\n");
  EXPECT_USER_ERROR(read_configuration(toml, {}), ExitCode::usage,
                    toml +
                        ": is TOML, the form of lamina's own files; expected a configuration "
                        "of MaxText, in YAML\n  it needs no import: `lamina train` reads run "
                        "files, and model = \"FILE\" in a run file names a file of a model");
}

TEST(ImportRun, BaseIsLookedForUpwards) {
  const Folder folder("steps: 7\n", "gpu/a3/models/mine.yml");
  EXPECT_EQ(value(folder.import(), "train.steps"), "7");
}

TEST(ImportRun, FilesMayRestOnOthersThanTheBase) {
  Folder folder("base_config: post_train/lower.yml\nsteps: 7\n", "post_train/upper.yml");
  folder.write("post_train/lower.yml", "base_config: base.yml\nsteps: 5\nlog_period: 3\n");
  EXPECT_EQ(value(folder.import(), "train.steps"), "7");
  EXPECT_EQ(value(folder.import(), "train.log_every_steps"), "3");
  folder.write("post_train/lower.yml", "base_config: post_train/upper.yml\n");
  EXPECT_ERROR_SAYS(folder.import(), ExitCode::usage, "more than 8 files are based on each other");
}

TEST(KeyTable, PatternsStandForLetters) {
  EXPECT_TRUE(matches("ici_*", "ici_data_parallelism"));
  EXPECT_TRUE(matches("*_for_vit", "image_size_for_vit"));
  EXPECT_TRUE(matches("a*b*c", "a_b_b_c"));
  EXPECT_FALSE(matches("a*b", "ab_c"));
  EXPECT_FALSE(matches("a*b", "xab"));
}

TEST(KeyTable, PageHasItsTables) {
  const std::string page = text_of(LAMINA_SOURCE_DIR "/docs/from_maxtext.md");
  EXPECT_THAT(page, HasSubstr(key_tables()))
      << "run `lamina config import --markdown` and put it into docs/from_maxtext.md";
}

}  // namespace
}  // namespace lamina::imports
