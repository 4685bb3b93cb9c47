// Options of `lamina decode` that say how a token is chosen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/trained_run.h"
#include "core/json.h"

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

TEST(SamplerOptions, ReachTheSampler) {
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

TEST(SamplerOptions, LogprobsAreOfEveryToken) {
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

TEST(SamplerOptions, RefuseWhatTheyCannotBe) {
  for (const char* bias : {"x", "5", "5=", "5=nan", "5=inf", "-1=2", "=2", "5=1e999", "5=1x"}) {
    const Finished result = decode({"--logit-bias", bias});
    EXPECT_EQ(result.code, 2) << bias;
    EXPECT_THAT(result.err, HasSubstr("--logit-bias: got '")) << bias;
  }
  EXPECT_THAT(decode({"--bad-ids", "1,"}).err, HasSubstr("--bad-ids: got '1,'"));
  EXPECT_THAT(decode({"--logprobs", "2"}).err, HasSubstr("add --json"));
  EXPECT_EQ(decode({"--repeat-penalty", "0"}).code, 2);
  EXPECT_EQ(decode({"--typical-p", "1.5"}).code, 2);
}

TEST(SamplerOptions, WithNothingLeftToDrawTheExitCodeIsThree) {
  std::string all = "0";
  for (int id = 1; id < 258; ++id) all += "," + std::to_string(id);
  const Finished result = decode({"--suppress-ids", all});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("no token is left"));
}

}  // namespace
}  // namespace lamina::cli
