// Generation options in generation_config.json.
#include "decode/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "decode/generation_keys.h"
#include "support/expect_error.h"

namespace lamina::decode {
namespace {

using ::testing::ElementsAre;

struct Applied {
  GenerateOptions options;
  GenerationConfig config;
};

Applied apply(const std::string& text) {
  Applied out;
  out.options.sampler.temperature = 0.8;
  const JsonDocument document =
      JsonDocument::parse(text, "generation_config.json", {.code = ExitCode::checkpoint});
  out.config = apply_generation_config(document.root(), out.options);
  return out;
}

TEST(GenerationConfig, Example) {
  const Applied a = apply(R"({"bos_token_id": 1, "eos_token_id": [2, 3], "do_sample": true,
    "temperature": 0.6, "top_k": 20, "top_p": 0.95, "transformers_version": "4.51.0"})");
  EXPECT_EQ(a.options.sampler.temperature, 0.6);
  EXPECT_EQ(a.options.sampler.top_k, 20);
  EXPECT_EQ(a.options.sampler.top_p, 0.95);
  EXPECT_THAT(a.config.used, ElementsAre("temperature", "top_k", "top_p"));
  EXPECT_TRUE(a.config.unused.empty());
}

TEST(GenerationConfig, EveryKeyHasItsPlace) {
  const Applied a = apply(R"({"sequence_bias": [[[5], -1.5], [[6], 2]], "repetition_penalty": 1.1,
    "no_repeat_ngram_size": 3, "bad_words_ids": [[4], [9, 12]], "min_new_tokens": 2,
    "forced_bos_token_id": 8, "forced_eos_token_id": [2, 3], "suppress_tokens": [7, 11],
    "begin_suppress_tokens": [220], "top_h": 0.4, "min_p": 0.05, "typical_p": 0.9,
    "epsilon_cutoff": 0.01, "eta_cutoff": 0.02, "max_new_tokens": 9, "stop_strings": "END"})");
  const SamplerOptions& s = a.options.sampler;
  EXPECT_THAT(s.logit_bias, ElementsAre(std::pair(5, -1.5), std::pair(6, 2.0)));
  EXPECT_EQ(s.repetition_penalty, 1.1);
  EXPECT_EQ(s.no_repeat_ngram, 3);
  EXPECT_THAT(s.bad_words, ElementsAre(ElementsAre(4), ElementsAre(9, 12)));
  EXPECT_EQ(s.min_new_tokens, 2);
  EXPECT_THAT(s.forced_second, ElementsAre(8));
  EXPECT_THAT(s.forced_last, ElementsAre(2, 3));
  EXPECT_THAT(s.suppressed, ElementsAre(7, 11));
  EXPECT_THAT(s.suppressed_at_begin, ElementsAre(220));
  EXPECT_EQ(s.top_h, 0.4);
  EXPECT_EQ(s.min_p, 0.05);
  EXPECT_EQ(s.typical_p, 0.9);
  EXPECT_EQ(s.epsilon_cutoff, 0.01);
  EXPECT_EQ(s.eta_cutoff, 0.02);
  EXPECT_EQ(a.options.max_new_tokens, 9);
  EXPECT_THAT(a.options.stop, ElementsAre("END"));
  EXPECT_EQ(a.config.used.size(), 16u);
}

// As generate(), which keeps biases in a dict and applies cutoffs below 1 only.
TEST(GenerationConfig, TheLastBiasOfATokenCountsAndACutoffOfOneIsOff) {
  const Applied a = apply(R"({"sequence_bias": [[[65], -1.0], [[66], 3], [[65], 2.0]],
    "epsilon_cutoff": 1.0, "eta_cutoff": 1, "forced_eos_token_id": 2})");
  EXPECT_THAT(a.options.sampler.logit_bias,
              ::testing::UnorderedElementsAre(std::pair(65, 2.0), std::pair(66, 3.0)));
  EXPECT_EQ(a.options.sampler.epsilon_cutoff, 0);
  EXPECT_EQ(a.options.sampler.eta_cutoff, 0);
  EXPECT_THAT(a.options.sampler.forced_last, ElementsAre(2));
}

TEST(GenerationConfig, DoSampleDecidesAboutTheTemperature) {
  EXPECT_EQ(apply(R"({"do_sample": false, "temperature": 0.6})").options.sampler.temperature, 0);
  EXPECT_EQ(apply(R"({"do_sample": true})").options.sampler.temperature, 1);
  EXPECT_EQ(apply(R"({"temperature": 0.6})").options.sampler.temperature, 0.6);
  EXPECT_EQ(apply(R"({"eos_token_id": 2})").options.sampler.temperature, 0.8);
  EXPECT_THAT(apply(R"({"do_sample": false})").config.used, ElementsAre("temperature"));
}

TEST(GenerationConfig, NullIsIgnoredAndUnknownKeysAreListed) {
  const Applied a = apply(R"({"top_p": null, "do_sample": null, "num_beam_groups": 2})");
  EXPECT_EQ(a.options.sampler.top_p, 1);
  EXPECT_EQ(a.options.sampler.temperature, 0.8);
  EXPECT_TRUE(a.config.used.empty());
  EXPECT_THAT(a.config.unused, ElementsAre("num_beam_groups"));
  const Applied nameless = apply(R"({"": true})");
  EXPECT_FALSE(nameless.options.ignore_end);
  EXPECT_TRUE(nameless.config.used.empty());
  GenerateOptions options;
  EXPECT_TRUE(apply_generation_config(JsonValue(), options).used.empty());  // no file
}

TEST(GenerationConfig, ValuesThatCannotBeNameTheirLine) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"top_p": 1.5})", "'top_p' must be at least 0 and at most 1, got 1.5"},
      {R"({"top_k": -1})", "'top_k' must be at least 0, got -1"},
      {R"({"temperature": "hot"})", "'temperature'"},
      {R"({"suppress_tokens": [-1]})", "must be a token id from 0 to 2147483647, got -1"},
      {R"({"sequence_bias": [[[1, 2], 3]]})", "is for a run of 2 tokens"},
      {R"({"sequence_bias": [[[1], 1e300]]})", "must be a number up to 3.4e+38, got 1e"},
      {R"({"temperature": 1e-300})", "'temperature' must be within the range of float32, got "},
      {R"({"repetition_penalty": 1e300})", "must be within the range of float32, got "},
      {R"({"bad_words_ids": [[]]})", "must have at least one token id"},
      {R"({"bad_words_ids": [5]})", "'bad_words_ids[0]' must be an array, got 5"},
      {R"({"suppress_tokens": 5})", "'suppress_tokens' must be an array, got 5"},
      {R"({"stop_strings": [""]})", "must not contain an empty text"},
      {R"({"do_sample": 1})", "'do_sample'"},
  };
  for (const auto& [text, says] : cases) {
    EXPECT_ERROR_SAYS(apply(text), ExitCode::checkpoint, says);
    EXPECT_ERROR_SAYS(apply(text), ExitCode::checkpoint, "generation_config.json:1");
  }
}

TEST(GenerationKeys, NamesAreUnique) {
  std::set<std::string> names, keys;
  for (const GenerationKey& key : generation_keys()) {
    EXPECT_TRUE(*key.name || *key.config_key);
    EXPECT_TRUE(!*key.name || names.insert(key.name).second) << key.name;
    EXPECT_TRUE(!*key.config_key || keys.insert(key.config_key).second) << key.config_key;
  }
}

TEST(GenerationKeys, ValuesAreShownAsTheyAreTyped) {
  GenerateOptions options;
  options.sampler.bad_words = {{4}, {9, 12}};
  options.sampler.logit_bias = {{5, -1.5}};
  options.sampler.suppressed = {7, 11};
  std::string all;
  for (const GenerationKey& key : generation_keys())
    all += std::string(key.name) + " " + value_text(key, options) + "\n";
  EXPECT_THAT(all, ::testing::HasSubstr("bad-ids 4 9,12\n"));
  EXPECT_THAT(all, ::testing::HasSubstr("logit-bias 5=-1.5\n"));
  EXPECT_THAT(all, ::testing::HasSubstr("suppress-ids 7,11\n"));
  EXPECT_THAT(all, ::testing::HasSubstr("stop none\n"));
  EXPECT_THAT(all, ::testing::HasSubstr("ignore-eos off\n"));
}

}  // namespace
}  // namespace lamina::decode
