// --quantize and --quantize-rule: the format of every parameter, and rules that are mistakes.
#include "weights/quantise/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

// Rows of 64, 96 and 128 values; w2 has rows of 96.
decoder::Model quantisable_model(const std::string& more = "") {
  return open_description(
      "family = \"llama2\"\n[model]\nvocab_size = 12\nhidden_size = 64\nintermediate_size = 96\n"
      "num_hidden_layers = 3\nnum_attention_heads = 2\nnum_key_value_heads = 1\n" +
      more);
}

weights::Quantisation quantisation(const std::string& format,
                                   const std::vector<std::string>& rules = {}) {
  weights::Quantisation out{.format = format};
  for (const std::string& rule : rules) out.rules.push_back(weights::parse_quantise_rule(rule));
  return out;
}

std::string storage_of(const decoder::Model& model, const weights::Quantisation& what,
                       const std::string& parameter) {
  const auto storages = weights::choose_storage(model, what, DType::bf16);
  const auto* storage = storages[static_cast<std::size_t>(model.parameters().find(parameter))];
  return storage ? std::string(storage->name) : "plain";
}

TEST(QuantiseRules, MatricesOfProductsAreQuantisedByDefault) {
  const decoder::Model model = quantisable_model();
  const auto storages = weights::choose_storage(model, quantisation("int4"), DType::bf16);
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const std::string& name = model.parameters().all()[i].name;
    const bool product =
        name.find("attention.w") != name.npos || name.find("feed_forward.w") != name.npos;
    EXPECT_EQ(storages[i] ? storages[i]->name : "plain", product ? "INT4_32" : "plain") << name;
  }
}

TEST(QuantiseRules, MatricesThatThePluginExemptsNeedARule) {
  const decoder::Model model = open_description(R"(family = "deepseek4"
[model]
vocab_size = 12
hidden_size = 64
num_hidden_layers = 2
moe_intermediate_size = 32
num_attention_heads = 4
head_dim = 32
q_lora_rank = 32
qk_rope_head_dim = 16
o_groups = 2
o_lora_rank = 32
n_routed_experts = 4
num_experts_per_tok = 2
num_hash_layers = 1
hc_mult = 2
sliding_window = 4
compress_ratios = [4, 128]
index_n_heads = 2
index_head_dim = 32
index_topk = 4
)");
  for (const char* name :
       {"layers.0.mhc_attention.fn.weight", "layers.1.mhc_ffn.fn.weight", "exit.mhc_head.fn.weight",
        "layers.0.attention.compressor.wkv.weight", "layers.1.attention.compressor.wgate.weight",
        "layers.0.attention.indexer.weights_proj.weight",
        "layers.0.attention.indexer.compressor.wkv.weight"}) {
    EXPECT_EQ(storage_of(model, quantisation("int4"), name), "plain") << name;
    EXPECT_EQ(
        storage_of(model, quantisation("int4", {name + std::string("=int8")}), name).substr(0, 5),
        "INT8_")
        << name;
  }
  for (const char* name :
       {"layers.0.attention.wq_a.weight", "layers.1.attention.wkv.weight",
        "layers.0.attention.indexer.wq_b.weight", "layers.1.moe.experts.w1.weight"})
    EXPECT_EQ(storage_of(model, quantisation("int4"), name), "INT4_32") << name;
}

// The indexer of V3.2 widens the weights of its heads, so no rule can store them either.
TEST(QuantiseRules, HeadWeightsOfDeepSeekV32StayPlain) {
  const decoder::Model model = open_description(R"(family = "deepseek"
[model]
vocab_size = 12
hidden_size = 64
intermediate_size = 96
num_hidden_layers = 1
first_k_dense_replace = 1
num_attention_heads = 4
q_lora_rank = 32
kv_lora_rank = 32
qk_nope_head_dim = 32
qk_rope_head_dim = 16
v_head_dim = 32
index_n_heads = 2
index_head_dim = 32
index_topk = 4
)");
  const std::string name = "layers.0.attention.indexer.weights_proj.weight";
  const decoder::ParameterTable& table = model.parameters();
  EXPECT_FALSE(table[table.find(name)].desc.quantize);
  EXPECT_EQ(storage_of(model, quantisation("int4"), name), "plain");
  EXPECT_ERROR_SAYS(storage_of(model, quantisation("int4", {name + "=int8"}), name),
                    ExitCode::usage, "matches no matrix that can be quantised");
  for (const char* other :
       {"layers.0.attention.indexer.wq_b.weight", "layers.0.attention.indexer.wk.weight"})
    EXPECT_EQ(storage_of(model, quantisation("int4"), other), "INT4_32") << other;
}

TEST(QuantiseRules, TheBlockIsTheLargestThatDividesTheRows) {
  const decoder::Model model = quantisable_model();
  EXPECT_EQ(storage_of(model, quantisation("int8"), "layers.1.attention.wq.weight"), "INT8_64");
  EXPECT_EQ(storage_of(model, quantisation("int8"), "layers.1.feed_forward.w2.weight"), "INT8_32");
}

TEST(QuantiseRules, ARoleANameAndARangeOfLayersSelectParameters) {
  const decoder::Model model = quantisable_model();
  const auto what = quantisation(
      "int4", {"head=int8", "layers.2.attention.*=none", "layers:0-1=fp8", "role:embedding=mxfp4"});
  EXPECT_EQ(storage_of(model, what, "head.weight"), "INT8_64");
  EXPECT_EQ(storage_of(model, what, "embed.weight"), "MXFP4");
  EXPECT_EQ(storage_of(model, what, "layers.0.attention.wq.weight"), "FP8_32");
  EXPECT_EQ(storage_of(model, what, "layers.1.feed_forward.w1.weight"), "FP8_32");
  EXPECT_EQ(storage_of(model, what, "layers.2.attention.wq.weight"), "plain");
  EXPECT_EQ(storage_of(model, what, "layers.2.feed_forward.w1.weight"), "INT4_32");
  EXPECT_EQ(storage_of(model, what, "layers.0.attention_norm.weight"), "plain");
}

TEST(QuantiseRules, TheFirstRuleThatMatchesApplies) {
  const decoder::Model model = quantisable_model();
  const auto what = quantisation("int4", {"layers:1=int8", "layers:0-2=mxfp4"});
  EXPECT_EQ(storage_of(model, what, "layers.0.attention.wq.weight"), "MXFP4");
  EXPECT_EQ(storage_of(model, what, "layers.1.attention.wq.weight"), "INT8_64");
}

TEST(QuantiseRules, ARuleThatMatchesNothingIsAnErrorWithTheNearestName) {
  const decoder::Model model = quantisable_model();
  EXPECT_USER_ERROR(
      weights::choose_storage(model, quantisation("int4", {"layers.*.attention.wk1*=int8"}),
                              DType::bf16),
      ExitCode::usage,
      "--quantize-rule layers.*.attention.wk1*=int8: matches no parameter of this model\n"
      "  did you mean 'layers.*.attention.wk*'?");
  EXPECT_USER_ERROR(
      weights::choose_storage(model, quantisation("int4", {"haed=int8"}), DType::bf16),
      ExitCode::usage,
      "--quantize-rule haed=int8: matches no parameter of this model\n"
      "  did you mean 'head'?");
  EXPECT_USER_ERROR(
      weights::choose_storage(model, quantisation("int4", {"lm_head=int8"}), DType::bf16),
      ExitCode::usage,
      "--quantize-rule lm_head=int8: matches no parameter of this model\n"
      "  did you mean 'head'?");
  EXPECT_USER_ERROR(
      weights::choose_storage(model, quantisation("int4", {"layers:3-7=int8"}), DType::bf16),
      ExitCode::usage,
      "--quantize-rule layers:3-7=int8: matches no parameter of this model\n"
      "  its layers are 0-2");
}

TEST(QuantiseRules, ARangeBeyondTheLastLayerIsAnError) {
  const decoder::Model model = quantisable_model();
  EXPECT_USER_ERROR(
      weights::choose_storage(model, quantisation("int4", {"layers:1-3=int8"}), DType::bf16),
      ExitCode::usage,
      "--quantize-rule layers:1-3=int8: names layers that this model does not have\n"
      "  its layers are 0-2");
}

TEST(QuantiseRules, ARuleThatIsHiddenByOthersIsAnError) {
  const decoder::Model model = quantisable_model();
  EXPECT_USER_ERROR(
      weights::choose_storage(model, quantisation("int4", {"layers:0-2=int8", "layers:1=none"}),
                              DType::bf16),
      ExitCode::usage,
      "--quantize-rule layers:1=none: has no effect: every parameter that it "
      "fits belongs to an earlier rule\n"
      "  the first rule that fits a parameter applies; put the narrow ones first");
}

TEST(QuantiseRules, AFormatForNormsAloneIsAnError) {
  const decoder::Model model = quantisable_model();
  EXPECT_ERROR_SAYS(
      weights::choose_storage(model, quantisation("int4", {"norm=int8"}), DType::bf16),
      ExitCode::usage, "matches no matrix that can be quantised");
}

TEST(QuantiseRules, RulesThatLeaveNothingAreAnError) {
  const decoder::Model model = quantisable_model();
  EXPECT_USER_ERROR(
      weights::choose_storage(model, quantisation("int4", {"*=none"}), DType::bf16),
      ExitCode::usage,
      "--quantize-rule: leaves no matrix to quantise to int4\n  remove a rule with none");
}

TEST(QuantiseRules, AnUnknownFormatListsThoseThatExist) {
  EXPECT_USER_ERROR(weights::parse_quantise_rule("head=int3"), ExitCode::usage,
                    "--quantize-rule head=int3: 'int3' is not a format; expected int8, "
                    "int4, int4-g64, int4-g128, mxfp4, nvfp4, fp8");
  EXPECT_ERROR_SAYS(weights::parse_quantise_rule("head=itn8"), ExitCode::usage,
                    "mxfp4, nvfp4, fp8\n  did you mean 'int8'?");
  EXPECT_ERROR_SAYS(weights::check_quantise_format("--quantize", "gzip"), ExitCode::usage,
                    "--quantize: 'gzip' is not a format; expected int8, int4, int4-g64, "
                    "int4-g128, mxfp4, nvfp4, fp8");
}

TEST(QuantiseRules, AnotherFormIsAnErrorWithExamples) {
  for (const char* text : {"head", "=int8"})
    EXPECT_ERROR_SAYS(weights::parse_quantise_rule(text), ExitCode::usage,
                      "has no pattern and format; expected PATTERN=FORMAT");
  for (const char* text : {"layers:=int8", "layers:3-1=int8", "layers:a-b=int8"})
    EXPECT_ERROR_SAYS(weights::parse_quantise_rule(text), ExitCode::usage,
                      "has no range of layers; expected layers:FIRST-LAST");
}

// w2 has rows of 40.
decoder::Model model_with_odd_rows() {
  return open_description(
      "family = \"llama2\"\n[model]\nvocab_size = 12\nhidden_size = 64\nintermediate_size = 40\n"
      "num_hidden_layers = 1\nnum_attention_heads = 2\nnum_key_value_heads = 1\n");
}

TEST(QuantiseRules, AFormatForOddRowsAloneIsAnError) {
  EXPECT_USER_ERROR(
      weights::choose_storage(model_with_odd_rows(),
                              quantisation("int4", {"layers.*.w2.weight=int8"}), DType::bf16),
      ExitCode::usage,
      "--quantize-rule layers.*.w2.weight=int8: matches no matrix that can be quantised\n"
      "  the rows of 'layers.0.feed_forward.w2.weight' [64, 40] are not multiples of 32 values");
}

TEST(QuantiseRules, TheWarningOfOddRowsNamesTheFormatOfTheirRule) {
  ::testing::internal::CaptureStderr();
  storage_of(model_with_odd_rows(), quantisation("int4", {"layers:0=int8"}), "embed.weight");
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      ::testing::HasSubstr("matrices that should become int8 stay plain, because their rows "
                           "are not multiples of 32 values: 1, eg: "
                           "'layers.0.feed_forward.w2.weight' [64, 40]"));
}

TEST(QuantiseRules, ARefusedChoiceHasNoWarning) {
  ::testing::internal::CaptureStderr();
  EXPECT_USER_ERROR(
      weights::choose_storage(model_with_odd_rows(), quantisation("int4"), DType::bf16,
                              [](auto) {
                                throw UserError(ExitCode::usage, {"--quantize", "refused", {}});
                              }),
      ExitCode::usage, "--quantize: refused");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(QuantiseRules, MatricesWithOddRowsStayPlain) {
  const decoder::Model model = model_with_odd_rows();
  EXPECT_EQ(storage_of(model, quantisation("int8"), "layers.0.feed_forward.w2.weight"), "plain");
  EXPECT_EQ(storage_of(model, quantisation("int8"), "layers.0.feed_forward.w1.weight"), "INT8_64");
}

}  // namespace
}  // namespace lamina::testing
