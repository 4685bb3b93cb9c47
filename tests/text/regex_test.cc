// Patterns mean what the reference's engine reads in them.
#include "text/regex.h"

#include <gtest/gtest.h>

namespace lamina::text {
namespace {

TEST(Regex, Example) {
  const Regex regex(R"(\s+(?!\S)|\s+)", "test");
  Regex::Searcher searcher(regex);
  Regex::Match match;
  ASSERT_TRUE(searcher.find("a   b", 0, match));
  EXPECT_EQ(match.begin, 1u);
  EXPECT_EQ(match.end, 3u);  // the last space goes to the next word
}

TEST(Regex, RewritesSetsInsideAndOutsideClasses) {
  EXPECT_EQ(detail::rewrite_pattern(R"(\s[^\s])", "test"),
            R"([\x09-\x0D\x20\x{85}\p{Z}][^\x09-\x0D\x20\x{85}\p{Z}])");
  EXPECT_EQ(detail::rewrite_pattern(R"(\S)", "test"), R"([^\x09-\x0D\x20\x{85}\p{Z}])");
  EXPECT_EQ(detail::rewrite_pattern(R"(\p{Lt}[]\]a]\\s)", "test"), R"([\p{Lt}][]\]a]\\s)");
  EXPECT_EQ(detail::rewrite_pattern(R"([\p{Han}])", "test").rfind(R"([\p{sc:Han}\x{)", 0), 0u);
}

TEST(Regex, IgnoresCaseLikeTheReference) {
  const Regex regex("(?i:'s)", "test");
  Regex::Searcher searcher(regex);
  Regex::Match match;
  EXPECT_TRUE(searcher.find("'S", 0, match));
  EXPECT_TRUE(searcher.find("'\xc5\xbf", 0, match));  // long s
}

}  // namespace
}  // namespace lamina::text
