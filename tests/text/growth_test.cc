// The work of encoding grows linearly with the text. The work is counted, not timed.
#include <gtest/gtest.h>

#include "text/bpe_merges.h"
#include "text/hf/added_tokens.h"
#include "text/symbol_table.h"
#include "text/token_trie.h"

namespace lamina::text {
namespace {

// Number of lookups of pairs while a word of `n` equal bytes merges pair by pair.
std::size_t lookups(std::size_t n) {
  std::vector<MergePart> parts;
  for (std::size_t i = 0; i < n; ++i) parts.push_back({0, static_cast<std::uint32_t>(i + 1)});
  std::size_t count = 0;
  merge_parts(parts, [&](const MergePart& left, const MergePart& right, std::uint32_t) {
    ++count;
    // Token k is 2^k bytes.
    return left.id == right.id ? FoundMerge{static_cast<std::uint32_t>(left.id), left.id + 1}
                               : FoundMerge{};
  });
  EXPECT_EQ(parts.size(), 1u);
  return count;
}

TEST(Growth, MergingAWordLooksUpEachPartAFewTimes) {
  for (std::size_t n : {64U, 4096U, 1U << 18}) EXPECT_LE(lookups(n), 3 * n) << n;
}

TEST(Growth, MergesThatAllWaitForOneAreLookedUpAFewTimes) {
  // The first pair merges last: every later candidate is computed once and kept.
  const std::size_t n = 100000;
  std::vector<MergePart> parts;
  for (std::size_t i = 0; i < n; ++i) parts.push_back({0, static_cast<std::uint32_t>(i + 1)});
  std::size_t count = 0;
  merge_parts(parts, [&](const MergePart& left, const MergePart& right, std::uint32_t) {
    ++count;
    return right.id == 0 ? FoundMerge{left.id == 0 ? 1U : 0U, 1} : FoundMerge{};
  });
  EXPECT_LE(count, 3 * n);
}

TEST(Growth, ATrieLooksNoFurtherThanItsLongestToken) {
  const TokenTrie trie({{"a", 0}, {"aaa", 1}, {"aaaaa", 2}});
  const std::string text(1000000, 'a');
  std::size_t found = 0;
  for (std::size_t at = 0; at < text.size(); ++at)
    trie.prefixes(std::string_view(text).substr(at), [&](std::size_t, TokenId) { ++found; });
  EXPECT_LE(found, 3 * text.size());
  EXPECT_EQ(trie.longest("aaaab"), (std::pair<std::size_t, TokenId>{3, 1}));
}

// Whitespace tokens that also take the surrounding whitespace: the first takes all of it.
TEST(Growth, StrippingAddedTokensLooksAtEachPlaceOnce) {
  AddedTokenMatcher matcher;
  matcher.add("\n", {1, "\n", false, true, true, false, false});
  std::size_t tokens = 0;
  matcher.split(std::string(3000000, '\n'), true,
                [&](std::string_view, const AddedToken* token) { tokens += token != nullptr; });
  EXPECT_EQ(tokens, 1u);
}

TEST(SymbolTable, CutsWhereNoTokenHoldsTheTwoCharacters) {
  const std::vector<std::string_view> tokens{"a", "b", "ab", "\xc3\xa9", "x"};
  const Vocabulary all(tokens, Vocabulary::Form::text, "");
  SymbolTable table;
  for (std::size_t id = 0; id < tokens.size(); ++id)
    table.add(tokens[id], static_cast<TokenId>(id));
  EXPECT_EQ(table.first_cut("abab", all), 2u);
  EXPECT_EQ(table.first_cut("\xc3\xa9"
                            "a",
                            all),
            2u);
  EXPECT_EQ(table.first_cut("zza", all), 3u);  // unknown characters may be one token
  EXPECT_EQ(table.first_cut("", all), 0u);
}

}  // namespace
}  // namespace lamina::text
