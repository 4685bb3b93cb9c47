// Rank files of tiktoken.
#include "text/tiktoken/tiktoken.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/tiktoken/base64.h"
#include "text/tokenizer.h"
#include "tokenizer_folder.h"

namespace lamina::text {
namespace {

using lamina::testing::TempDir;
using Ids = std::vector<TokenId>;

using testing::base64;

// The bytes in order, then these.
std::string ranks(const std::vector<std::string>& more = {"ab", "abc", "bc"}) {
  std::string out;
  for (int b = 0; b < 256; ++b)
    out += base64(std::string(1, static_cast<char>(b))) + " " + std::to_string(b) + "\n";
  for (std::size_t i = 0; i < more.size(); ++i)
    out += base64(more[i]) + " " + std::to_string(256 + i) + "\n";
  return out;
}

constexpr const char* kConfig =
    R"({"pat_str":"\\p{L}++|\\p{N}{1,3}+|\\s++$|\\s","special_tokens":{"<|end|>":300}})";

std::string error_of(const std::string& rank_file, const std::string& config = kConfig) {
  return testing::error_of({{"ranks.tiktoken", rank_file}, {"tiktoken.json", config}});
}

TEST(Tiktoken, Example) {
  TempDir dir;
  dir.write("ranks.tiktoken", ranks());
  dir.write("tiktoken.json", kConfig);
  const auto tokenizer = load_tokenizer(dir.path());
  EXPECT_EQ(tokenizer->encode("abc 1234"), (Ids{257, ' ', '1', '2', '3', '4'}));
  EXPECT_EQ(tokenizer->encode("xbc"), (Ids{'x', 258}));
  EXPECT_EQ(tokenizer->encode("a<|end|>", {.parse_special = true}), (Ids{'a', 300}));
  EXPECT_EQ(tokenizer->encode("<|end|>").size(), 7u);
  EXPECT_FALSE(tokenizer->reads_special_tokens());
  EXPECT_EQ(tokenizer->decode(Ids{257, 300, 0xe4}), "abc<|end|>\xef\xbf\xbd");
  EXPECT_EQ(tokenizer->vocab_size(), 301);  // ids from 259 to 299 have no token
  TempDir copy;
  EXPECT_EQ(tokenizer->save(copy.path()),
            (std::vector<std::string>{"ranks.tiktoken", "tiktoken.json"}));
}

// "\u00e9" is the byte 0xe9 in GPT-2's alphabet, which these files do not use.
TEST(Tiktoken, ASpecialTokenDecodesToItsText) {
  TempDir dir;
  dir.write("ranks.tiktoken", ranks());
  dir.write("tiktoken.json", R"({"pat_str":"a","special_tokens":{"\u00e9!":300,"\u0120x":301}})");
  dir.write("tokenizer_config.json", R"({"bos_token":"\u00e9!","eos_token":"\u0141"})");
  const auto tokenizer = load_tokenizer(dir.path());
  EXPECT_EQ(tokenizer->encode("\u00e9!", {.parse_special = true}), Ids{300});
  EXPECT_EQ(tokenizer->decode(Ids{300, 301}), "\u00e9!\u0120x");
  EXPECT_EQ(tokenizer->token_bytes(300), "\u00e9!");
  EXPECT_EQ(tokenizer->bos_id(), 300);
  EXPECT_EQ(tokenizer->eos_id(), std::nullopt);  // not the byte 0x9f
}

// The whole word is looked up before any merge, so the ranks need no path of merges to it.
TEST(Tiktoken, AWordInTheVocabularyIsOneToken) {
  TempDir dir;
  dir.write("ranks.tiktoken", ranks({"xyz"}));
  dir.write("tiktoken.json", kConfig);
  EXPECT_EQ(load_tokenizer(dir.path())->encode("xyz"), Ids{256});
}

TEST(Tiktoken, RefusesRanksThatCannotBe) {
  EXPECT_EQ(error_of(ranks() + "!!!! 300\n"),
            "ranks.tiktoken:260: '!!!! 300' is not a token in base64 and its rank, from 0 to "
            "16777215, eg \"IQ== 0\"\n  copy the published file again");
  for (const char* line : {"IQ==", "IQ== x", "IQ== -1", "IQ== 99999999999", "= 300", " 300"})
    EXPECT_THAT(error_of(ranks() + line), ::testing::HasSubstr("is not a token in base64")) << line;
  EXPECT_THAT(error_of(ranks() + base64("zz") + " 256"),
              ::testing::HasSubstr("ranks.tiktoken:260: has the rank 256 a second time"));
  EXPECT_THAT(error_of(ranks().substr(7)),
              ::testing::HasSubstr("has no token for the byte 0x00; it must have all 256"));
  EXPECT_THAT(error_of(ranks(), R"({"special_tokens":{}})"),
              ::testing::HasSubstr("lacks the key 'pat_str'"));
  EXPECT_THAT(error_of(ranks(), R"({"pat_str":"(","special_tokens":{}})"),
              ::testing::HasSubstr("tiktoken.json:1: 'pat_str': the pattern is not a regular"));
  EXPECT_THAT(error_of(ranks(), R"({"pat_str":"a","special_tokens":{"<s>":256}})"),
              ::testing::HasSubstr("is 256, which is the token \"ab\""));
}

// Moonshot's files: the class defines the rules, the config the special tokens.
testing::FilesByName moonshot_files(const std::string& config) {
  const std::string han = "\xe4\xb8\xad";
  return {{"tiktoken.model", ranks({han.substr(0, 2), han, han + "a", "bc", "Bz", "12"})},
          {"tokenizer_config.json", config}};
}

// Ids of tiktoken with the pattern that Moonshot published.
TEST(Tiktoken, ModelFilesHaveTheRulesOfTheirClass) {
  const auto tokenizer = testing::load(moonshot_files(
      R"({"tokenizer_class":"TikTokenTokenizer","bos_token":"[BOS]","eos_token":"[EOS]",)"
      R"("added_tokens_decoder":{"262":{"content":"[BOS]","special":true},)"
      R"("263":{"content":"[EOS]","special":true},"264":{"content":"<|im_end|>","special":true}}})"));
  EXPECT_EQ(tokenizer->encode("\xe4\xb8\xad"
                              "abc 123"),
            (Ids{257, 'a', 259, ' ', 261, '3'}));
  EXPECT_EQ(tokenizer->encode("a<|im_end|>", {.parse_special = true}), (Ids{'a', 264}));
  EXPECT_TRUE(tokenizer->reads_special_tokens());
  EXPECT_EQ(tokenizer->bos_id(), 262);
  EXPECT_EQ(tokenizer->eos_id(), 263);
  EXPECT_EQ(tokenizer->find_token("<|reserved_token_300|>"), 300);
  EXPECT_EQ(tokenizer->vocab_size(), 262 + 256);
  EXPECT_EQ(tokenizer->decode(Ids{262, 257, 264}, true), "\xe4\xb8\xad");
}

TEST(Tiktoken, AddedTokensOfModelFilesDecodeToTheirText) {
  const auto tokenizer = testing::load(moonshot_files(
      R"({"tokenizer_class":"TikTokenTokenizer","added_tokens_decoder":{)"
      R"("262":{"content":"\u00e9!","special":true},"263":{"content":"n\u00e9"}}})"));
  EXPECT_EQ(tokenizer->encode("n\u00e9\u00e9!", {.parse_special = true}), (Ids{263, 262}));
  EXPECT_EQ(tokenizer->decode(Ids{262, 263}), "\u00e9!n\u00e9");
}

TEST(Tiktoken, ModelFilesOfOtherClassesAreRefused) {
  EXPECT_EQ(
      testing::error_of(moonshot_files(R"({"tokenizer_class":"OtherTokenizer"})")),
      "tiktoken.model: has the class 'OtherTokenizer', whose rules for splitting a text "
      "lamina does not have\n"
      "  save the tokenizer as tokenizer.json, or as ranks.tiktoken with a tiktoken.json that "
      "has its pattern (\"pat_str\")");
  EXPECT_THAT(testing::error_of(moonshot_files("{}")),
              ::testing::HasSubstr("has only ranks, and no 'tokenizer_class' in "
                                   "tokenizer_config.json gives the rules to split a text"));
  EXPECT_THAT(testing::error_of(moonshot_files(
                  R"({"tokenizer_class":"TikTokenTokenizer",)"
                  R"("added_tokens_decoder":{"256":{"content":"[BOS]","special":true}}})")),
              ::testing::HasSubstr("tokenizer_config.json: the id of the added token \"[BOS]\" is "
                                   "256, which is the token"));
}

TEST(Base64, DecodesWholeGroupsOnly) {
  EXPECT_EQ(base64_decode("YWJj"), "abc");
  EXPECT_EQ(base64_decode("YWI="), "ab");
  EXPECT_EQ(base64_decode("YQ=="), "a");
  EXPECT_EQ(base64_decode(""), "");
  for (const char* bad : {"YWJ", "YW J", "Y===", "====", "YQ=a", "Y\xc3\xa9="})
    EXPECT_EQ(base64_decode(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace lamina::text
