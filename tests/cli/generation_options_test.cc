// Options of generation: in `lamina decode`, `lamina chat`, /set and the model's
// generation_config.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "cli/trained_run.h"
#include "core/json.h"
#include "support/gguf_conversion.h"
#include "support/goldens.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using ::testing::HasSubstr;

Finished decode(std::vector<std::string> words) {
  words.insert(words.begin(), {"decode", "-m", trained_run(), "--ids", "1,2,3"});
  return lamina_program(words);
}

std::vector<std::int64_t> ids(std::vector<std::string> words) {
  words.insert(words.end(), {"--json", "-n", "6", "--ignore-eos"});
  const Finished result = decode(words);
  EXPECT_EQ(result.code, 0) << result.err;
  const JsonDocument json = JsonDocument::parse(result.out, "decode");
  std::vector<std::int64_t> out;
  for (JsonValue id : json.root().at("ids").elements()) out.push_back(id.as_int64());
  return out;
}

TEST(GenerationOptions, ReachTheSampler) {
  EXPECT_EQ(ids({"--temp", "0", "--logit-bias", "77=1000"}), std::vector<std::int64_t>(6, 77));
  const auto once = ids({"--temp", "0", "--logit-bias", "77=1000", "--no-repeat-ngram", "1"});
  EXPECT_EQ(std::ranges::count(once, 77), 1);
  const auto bad = ids({"--temp", "0", "--logit-bias", "77=1000", "--bad-ids", "77,77"});
  EXPECT_EQ(bad[0], 77);
  EXPECT_NE(bad[1], 77);
  EXPECT_NE(ids({"--temp", "0", "--logit-bias", "77=1000", "--suppress-first-ids", "77"})[0], 77);
  EXPECT_EQ(ids({"--top-p", "0.5", "--typical-p", "0.9", "--seed", "4"}),
            ids({"--top-p", "0.5", "--typical-p", "0.9", "--seed", "4"}));
}

// A penalised token is a tenth as likely, but more likely than all without a bias.
TEST(GenerationOptions, TheWindowOfARepetitionPenaltyMovesWithTheText) {
  const auto windowed = [](const char* window) {
    return ids({"--temp", "0", "--logit-bias", "77=1000", "--logit-bias", "78=900", "--logit-bias",
                "79=800", "--repeat-penalty", "10", "--repeat-last-n", window});
  };
  using Ids = std::vector<std::int64_t>;
  EXPECT_EQ(windowed("-1"), (Ids{77, 78, 79, 77, 77, 77}));
  EXPECT_EQ(windowed("100"), (Ids{77, 78, 79, 77, 77, 77}));
  EXPECT_EQ(windowed("1"), (Ids{77, 78, 77, 78, 77, 78}));
  EXPECT_EQ(windowed("2"), (Ids{77, 78, 79, 77, 78, 79}));
}

TEST(GenerationOptions, RefuseAWindowWithoutAPenaltyAndAPenaltyWithoutAWindow) {
  EXPECT_EQ(decode({"--repeat-last-n", "64"}).err,
            "error: --repeat-last-n: has no effect without a penalty\n"
            "  remove it, or add eg --repeat-penalty 1.1\n");
  const Finished empty = decode({"--repeat-penalty", "1.1", "--repeat-last-n", "0"});
  EXPECT_EQ(empty.code, 2);
  EXPECT_EQ(empty.err,
            "error: --repeat-penalty: has no effect on a window of 0 tokens\n"
            "  remove it, or add eg --repeat-last-n -1 for all tokens\n");
  EXPECT_EQ(decode({"--repeat-last-n", "-2"}).err,
            "error: '--repeat-last-n' must be an integer, at least -1, got -2\n");
  EXPECT_EQ(decode({"-n", "1", "--repeat-last-n", "0"}).code, 0);  // as --repeat-penalty 1
}

TEST(GenerationOptions, LogprobsCoverEveryToken) {
  const Finished result =
      decode({"--json", "-n", "3", "--temp", "0", "--ignore-eos", "--logprobs", "2"});
  ASSERT_EQ(result.code, 0) << result.err;
  const JsonDocument json = JsonDocument::parse(result.out, "decode");
  ASSERT_EQ(json.root().at("logprobs").size(), 3u);
  for (JsonValue token : json.root().at("logprobs").elements()) {
    ASSERT_EQ(token.at("top").size(), 2u);
    const JsonValue best = token.at("top").element(0);
    EXPECT_EQ(best.at("id").as_int64(), token.at("id").as_int64());  // greedy
    EXPECT_EQ(best.at("logprob").as_double(), token.at("logprob").as_double());
    EXPECT_LE(token.at("top").element(1).at("logprob").as_double(), best.at("logprob").as_double());
  }
}

TEST(GenerationOptions, RefuseInvalidValues) {
  for (const char* bias :
       {"x", "5", "5=", "5=nan", "5=inf", "-1=2", "=2", "5=1e300", "5=1e999", "5=1x"}) {
    const Finished result = decode({"--logit-bias", bias});
    EXPECT_EQ(result.code, 2) << bias;
    EXPECT_THAT(result.err, HasSubstr("--logit-bias: got '")) << bias;
  }
  EXPECT_EQ(
      decode({"--logit-bias", "5=1e300"}).err,
      "error: --logit-bias: got '5=1e300'; expected a token id and a number up to 3.4e+38, eg "
      "15=-2.5\n");
  EXPECT_EQ(decode({"--logit-bias", "5=3e38", "--logit-bias", "6=-inf"}).code, 0);
  EXPECT_THAT(decode({"--bad-ids", "1,"}).err, HasSubstr("--bad-ids: got '1,'"));
  EXPECT_THAT(decode({"--logprobs", "2"}).err, HasSubstr("needs --json; add it"));
  EXPECT_EQ(decode({"--repeat-penalty", "0"}).code, 2);
  EXPECT_EQ(decode({"--typical-p", "1.5"}).code, 2);
}

TEST(GenerationOptions, RefuseWhatHasNoEffectOnTheSearch) {
  for (const auto& [option, value] :
       {std::pair{"--temp", "0.5"}, {"--top-k", "3"}, {"--min-p", "0.1"}, {"--seed", "3"}}) {
    const Finished result = decode({"-n", "2", "--beams", "2", option, value});
    EXPECT_EQ(result.code, 2) << option;
    EXPECT_EQ(result.err, std::string("error: ") + option +
                              ": has no effect on beam search, which does not sample\n"
                              "  remove it, or use --beams 1\n");
  }
  for (const auto& [option, value] :
       {std::pair{"--length-penalty", "2"}, {"--early-stopping", "never"}}) {
    const Finished result = decode({"-n", "2", option, value});
    EXPECT_EQ(result.code, 2) << option;
    EXPECT_EQ(result.err, std::string("error: ") + option +
                              ": has no effect without a beam search\n"
                              "  remove it, or add eg --beams 4\n");
    EXPECT_EQ(decode({"-n", "2", "--beams", "2", "--temp", "0", option, value}).code, 0) << option;
  }
  EXPECT_EQ(decode({"-n", "2", "--beams", "3", "--logprobs", "1", "--json"}).err,
            "error: --logprobs: cannot be combined with 3 beams\n  use --beams 1\n");
}

TEST(GenerationOptions, RefuseMoreTokensThanTheTextMayHave) {
  const auto refused = [](std::vector<std::string> words) {
    words.insert(words.end(), {"-n", "2"});
    const Finished result = decode(words);
    EXPECT_EQ(result.code, 2) << words[0];
    return result.err;
  };
  EXPECT_EQ(refused({"--force-first-ids", "1,2,3"}),
            "error: --force-first-ids: needs 3 tokens, but -n allows 2\n  use at least -n 3\n");
  EXPECT_THAT(refused({"--force-first-ids", "1,2", "--force-last-ids", "3,4"}),
              HasSubstr("--force-last-ids: needs 3 tokens, but -n allows 2"));
  EXPECT_THAT(refused({"--min-tokens", "9"}), HasSubstr("--min-tokens: needs 9 tokens"));
  EXPECT_EQ(decode({"-n", "2", "--force-first-ids", "1", "--force-last-ids", "3,4,5"}).code, 0);
  EXPECT_EQ(decode({"-n", "1", "--force-last-ids", "3,4,5"}).code, 0);
}

TEST(GenerationOptions, RefuseIdsOutsideOfTheVocabulary) {
  for (const auto& [option, value] : {std::pair{"--force-first-ids", "999"},
                                      {"--force-last-ids", "1,999"},
                                      {"--suppress-ids", "258,999"},
                                      {"--suppress-first-ids", "999"},
                                      {"--bad-ids", "1,999"},
                                      {"--logit-bias", "999=1"}}) {
    const Finished result = decode({option, value});
    EXPECT_EQ(result.code, 2) << option;
    EXPECT_EQ(result.err, std::string("error: ") + option + ": id " +
                              (std::string(value) == "258,999" ? "258" : "999") +
                              " is outside the vocabulary of 258; use 0 to 257\n");
  }
  EXPECT_EQ(decode({"--suppress-ids", "257"}).code, 0);
}

TEST(GenerationOptions, ATextThatTheContextCutsSaysSo) {
  const auto reason = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--json", "--ignore-eos"});
    return decode(words).out;
  };
  EXPECT_THAT(reason({"-n", "500"}), HasSubstr("\"finish_reason\": \"context\""));
  EXPECT_THAT(reason({"-n", "5"}), HasSubstr("\"finish_reason\": \"length\""));
  EXPECT_THAT(reason({"-n", "5", "--ctx-size", "4"}), HasSubstr("\"finish_reason\": \"context\""));
}

TEST(GenerationOptions, WithNothingLeftToDrawTheExitCodeIsThree) {
  std::string all = "0";
  for (int id = 1; id < 258; ++id) all += "," + std::to_string(id);
  const Finished result = decode({"--suppress-ids", all});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("no token is left"));
}

// A published model with the given generation_config.json.
class PublishedModel {
 public:
  explicit PublishedModel(const std::string& generation_config) {
    const auto from = lamina::testing::golden_dir() / "hf" / "llama3_gqa";
    for (const char* file : {"config.json", "model.safetensors"})
      std::filesystem::create_symlink(std::filesystem::absolute(from / file), folder_ / file);
    folder_.write("generation_config.json", generation_config);
  }
  Finished decode(std::vector<std::string> words, const std::string& ids = "1,2,3") const {
    words.insert(words.begin(), {"decode", "-m", folder_.path(), "--ids", ids, "--verbose"});
    return lamina_program(words);
  }

 private:
  lamina::testing::TempDir folder_;
};

TEST(GenerationOptions, WarnOfPublishedIdsOutsideOfTheVocabulary) {
  const PublishedModel model(R"({"do_sample": false, "suppress_tokens": [3, 90000]})");
  const Finished result = model.decode({"-n", "2"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err,
              HasSubstr("generation_config.json: 'suppress_tokens' has the id 90000, which is "
                        "outside the vocabulary of 149 and has no effect"));
  EXPECT_THAT(model.decode({"-n", "2", "--suppress-ids", "4"}).err,
              Not(HasSubstr("outside the vocabulary")));
}

TEST(GenerationOptions, PublishedForcedIdsOutsideOfTheVocabularyForceNothing) {
  const auto ids_of = [](const Finished& result) {
    EXPECT_EQ(result.code, 0) << result.err;
    const JsonDocument json = JsonDocument::parse(result.out, "decode");
    std::vector<std::int64_t> out;
    for (JsonValue id : json.root().at("ids").elements()) out.push_back(id.as_int64());
    return out;
  };
  const auto decoded = [](const std::string& more) {
    return PublishedModel(R"({"do_sample": false)" + more + "}")
        .decode({"-n", "3", "--ignore-eos", "--json"}, "1");
  };
  const std::vector<std::int64_t> usual = ids_of(decoded(""));
  for (const std::string key : {"forced_bos_token_id", "forced_eos_token_id"}) {
    const Finished result = decoded(", \"" + key + "\": 90000");
    EXPECT_EQ(ids_of(result), usual) << key;
    EXPECT_THAT(result.err,
                HasSubstr("generation_config.json: '" + key +
                          "' has the id 90000, which is outside the vocabulary of 149 and has no "
                          "effect"));
  }
  EXPECT_EQ(ids_of(decoded(", \"forced_eos_token_id\": [90000, 7]")).back(), 7);
}

TEST(GenerationOptions, PublishedBadWordsDoNotExcludeTheEndToken) {
  const PublishedModel model(
      R"({"do_sample": false, "eos_token_id": [77, 78], "bad_words_ids": [[77], [79]],
          "sequence_bias": [[[77], 1000], [[79], 2000]]})");
  const auto ends_with = [&](std::vector<std::string> words, const char* reason,
                             std::size_t tokens) {
    words.insert(words.end(), {"-n", "2", "--json"});
    const Finished result = model.decode(words);
    ASSERT_EQ(result.code, 0) << result.err;
    const JsonDocument json = JsonDocument::parse(result.out, "decode");
    EXPECT_EQ(json.root().at("finish_reason").as_string(), reason);
    EXPECT_EQ(json.root().at("ids").size(), tokens);
  };
  ends_with({}, "eos", 0);
  ends_with({"--beams", "2"}, "eos", 0);
  ends_with({"--bad-ids", "77", "--bad-ids", "78"}, "length", 2);  // given ones do
}

TEST(GenerationOptions, WarnOfEndTokensOutsideOfTheVocabulary) {
  const PublishedModel model(R"({"do_sample": false, "eos_token_id": [2, 99999]})");
  const Finished result = model.decode({"-n", "2"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("the end token 99999 is outside the vocabulary of 149, so that "
                                    "it ends no text"));
}

TEST(GenerationOptions, OfPlainTextAreRefusedWithJson) {
  for (const char* option : {"--echo", "--raw"}) {
    const Finished result = decode({"-n", "2", "--json", option});
    EXPECT_EQ(result.code, 2) << option;
    EXPECT_EQ(result.err, std::string("error: ") + option +
                              ": has no effect with --json\n  remove one of them\n");
  }
}

TEST(GenerationOptions, TimesAreShownBesideJsonIfTheyAreGiven) {
  const Finished result = decode({"-n", "2", "--json", "--stats"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(JsonDocument::parse(result.out, "decode").root().at("ids").size(), 0u);
  EXPECT_THAT(result.err, HasSubstr("loaded in "));
  EXPECT_THAT(decode({"-n", "2", "--json"}).err, Not(HasSubstr("loaded in ")));
}

TEST(GenerationOptions, OfTextsAreRefusedWithoutATokenizer) {
  const PublishedModel model(R"({"do_sample": false, "stop_strings": ["END"]})");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--stop", "x"}, {"--echo"}, {"--raw"}}) {
    const Finished refused = model.decode(words);
    EXPECT_EQ(refused.code, 2) << words[0];
    EXPECT_THAT(refused.err, HasSubstr("error: " + words[0] + ": has no effect, because '"));
    EXPECT_THAT(refused.err, HasSubstr("' has no tokenizer and its output is token ids\n"));
    EXPECT_EQ(refused.out, "");
  }
  const Finished warned = model.decode({"-n", "2"});
  EXPECT_EQ(warned.code, 0);
  EXPECT_THAT(warned.err, HasSubstr("has no tokenizer, so 'stop_strings' in generation_config.json "
                                    "has no effect\n"));
}

TEST(GenerationOptions, DefaultToTheModels) {
  const PublishedModel model(
      R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "max_new_tokens": 5,
          "sequence_bias": [[[77], 1000]], "num_beam_groups": 2})");
  const Finished own = model.decode({});
  ASSERT_EQ(own.code, 0) << own.err;
  EXPECT_EQ(own.out, "77 77 77 77 77");
  EXPECT_THAT(own.err,
              HasSubstr("max-new-tokens 5 (generation_config.json), logit-bias 77=1000 "
                        "(generation_config.json), temp 0.6 (generation_config.json), top-k 20 "
                        "(generation_config.json)\n"));
  EXPECT_THAT(own.err, HasSubstr("also has num_beam_groups, which lamina does not use"));
  const Finished given = model.decode({"-n", "2", "--logit-bias", "78=2000", "--temp", "0"});
  ASSERT_EQ(given.code, 0) << given.err;
  EXPECT_EQ(given.out, "78 78");
  EXPECT_THAT(given.err, HasSubstr("max-new-tokens 2 (given), logit-bias 78=2000 (given), temp 0 "
                                   "(given), top-k 20 (generation_config.json)\n"));
}

TEST(GenerationOptions, TheWindowOfThePublishersPenaltyCanBeGiven) {
  const PublishedModel model(R"({"do_sample": false, "repetition_penalty": 1.1})");
  EXPECT_THAT(model.decode({"-n", "2"}).err,
              HasSubstr("repeat-penalty 1.1 (generation_config.json), temp 0"));
  EXPECT_THAT(model.decode({"-n", "2", "--repeat-last-n", "64"}).err,
              HasSubstr("repeat-penalty 1.1 (generation_config.json), repeat-last-n 64 (given), "));
}

TEST(GenerationOptions, AreShownIfTheyActOnTheSearch) {
  const PublishedModel model(
      R"({"do_sample": true, "temperature": 0.6, "num_beams": 4, "length_penalty": 2})");
  const auto shown = [&](const char* beams) {
    return model.decode({"-n", "2", "--beams", beams}).err;
  };
  EXPECT_THAT(shown("1"), HasSubstr("generates with max-new-tokens 2 (given), temp 0.6 "
                                    "(generation_config.json), beams 1 (given)\n"));
  EXPECT_THAT(shown("2"), HasSubstr("generates with max-new-tokens 2 (given), beams 2 (given), "
                                    "length-penalty 2 (generation_config.json)\n"));
}

TEST(GenerationOptions, AModelMayWantNoSampling) {
  const Finished greedy =
      PublishedModel(R"({"do_sample": false, "temperature": 0.6})").decode({"-n", "3"});
  EXPECT_THAT(greedy.err, HasSubstr("temp 0 (generation_config.json)\n"));
  EXPECT_EQ(greedy.out, PublishedModel("{}").decode({"-n", "3", "--temp", "0"}).out);
}

// The tiny model as a GGUF file with a penalty, and options of the command line.
Finished decode_penalised(std::optional<std::uint32_t> window, std::vector<std::string> words) {
  lamina::testing::GgufConversion model =
      lamina::testing::as_llama(lamina::testing::golden_dir() / "hf" / "llama3_gqa");
  model.layers(lamina::testing::kFeedForwardNames);
  model.gguf.set("general.sampling.penalty_repeat", 1.5f);
  if (window) model.gguf.set("general.sampling.penalty_last_n", *window);
  const lamina::testing::TempDir folder;
  const std::string file = folder.write("model.gguf", model.gguf.bytes());
  words.insert(words.begin(), {"decode", "-m", file, "--ids", "1,5,7", "-n", "2", "--verbose"});
  return lamina_program(words);
}

TEST(GenerationOptions, TheWindowOfAPenaltyInAGgufFileIsShownAndCanBeReplaced) {
  const auto shown = [](std::optional<std::uint32_t> window, std::vector<std::string> words) {
    const Finished result = decode_penalised(window, std::move(words));
    EXPECT_EQ(result.code, 0) << result.err;
    return result.err;
  };
  EXPECT_THAT(shown(24, {}), HasSubstr("repeat-penalty 1.5 (GGUF file), repeat-last-n 24 (GGUF "
                                       "file), temp 0.8 (default)\n"));
  EXPECT_THAT(shown({}, {}),
              HasSubstr("repeat-penalty 1.5 (GGUF file), repeat-last-n 64 (GGUF file), temp"));
  EXPECT_THAT(shown(24, {"--repeat-penalty", "1.2"}),
              HasSubstr("repeat-penalty 1.2 (given), repeat-last-n 24 (GGUF file), temp"));
  EXPECT_THAT(shown(24, {"--repeat-last-n", "-1"}),
              HasSubstr("repeat-penalty 1.5 (GGUF file), repeat-last-n -1 (given), temp"));
  EXPECT_THAT(shown(0, {}),
              HasSubstr("repeat-penalty 1.5 (GGUF file), repeat-last-n 0 (GGUF file), temp"));
  EXPECT_THAT(shown(24, {"--repeat-penalty", "1"}),
              HasSubstr("repeat-penalty 1 (given), temp"));  // without a window
}

TEST(GenerationOptions, APenaltyIsRefusedIfAGgufFileHasAnEmptyWindow) {
  const Finished refused = decode_penalised(0, {"--repeat-penalty", "1.2"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("error: --repeat-penalty: has no effect on a window of 0 tokens\n"));
}

TEST(GenerationOptions, ModelValuesMustBeFinite) {
  for (const char* value : {"Infinity", "NaN"}) {
    const Finished result =
        PublishedModel(std::string(R"({"repetition_penalty": )") + value + "}").decode({});
    EXPECT_EQ(result.code, 4);
    EXPECT_THAT(result.err, HasSubstr("'repetition_penalty' must be a finite number, got " +
                                      std::string(value)));
  }
  for (const char* value : {"Infinity", "NaN", "1e300"}) {
    const Finished result =
        PublishedModel(std::string(R"({"sequence_bias": [[[5], )") + value + "]]}").decode({});
    EXPECT_EQ(result.code, 4);
    EXPECT_THAT(result.err, HasSubstr("must be a number up to 3.4e+38, got "));
  }
  EXPECT_EQ(PublishedModel(R"({"some_limit": Infinity})").decode({"-n", "1"}).code, 0);
}

TEST(GenerationOptions, ModelValuesMustBeValid) {
  const Finished result = PublishedModel(R"({"top_p": 2})").decode({});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("generation_config.json:1: 'top_p' must be at least 0 and at "
                                    "most 1, got 2"));
}

}  // namespace
}  // namespace lamina::cli
