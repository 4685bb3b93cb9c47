// Patterns of Python's re: the matches of re.findall().
#include "text/python_pattern.h"

#include <gtest/gtest.h>

#include "text/regex.h"

namespace lamina::text {
namespace {

bool matches_whole(const std::string& pattern, const std::string& text) {
  const Regex regex("^(?:" + from_python(pattern) + ")$", "test", Regex::Dialect::fancy_regex);
  Regex::Match match{};
  return Regex::Searcher(regex).find(text, 0, match);
}

TEST(PythonPattern, ARepetitionMayHaveNoMinimum) {
  for (const char* pattern : {R"(layers\.\d{,2}\.mlp)", R"(layers\.\d{,}\.mlp)"}) {
    EXPECT_TRUE(matches_whole(pattern, "layers.12.mlp")) << pattern;
    EXPECT_TRUE(matches_whole(pattern, "layers..mlp")) << pattern;
    EXPECT_FALSE(matches_whole(pattern, "layers.x.mlp")) << pattern;
  }
  EXPECT_FALSE(matches_whole(R"(layers\.\d{,2}\.mlp)", "layers.123.mlp"));
  EXPECT_TRUE(matches_whole(R"(layers\.\d{,}\.mlp)", "layers.123.mlp"));
}

TEST(PythonPattern, OtherBracesStay) {
  for (const char* pattern : {"a{2}", "a{1,}", "a{1,3}?", R"(\{,2})", "[]{,2}]+", "[^]{,2}]",
                              "{,x}", "a{,2", R"([\]{,2}])", "a\\"})
    EXPECT_EQ(from_python(pattern), pattern);
  EXPECT_EQ(from_python("[a{]{,2}b"), "[a{]{0,2}b");
}

}  // namespace
}  // namespace lamina::text
