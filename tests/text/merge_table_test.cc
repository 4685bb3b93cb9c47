#include "text/merge_table.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace lamina::text {
namespace {

TEST(MergeTable, Example) {
  MergeTable merges(1);
  merges.set(3, 4, {.rank = 0, .result = 5});
  EXPECT_EQ(merges.find(3, 4).result, 5);
  EXPECT_EQ(merges.find(4, 3).rank, FoundMerge::kNone);
  merges.set(3, 4, {.rank = 9, .result = 6});
  EXPECT_EQ(merges.find(3, 4).rank, 9u) << "the last of equal pairs counts";
}

TEST(MergeTable, FindsEveryPairThatWasSet) {
  constexpr TokenId kTokens = 70;
  MergeTable merges(kTokens * kTokens);
  for (TokenId left = 0; left < kTokens; ++left)
    for (TokenId right = 0; right < kTokens; ++right)
      merges.set(left, right, {static_cast<std::uint32_t>(left), right});
  for (TokenId left = 0; left < kTokens; ++left)
    for (TokenId right = 0; right < kTokens; ++right) {
      EXPECT_EQ(merges.find(left, right).rank, static_cast<std::uint32_t>(left));
      EXPECT_EQ(merges.find(left, right).result, right);
    }
  EXPECT_EQ(merges.find(kTokens, 0).rank, FoundMerge::kNone);
  std::set<std::pair<TokenId, TokenId>> seen;
  merges.for_each([&](TokenId left, TokenId right) { seen.emplace(left, right); });
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kTokens * kTokens));
}

}  // namespace
}  // namespace lamina::text
