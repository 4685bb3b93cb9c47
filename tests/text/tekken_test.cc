// Mistral's tekken.json: ids, special tokens, and invalid files.
#include "text/tiktoken/tekken.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "support/temp_dir.h"
#include "tokenizer_folder.h"

namespace lamina::text {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<TokenId>;

struct SmallTekken {
  std::vector<std::string> more = {"ab", "abc", "zz"};  // after the bytes
  std::string special = R"("special_tokens":[{"rank":0,"token_str":"<unk>","is_control":true},
{"rank":1,"token_str":"<s>","is_control":true},{"rank":2,"token_str":"</s>","is_control":true},
{"rank":3,"token_str":"[INST]","is_control":true}],)";
  std::int64_t vocab_size = 6 + 256 + 2;  // without the last of them
  std::int64_t num_special = 6;
  int first_rank = 0;

  std::string json() const {
    std::string vocab;
    int rank = first_rank;
    const auto add = [&](const std::string& bytes) {
      vocab += fmt::format("{}{{\"rank\":{},\"token_bytes\":\"{}\",\"token_str\":null}}",
                           vocab.empty() ? "" : ",\n", rank++, testing::base64(bytes));
    };
    for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
    for (const std::string& token : more) add(token);
    return fmt::format(
        R"({{"config":{{"pattern":"\\p{{L}}+|\\p{{N}}|\\s+(?!\\S)|\\s+","num_vocab_tokens":259,
"default_vocab_size":{},"default_num_special_tokens":{},"version":"v11"}},{}"vocab":[{}]}})",
        vocab_size, num_special, special, vocab);
  }
  std::unique_ptr<Tokenizer> load() const { return testing::load({{"tekken.json", json()}}); }
  std::string error() const { return testing::error_of({{"tekken.json", json()}}); }
};

// Ids of mistral-common 1.8.
TEST(Tekken, Example) {
  const auto tokenizer = SmallTekken().load();
  EXPECT_EQ(tokenizer->encode("abc 12"), (Ids{1, 263, 6 + ' ', 6 + '1', 6 + '2'}));
  EXPECT_EQ(tokenizer->encode("zzab", {.add_special = false}), (Ids{6 + 'z', 6 + 'z', 262}));
  EXPECT_EQ(tokenizer->decode(Ids{1, 263, 6 + 0xe4, 2}), "<s>abc\xef\xbf\xbd</s>");
  EXPECT_EQ(tokenizer->decode(Ids{1, 263, 2}, true), "abc");
  EXPECT_EQ(tokenizer->vocab_size(), 264);
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
}

TEST(Tekken, SpecialTokensAreTextUnlessAskedFor) {
  const auto tokenizer = SmallTekken().load();
  EXPECT_FALSE(tokenizer->reads_special_tokens());
  EXPECT_EQ(tokenizer->encode("[INST]", {.add_special = false}).size(), 6u);
  EXPECT_EQ(tokenizer->encode("[INST]", {.add_special = false, .parse_special = true}), Ids{3});
}

TEST(Tekken, ASpecialTokenDecodesToItsText) {
  SmallTekken file;
  file.special.replace(file.special.find("[INST]"), 6, "\u00e9!");
  EXPECT_EQ(file.load()->decode(Ids{3}), "\u00e9!");
}

TEST(Tekken, IdsWithoutANameAreCalledAfterTheirNumber) {
  EXPECT_EQ(SmallTekken().load()->find_token("<SPECIAL_5>"), 5);
  SmallTekken old;
  old.special = "";
  old.num_special = 30;
  old.vocab_size = 30 + 256;
  const auto tokenizer = old.load();
  EXPECT_EQ(tokenizer->find_token("[/INST]"), 4);
  EXPECT_EQ(tokenizer->find_token("[TOOL_CONTENT]"), 19);
  EXPECT_EQ(tokenizer->find_token("<SPECIAL_20>"), 20);
}

TEST(Tekken, IsSavedWhole) {
  lamina::testing::TempDir from, to;
  from.write("tekken.json", SmallTekken().json());
  EXPECT_EQ(load_tokenizer(from.path())->save(to.path()), std::vector<std::string>{"tekken.json"});
  EXPECT_EQ(load_tokenizer(to.path())->encode("abc"), (Ids{1, 263}));
}

TEST(Tekken, RefusesFilesThatCannotBe) {
  SmallTekken ranks;
  ranks.first_rank = 1;
  EXPECT_EQ(ranks.error(), "tekken.json:4: 'vocab[0].rank' is 1; expected 0: ranks are in order");
  SmallTekken few;
  few.vocab_size = 400;
  EXPECT_THAT(few.error(), HasSubstr("'vocab' has 259 tokens; expected at least 394"));
  SmallTekken special;
  special.num_special = 3;
  special.vocab_size = 3 + 256;
  EXPECT_THAT(special.error(), HasSubstr("'special_tokens[3].rank' must be an id from 0 to 2"));
  SmallTekken more;
  more.num_special = 300;
  EXPECT_THAT(more.error(), HasSubstr("'config.default_num_special_tokens' must be from 0 to 264"));
  SmallTekken many;
  many.vocab_size = many.num_special = 10'000'000;
  EXPECT_THAT(many.error(), HasSubstr("must be from 0 to 65536, got 10000000"));
  std::string bytes = SmallTekken().json();
  bytes.replace(bytes.find("\"AA==\""), 6, "\"A\"");
  EXPECT_THAT(testing::error_of({{"tekken.json", bytes}}),
              HasSubstr("must be the bytes of a token in base64, got \"A\""));
}

}  // namespace
}  // namespace lamina::text
