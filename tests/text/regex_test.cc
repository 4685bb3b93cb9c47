// Patterns have the same meaning as in the reference's engine.
#include "text/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"

namespace lamina::text {
namespace {

TEST(Regex, Example) {
  const Regex regex(R"(\s+(?!\S)|\s+)", "test");
  Regex::Searcher searcher(regex);
  Regex::Match match;
  ASSERT_TRUE(searcher.find("a   b", 0, match));
  EXPECT_EQ(match.begin, 1u);
  EXPECT_EQ(match.end, 3u);  // the last space belongs to the next word
}

TEST(Regex, RewritesSetsInsideAndOutsideClasses) {
  EXPECT_EQ(detail::rewrite_pattern(R"(\s[^\s])", "test"),
            R"([\x09-\x0D\x20\x{85}\p{Z}][^\x09-\x0D\x20\x{85}\p{Z}])");
  EXPECT_EQ(detail::rewrite_pattern(R"(\S)", "test"), R"([^\x09-\x0D\x20\x{85}\p{Z}])");
  EXPECT_EQ(detail::rewrite_pattern(R"(\p{Lt}[]\]a]\\s)", "test"), R"([\p{Lt}][]\]a]\\s)");
  EXPECT_EQ(detail::rewrite_pattern(R"([\p{Han}])", "test").rfind(R"([\p{sc:Han}\x{)", 0), 0u);
}

// All matches of the pattern in the text.
std::vector<std::string> matches(const std::string& pattern, const std::string& text,
                                 Regex::Dialect dialect = Regex::Dialect::oniguruma) {
  const Regex regex(pattern, "test", dialect);
  Regex::Searcher searcher(regex);
  std::vector<std::string> out;
  Regex::Match match;
  for (std::size_t at = 0; at < text.size() && searcher.find(text, at, match);
       at = std::max(match.end, match.begin + 1))
    out.push_back(text.substr(match.begin, match.end - match.begin));
  return out;
}

using Matches = std::vector<std::string>;

TEST(Regex, ClassesMayBeIntersectedAndNested) {
  for (const Regex::Dialect dialect : {Regex::Dialect::oniguruma, Regex::Dialect::fancy_regex}) {
    EXPECT_EQ(matches(R"([\p{L}&&[^\p{Han}]]+)",
                      "ab\xe4\xb8\xad"
                      "c1",
                      dialect),
              (Matches{"ab", "c"}));
    EXPECT_EQ(matches("[a-f&&c-z]+", "abcdefgh", dialect), (Matches{"cdef"}));
    EXPECT_EQ(matches("[^a-f&&c-z]+", "abcdefgh", dialect), (Matches{"ab", "gh"}));
    EXPECT_EQ(matches("[a-c[x-z]]+", "abxm", dialect), (Matches{"abx"}));
    EXPECT_EQ(matches("[^a-c[x-z]]+", "abxmn", dialect), (Matches{"mn"}));
    EXPECT_EQ(matches("[a-z&&[^aeiou]&&[^x-z]]+", "hello xyz", dialect), (Matches{"h", "ll"}));
    EXPECT_EQ(matches(R"([\S&&[^a]]+)", "ba c", dialect), (Matches{"b", "c"}));
    EXPECT_EQ(matches(R"([^\S\n]+)", "a \n\tb", dialect), (Matches{" ", "\t"}));
    EXPECT_EQ(matches(R"([a\]&&[^b]]+)", "a]b", dialect), (Matches{"a]"}));
  }
  EXPECT_EQ(matches("[a-z--aeiou]+", "hello", Regex::Dialect::fancy_regex), (Matches{"h", "ll"}));
}

TEST(Regex, RefusesClassesThatItCannotRead) {
  const auto error = [](const std::string& pattern) {
    try {
      Regex(pattern, "test", Regex::Dialect::fancy_regex);
    } catch (const UserError& e) {
      EXPECT_EQ(e.code(), ExitCode::checkpoint);
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(error("[a~~b]"), ::testing::HasSubstr("'~~' inside a class in a pattern"));
  EXPECT_THAT(error("[[:alpha:]]"), ::testing::HasSubstr("a class '[:name:]' in a pattern"));
  EXPECT_THAT(error("[a&&]"), ::testing::HasSubstr("an operator without a set on both sides"));
  EXPECT_THAT(error("[a[b]"), ::testing::HasSubstr("a class without its ']'"));
  EXPECT_THAT(error(std::string(70, '[') + "a"),
              ::testing::HasSubstr("a class inside more than 64"));
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
