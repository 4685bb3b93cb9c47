// Contexts and continuations as tokens, divided as in lm-evaluation-harness.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "evaluation/prompting.h"

namespace lamina::evaluation {
namespace {

using ::testing::ElementsAre;

constexpr std::int32_t kBos = 256;  // of the byte tokenizer

TEST(Prompting, Example) {
  const auto bytes = text::make_byte_tokenizer();
  const Continuation c = Prompting(*bytes, nullptr).continuation("a", " b");
  EXPECT_THAT(c.tokens, ElementsAre(kBos, 'a', ' ', 'b'));
  EXPECT_EQ(c.prompt_tokens, 2u);
}

TEST(Prompting, WhiteSpaceAtTheEndOfAContextIsScored) {
  const auto bytes = text::make_byte_tokenizer();
  const Continuation c = Prompting(*bytes, nullptr).continuation("a \n", "b");
  EXPECT_THAT(c.tokens, ElementsAre(kBos, 'a', ' ', '\n', 'b'));
  EXPECT_EQ(c.prompt_tokens, 2u);
}

// Also U+3000 and U+001F, which Python's str.rstrip() removes.
TEST(Prompting, WhiteSpaceOfUnicodeAtTheEndOfAContextIsScored) {
  const auto bytes = text::make_byte_tokenizer();
  for (const std::string space : {"\u3000", "\u00a0", "\u0085", "\x1f", "\u3000 "}) {
    const Continuation c = Prompting(*bytes, nullptr).continuation("\u3000a" + space, "b");
    EXPECT_EQ(c.prompt_tokens, 1 + std::string("\u3000a").size());
    EXPECT_EQ(c.tokens.size(), c.prompt_tokens + space.size() + 1);
  }
}

TEST(Prompting, AnEmptyContextIsTheBeginningOfAText) {
  const auto bytes = text::make_byte_tokenizer();
  for (const char* context : {"", " "}) {
    const Continuation c = Prompting(*bytes, nullptr).continuation(context, "b");
    EXPECT_EQ(c.prompt_tokens, 1u);
    EXPECT_EQ(c.tokens.front(), kBos);
  }
}

TEST(Prompting, NothingCannotBeScored) {
  const auto bytes = text::make_byte_tokenizer();
  EXPECT_THROW(Prompting(*bytes, nullptr).continuation("a", ""), UserError);
}

}  // namespace
}  // namespace lamina::evaluation
