// tokenizer.json documents generated from the format's grammar: each loads or is refused with a
// message, in bounded time; a loaded one encodes and decodes.
#include <gtest/gtest.h>

#include <random>

#include "core/error.h"
#include "support/temp_dir.h"
#include "support/tokenizer_grammar.h"
#include "text/tokenizer.h"

namespace lamina::text {
namespace {

constexpr std::string_view kText = "ab  12 <259> Abc\n \xc3\xa9\xe2\x82\xac x<256>y";

TEST(TokenizerGrammar, EveryDocumentLoadsOrIsRefusedWithWords) {
  std::mt19937 random(4);
  const testing::Choose choose = [&](std::uint32_t n) {
    return static_cast<std::uint32_t>(random() % n);
  };
  testing::TempDir dir;
  int loaded = 0, refused = 0;
  for (int i = 0; i < 600; ++i) {
    const testing::TokenizerDocument document = testing::make_tokenizer_document(choose);
    dir.write("tokenizer.json", document.json);
    SCOPED_TRACE(document.json);
    try {
      const auto tokenizer = load_tokenizer(dir.path());
      ++loaded;
      for (const bool special : {false, true}) {
        const std::vector<TokenId> ids =
            tokenizer->encode(kText, {.add_special = special, .parse_special = special});
        const std::string text = tokenizer->decode(ids);  // refuses ids outside the vocabulary
        if (document.keeps_text && !special) {
          ASSERT_EQ(text, kText);
        }
      }
    } catch (const UserError& e) {
      ++refused;
      ASSERT_FALSE(e.text().where.empty());
    }
  }
  EXPECT_GT(loaded, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace lamina::text
