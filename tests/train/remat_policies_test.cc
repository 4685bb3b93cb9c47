// The policies of rematerialisation.
#include "train/loop/remat_policies.h"

#include <algorithm>

#include "registry/names.h"
#include "support/expect_error.h"

namespace lamina::train {
namespace {

TEST(RematPolicy, EveryTagOfAPolicyExists) {
  for (const RematPolicy& policy : remat_policies())
    for (const auto& tags : {policy.saved, policy.offloaded})
      for (const std::string& tag : tags)
        EXPECT_EQ(std::ranges::count(registry::tag_names(), tag), 1) << policy.name << ": " << tag;
}

TEST(RematPolicy, NoneKeepsEverythingAndFullNothing) {
  EXPECT_TRUE(find_remat_policy("none").save_policy()(""));
  EXPECT_FALSE(find_remat_policy("full").save_policy()("context"));
  EXPECT_TRUE(find_remat_policy("minimal").save_policy()("query_proj"));
  EXPECT_FALSE(find_remat_policy("minimal").save_policy()(""));
}

TEST(RematPolicy, SuggestsTheNearestPolicy) {
  EXPECT_USER_ERROR(find_remat_policy("minimall"), ExitCode::usage,
                    "train.remat: unknown policy 'minimall'\n  did you mean 'minimal'?");
}

TEST(RematPolicy, RefusesTagsOfMissingParts) {
  EXPECT_USER_ERROR(find_remat_policy("minimal_with_quantization"), ExitCode::usage,
                    "train.remat: 'minimal_with_quantization' keeps values with the tag "
                    "'quantization', which this build does not have: training is not quantised\n"
                    "  use 'minimal'");
  EXPECT_USER_ERROR(find_remat_policy("custom", {{"iteration_input", "device"}}), ExitCode::usage,
                    "train.remat_tags.iteration_input: no value of this build has the tag "
                    "'iteration_input': there are no pipeline stages\n  remove it");
}

TEST(RematPolicy, ContextIsTheOutputOfAttentionToo) {
  const autodiff::SavePolicy saves = find_remat_policy("minimal_with_context").save_policy();
  EXPECT_TRUE(saves("context"));
  EXPECT_TRUE(saves("attention_out"));
  EXPECT_FALSE(find_remat_policy("minimal").save_policy()("attention_out"));
}

TEST(RematPolicy, TagsOfAFeedForwardKeepTheProductsOfExpertsToo) {
  for (const char* name : {"minimal", "minimal_with_context", "minimal_offloaded"}) {
    const autodiff::SavePolicy saves = find_remat_policy(name).save_policy();
    EXPECT_TRUE(saves("moe_mlpwi_0")) << name;
    EXPECT_TRUE(saves("moe_mlpwo")) << name;
    EXPECT_FALSE(saves("moe_mlpwi_1")) << name;
  }
  EXPECT_FALSE(find_remat_policy("save_dot_except_mlpwi").save_policy()("moe_mlpwi_0"));
  EXPECT_TRUE(find_remat_policy("save_dot_except_mlpwi").save_policy()("moe_mlpwo"));
  EXPECT_FALSE(find_remat_policy("save_dot_except_mlp").save_policy()("moe_mlpwo"));
  const RematPolicy custom = find_remat_policy("custom", {{"mlpwi_0", "device"}});
  EXPECT_TRUE(custom.save_policy()("moe_mlpwi_0"));
}

TEST(RematPolicy, CustomKeepsTheTaggedValues) {
  RematPolicy policy = find_remat_policy(
      "custom", {{"context", "device"}, {"mlpwo", "offload"}, {"out_proj", "remat"}});
  EXPECT_EQ(policy.saved, std::vector<std::string>{"context"});
  EXPECT_EQ(policy.offloaded, std::vector<std::string>{"mlpwo"});
  autodiff::SavePolicy saves = policy.save_policy();
  EXPECT_TRUE(saves("context"));
  EXPECT_TRUE(saves("mlpwo"));
  EXPECT_TRUE(saves.offloads("mlpwo"));
  EXPECT_TRUE(saves.offloads("moe_mlpwo"));
  EXPECT_FALSE(saves.offloads("context"));
  EXPECT_FALSE(saves.offloads_inputs());
  EXPECT_FALSE(saves("out_proj"));
  EXPECT_FALSE(saves("query_proj"));
  EXPECT_FALSE(saves(""));
}

TEST(RematPolicy, InputsOfLayersMayBeOffloaded) {
  EXPECT_TRUE(find_remat_policy("custom", {{"decoder_layer_input", "offload"}})
                  .save_policy()
                  .offloads_inputs());
}

TEST(RematPolicy, NamesUnknownTags) {
  EXPECT_USER_ERROR(find_remat_policy("custom", {{"contxt", "device"}}), ExitCode::usage,
                    "train.remat_tags.contxt: unknown tag 'contxt'\n  did you mean 'context'?");
  EXPECT_USER_ERROR(find_remat_policy("custom", {{"decoder_layer_input", "remat"}}),
                    ExitCode::usage,
                    "train.remat_tags.decoder_layer_input: the input of a layer is always kept\n"
                    "  remove it, or say \"device\"");
}

TEST(RematPolicy, TagsAndCustomNeedEachOther) {
  EXPECT_USER_ERROR(find_remat_policy("custom"), ExitCode::usage,
                    "train.remat: 'custom' needs tags in [train.remat_tags]\n"
                    "  eg: query_proj = \"device\"; or use a named policy, eg \"minimal\"");
  EXPECT_USER_ERROR(find_remat_policy("full", {{"context", "device"}}), ExitCode::usage,
                    "train.remat_tags.context: tags are for train.remat = \"custom\", which is "
                    "\"full\"\n  say train.remat = \"custom\", or remove [train.remat_tags]");
}

}  // namespace
}  // namespace lamina::train
