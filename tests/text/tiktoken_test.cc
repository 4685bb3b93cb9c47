// Rank files of tiktoken.
#include "text/tiktoken.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/base64.h"
#include "text/tokenizer.h"
#include "tokenizer_folder.h"

namespace lamina::text {
namespace {

using lamina::testing::TempDir;
using Ids = std::vector<TokenId>;

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      out += i + k > bytes.size() ? '=' : kAlphabet[bits >> (18 - 6 * k) & 63];
  }
  return out;
}

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

// The whole word is looked up before anything merges, so no merges need to lead to it.
TEST(Tiktoken, AWordThatIsATokenIsThatToken) {
  TempDir dir;
  dir.write("ranks.tiktoken", ranks({"xyz"}));
  dir.write("tiktoken.json", kConfig);
  EXPECT_EQ(load_tokenizer(dir.path())->encode("xyz"), Ids{256});
}

TEST(Tiktoken, RefusesRanksThatCannotBe) {
  EXPECT_EQ(error_of(ranks() + "!!!! 300\n"),
            "ranks.tiktoken:260: '!!!! 300' is not a token in base64 and its rank, from 0 to "
            "16777215, eg \"IQ== 0\"\n  copy the file again from where it was published");
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
