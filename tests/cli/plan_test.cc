// lamina plan: costs of models, computed from their descriptions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/trained_run.h"
#include "core/json.h"
#include "support/paths.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string shipped(const std::string& name) {
  return LAMINA_SOURCE_DIR "/configs/models/" + name + ".toml";
}

std::string plan(std::vector<std::string> words) {
  words.insert(words.begin(), "plan");
  const Finished result = lamina_program(words);
  EXPECT_EQ(result.code, 0) << result.err;
  return result.out;
}

// A model of 2 layers, width 8, 2 heads and 1 key/value head of width 4, a feed-forward of 16 and
// 10 words has 10 * 8 + 2 * (64 + 32 + 32 + 64 + 3 * 128 + 2 * 8) + 8 + 10 * 8 parameters.
const char* const kSmall =
    "family = \"llama2\"\n[model]\nvocab_size = 10\nhidden_size = 8\nintermediate_size = 16\n"
    "num_hidden_layers = 2\nnum_attention_heads = 2\nnum_key_value_heads = 1\n";

JsonDocument small_plan(std::vector<std::string> more) {
  const TempDir folder;
  more.insert(more.begin(), {folder.write("small.toml", kSmall), "--json"});
  return JsonDocument::parse(plan(more), "plan");
}

JsonValue first_of(JsonValue list) { return *list.elements().begin(); }

TEST(Plan, CountsParameters) {
  const JsonDocument json = small_plan({});
  const JsonValue p = json.root().find("parameters");
  EXPECT_EQ(p.find("total").as_int64(), 1352);
  EXPECT_EQ(p.find("active").as_int64(), 1352);
  EXPECT_EQ(p.find("embedding").as_int64(), 80);
  EXPECT_EQ(p.find("layers").as_int64(), 1184);
  EXPECT_EQ(p.find("final_norm").as_int64(), 8);
  EXPECT_EQ(p.find("head").as_int64(), 80);
}

TEST(Plan, OfADirectoryWithoutWeightsEqualsItsDescriptions) {
  const TempDir folder;
  const std::string file = folder.write("m/config.json", R"({"model_type": "deepseek_v3",
      "vocab_size": 61, "hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 2,
      "num_attention_heads": 4, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 4,
      "qk_rope_head_dim": 4, "v_head_dim": 4, "n_routed_experts": 8, "num_experts_per_tok": 2,
      "n_group": 4, "topk_group": 1, "moe_intermediate_size": 8, "first_k_dense_replace": 1,
      "num_nextn_predict_layers": 1})");
  const auto total = [](const std::string& path) {
    return JsonDocument::parse(plan({path, "--json"}), "plan")
        .root()
        .find("parameters")
        .find("total")
        .as_int64();
  };
  EXPECT_EQ(total(folder / "m"), total(file));
  const Finished explained = lamina_program({"explain", folder / "m", "--phase", "decode"});
  EXPECT_EQ(explained.code, 0) << explained.err;
}

TEST(Plan, CountsWeightsAndDecodeState) {
  const JsonDocument json = small_plan({"--context", "100", "--batch", "3"});
  // Gains (5 vectors of 8) stay in float32.
  EXPECT_EQ(json.root().find("weight_bytes").find("float32").as_int64(), 4 * 1352);
  EXPECT_EQ(json.root().find("weight_bytes").find("bfloat16").as_int64(), 2 * 1352 + 2 * 40);
  const JsonValue state = json.root().find("decode_state");
  // Keys and values of 2 layers, width 4, 2 bytes, 100 tokens, 3 sequences.
  EXPECT_EQ(state.find("bytes").as_int64(), 2 * 2 * 4 * 2 * 100 * 3);
  EXPECT_EQ(first_of(state.find("kinds")).find("kind").as_string(), "kv");
  EXPECT_EQ(first_of(state.find("kinds")).find("bytes_per_token_and_layer").as_double(), 16);
  EXPECT_EQ(first_of(state.find("kinds")).find("fixed_bytes_per_layer").as_double(), 0);
}

TEST(Plan, TokensStayWithinThePositions) {
  const JsonDocument json = small_plan({"--set", "model.max_position_embeddings=100"});
  EXPECT_EQ(json.root().find("decode_state").find("bytes").as_int64(), 2 * 2 * 4 * 2 * 100);
}

TEST(Plan, TheStateOfAModelOfOnePositionIsFixed) {
  const TempDir folder;
  const std::string file = folder.write(
      "m.toml",
      "family = \"gpt3\"\n[model]\nvocab_size = 10\nhidden_size = 8\nnum_hidden_layers = 2\n"
      "num_attention_heads = 2\nmax_position_embeddings = 1\n");
  const JsonDocument json = JsonDocument::parse(plan({file, "--json"}), "plan");
  const JsonValue kv = first_of(json.root().find("decode_state").find("kinds"));
  EXPECT_EQ(kv.find("bytes_per_token_and_layer").as_double(), 0);
  // A key and a value of width 8, 2 bytes each.
  EXPECT_EQ(kv.find("fixed_bytes_per_layer").as_double(), 2 * 8 * 2);
}

TEST(Plan, CountsTheStateOfATrainingRun) {
  const JsonDocument json = small_plan({"--context", "3"});
  const JsonValue state = json.root().find("train_state");
  EXPECT_GE(state.find("weight_bytes").as_int64(), 4 * 1352);
  EXPECT_EQ(state.find("moment_bytes").as_int64(), 2 * state.find("weight_bytes").as_int64());
  EXPECT_EQ(state.find("whole_gradient_bytes").as_int64(), state.find("weight_bytes").as_int64());
  // 3 of 10 rows of the token table and their ids, each padded to 64 bytes.
  EXPECT_EQ(state.find("whole_gradient_bytes").as_int64() - state.find("gradient_bytes").as_int64(),
            320 - (128 + 64));

  const TempDir folder;
  const std::string file = folder.write("small.toml", kSmall);
  const std::string text = plan({file, "--context", "3"});
  EXPECT_THAT(text, HasSubstr("memory of a training run besides activations, a microbatch of 1 x 3 "
                              "tokens per step\n"));
  EXPECT_THAT(text, HasSubstr("  lookup-only tables need only the rows of a step's tokens: 128"));
  EXPECT_THAT(plan({file, "--context", "3", "--set", "model.tie_word_embeddings=true"}),
              Not(HasSubstr("only looked up")));
}

TEST(Plan, AnOptionIsRefusedByItsOwnName) {
  const char* const latent = LAMINA_SOURCE_DIR "/plugins/deepseek/check/deepseek_v2_predicts.toml";
  const Finished refused = lamina_program({"plan", latent, "--kv-dtype", "int8"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err,
              StartsWith("error: --kv-dtype int8: 'model.kv_dtype' is \"int8\", but "));
  const TempDir folder;
  EXPECT_THAT(train_tiny(folder, "out", {"--quantize", "int4"}).err,
              StartsWith("error: --quantize int4: "));
}

TEST(Plan, CountsWork) {
  const JsonDocument json = small_plan({"--context", "100"});
  const JsonValue work = json.root().find("per_token");
  // Matrices of the layers and the head; attention over a mean of 50.5 tokens, 2 heads.
  const double products = 2 * (2 * (64 + 32 + 32 + 64 + 3 * 128) + 80);
  EXPECT_EQ(work.find("forward_flops").as_double(), products + 2 * 2 * 50.5 * 2 * (4 + 4));
  EXPECT_EQ(work.find("train_flops").as_double(), 3 * work.find("forward_flops").as_double());
  EXPECT_EQ(work.find("decode_flops").as_double(), products + 2 * 2 * 100 * 2 * (4 + 4));
}

TEST(Plan, PoliciesThatKeepLessNeedLessAndRepeatMore) {
  const JsonDocument json = JsonDocument::parse(plan({shipped("llama3.2-1b"), "--json"}), "plan");
  double kept = 1e300, repeated = -1;
  int policies = 0;
  for (const JsonValue row : json.root().find("remat").elements()) {
    policies += static_cast<int>(row.find("policies").size());
    const std::string_view first = first_of(row.find("policies")).as_string();
    if (first != "none" && first != "full") continue;
    EXPECT_LT(row.find("kept_bytes").as_double(), kept);
    EXPECT_GT(row.find("recomputed_flops_per_token").as_double(), repeated);
    kept = row.find("kept_bytes").as_double();
    repeated = row.find("recomputed_flops_per_token").as_double();
  }
  EXPECT_GE(policies, 12);
  EXPECT_GT(repeated, 0);
}

TEST(Plan, DrawsTheStack) {
  const std::string text = plan({shipped("llama3.2-1b")});
  EXPECT_THAT(text, HasSubstr("1,235,814,400  1.24B"));
  EXPECT_THAT(text, HasSubstr("layers 0-15"));
  EXPECT_THAT(text, HasSubstr("x 16"));
  EXPECT_THAT(text, HasSubstr("###"));
  EXPECT_THAT(text, Not(HasSubstr("active per token")));
}

TEST(Plan, WindowsAreRingsOfFixedSize) {
  const TempDir folder;
  const std::string file = folder.write("m.toml", std::string(kSmall) + "sliding_window = 64\n");
  const JsonDocument json =
      JsonDocument::parse(plan({file, "--json", "--set", "family=mistral"}), "plan");
  const JsonValue state = first_of(json.root().find("decode_state").find("kinds"));
  EXPECT_EQ(state.find("kind").as_string(), "ring");
  EXPECT_EQ(state.find("bytes_per_token_and_layer").as_double(), 0);
  EXPECT_GT(state.find("fixed_bytes_per_layer").as_double(), 64 * 16);
}

TEST(Plan, OmitsDecodingOfModelsThatAreNeverDecoded) {
  const std::vector<std::string> words = {
      LAMINA_SOURCE_DIR "/tests/support/plugins/features/check/features_bidirectional.toml",
      "--plugin", LAMINA_BUILD_DIR "/tests/plugins/features.lamina.so"};
  const std::string text = plan(words);
  EXPECT_THAT(text, HasSubstr("decode state: none, the model is not autoregressive\n"));
  EXPECT_THAT(text, Not(HasSubstr("decode, token")));
  std::vector<std::string> as_json = words;
  as_json.emplace_back("--json");
  const JsonDocument json = JsonDocument::parse(plan(as_json), "plan");
  const JsonValue work = json.root().at("per_token");
  EXPECT_GT(work.at("forward_flops").as_double(), 0);
  EXPECT_FALSE(work.find("decode_flops"));
}

TEST(Plan, RunFileIsPlannedAsItRuns) {
  const TempDir folder;
  const std::string run = folder.write("run.toml", tiny_run_file(folder / "out"));
  const std::string text = plan({run, "--set", "train.remat=full"});
  EXPECT_THAT(text, HasSubstr("1 x 32 tokens in float32"));
  EXPECT_THAT(text, HasSubstr("<- this run"));
  const std::string own =
      plan({run, "--set", "train.remat=custom", "--set", "train.remat_tags.out_proj=device"});
  EXPECT_THAT(own, HasSubstr("custom"));
}

TEST(Plan, MistakesAreNamed) {
  EXPECT_EQ(lamina_program({"plan", "none.toml"}).err,
            "error: none.toml: no such file or directory; expected a run file, a model file or a "
            "model directory\n");
  for (const char* command : {"plan", "explain"}) {
    const Finished hub = lamina_program({command, "org/name"});
    EXPECT_EQ(hub.code, 4);
    EXPECT_EQ(hub.err,
              "error: org/name: no such file or directory; expected a run file, a model file or a "
              "model directory\n"
              "  lamina downloads no models: give the directory of a downloaded one\n");
  }
  const Finished longer = lamina_program({"plan", shipped("gpt2-124m"), "--context", "2000"});
  EXPECT_EQ(longer.code, 2);
  EXPECT_THAT(longer.err, HasSubstr("--context"));
  EXPECT_THAT(longer.err, HasSubstr("is 2000; the model has learned positions for 1024 tokens"));
}

// "minimal" plus two tensors for each of the 2 layers: the output of attention in bfloat16 and its
// log-sum-exp. Attention is not recomputed.
TEST(Plan, ContextOfAttentionIsKeptOnRequest) {
  const JsonDocument json = small_plan({"--context", "64", "--batch", "2"});
  auto find = [&](std::string_view policy) {
    for (JsonValue row : json.root().at("remat").elements())
      for (JsonValue name : row.at("policies").elements())
        if (name.as_string() == policy) return row;
    ADD_FAILURE() << "no policy " << policy;
    return JsonValue();
  };
  struct Pair {
    const char *plain, *with_context;
  };
  for (const Pair& p : {Pair{"minimal", "minimal_with_context"},
                        Pair{"save_dot_except_mlp", "save_dot_with_context_except_mlp"}}) {
    const JsonValue plain = find(p.plain), with_context = find(p.with_context);
    EXPECT_EQ(with_context.at("kept_bytes").as_int64() - plain.at("kept_bytes").as_int64(),
              2 * (2 * 64 * 8 * 2 + 2 * 64 * 2 * 4))
        << p.plain;
    EXPECT_LT(with_context.at("recomputed_flops_per_token").as_double(),
              plain.at("recomputed_flops_per_token").as_double());
  }
}

}  // namespace
}  // namespace lamina::cli
