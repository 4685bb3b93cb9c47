// Invalid configs of the dense families: the message names the mistake and the expected value.
#include "errors/workplace.h"

namespace lamina::testing {
namespace {

// `lamina train` of run.toml with another family and more keys.
std::vector<std::string> as(const std::string& family, const std::vector<std::string>& settings) {
  std::vector<std::string> words = {"train", "run.toml", "--set", "family=" + family};
  for (const std::string& setting : settings) {
    words.emplace_back("--set");
    words.push_back("model." + setting);
  }
  return words;
}

TEST(DenseFamilyErrors, MissingAndNegativeWindowsAreRefused) {
  Workplace w;
  w.expect({as("qwen2", {"num_key_value_heads=2", "use_sliding_window=true", "sliding_window=0",
                         "layer_types=[\"sliding_attention\", \"full_attention\"]"}),
            2,
            {"layer_types", "has sliding_attention layers without a window"}});
  w.expect({as("olmo3", {"sliding_window=0"}), 2, {"model.sliding_window", "at least 1", "got 0"}});
  w.expect({as("olmo3", {"layer_types=[\"full_attention\"]"}),
            2,
            {"'layer_types' must have one element per layer (2), got 1"}});
  w.expect({as("olmo3", {"layer_types=[\"full_attention\", \"local_attention\"]"}),
            2,
            {"model.layer_types", "\"full_attention\" or \"sliding_attention\""}});
  w.expect({as("mistral", {"sliding_window=-1"}), 2, {"model.sliding_window", "at least 0"}});
  w.expect({as("cohere2", {"sliding_window=0"}), 2, {"model.sliding_window", "at least 1"}});
}

TEST(DenseFamilyErrors, FactorsOfImpossibleFeedForwardWidthsAreRefused) {
  Workplace w;
  w.expect({as("lfm2", {"num_key_value_heads=2", "block_ffn_dim_multiplier=1e30"}),
            2,
            {"block_ffn_dim_multiplier",
             "got 1e+30 with intermediate_size = ", "it must be from 1 to 9.00719925e+15"}});
  w.expect({as("lfm2", {"num_key_value_heads=2", "block_ffn_dim_multiplier=0.001"}),
            2,
            {"block_ffn_dim_multiplier", "which is a width of 0"}});
}

TEST(DenseFamilyErrors, HeadsThatDoNotDivideAreRefused) {
  Workplace w;
  for (const char* family :
       {"mistral", "qwen2", "qwen3", "olmo2", "olmo3", "cohere", "default", "llama2lti"})
    w.expect({as(family, {"num_key_value_heads=3"}),
              2,
              {"num_key_value_heads", "got 3; it must divide num_attention_heads = 2"}});
  w.expect({as("olmo2", {"qk_norm=\"each\""}), 2, {"model.qk_norm", "\"whole\" or \"per_head\""}});
  w.expect({as("llama2lti", {"teacher_head_dim=0"}), 2, {"teacher_head_dim", "at least 1"}});
}

TEST(DenseFamilyErrors, BiasesOfLearnedProjectionsAreRefused) {
  Workplace w;
  w.expect({as("llama2lti", {"attention_bias=true"}),
            2,
            {"model.attention_bias", "got true; learned projections have no biases"}});
}

TEST(DenseFamilyErrors, PositionsThatDoNotFitTheModelAreRefused) {
  Workplace w;
  w.expect({as("qwen3_vl",
               {"num_key_value_heads=2", "head_dim=16", "rope_scaling.mrope_interleaved=false"}),
            2,
            {"rope_scaling.mrope_section", "got 3 numbers with the sum 64",
             "three with the sum 8, half of the rotated dims"}});
  w.expect({as("qwen3_vl",
               {"num_key_value_heads=2", "head_dim=16", "rope_scaling.mrope_section=[4, 4]"}),
            2,
            {"rope_scaling.mrope_section", "got 2 numbers"}});
  w.expect({as("olmo3", {"sliding_rope_type=\"long\""}),
            2,
            {"model.sliding_rope_type", "\"default\"", "\"yarn\""}});
  w.expect({as("gpt3", {"trainable_position_size=64"}),
            2,
            {"'model.trainable_position_size' is 64, but this model already has "
             "learned positions",
             "remove it"}});
  w.expect({as("llama2", {"trainable_position_size=8"}),
            2,
            {"data.sequence_length: is 24; the model has learned positions for 8 tokens"}});
}

}  // namespace
}  // namespace lamina::testing
