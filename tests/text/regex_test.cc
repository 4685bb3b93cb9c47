// Patterns have the same meaning as in the reference's engine.
#include "text/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

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

// The splits of tokenizers 0.23.3.
TEST(Regex, WordsDigitsAndBoundariesAreOnigurumas) {
  EXPECT_EQ(matches(R"(\w+)", "e\u0301x_1 \u2160\u24b6"), (Matches{"e\u0301x_1", "\u2160\u24b6"}));
  // Powers and fractions of Latin-1 are words outside of classes only.
  EXPECT_EQ(matches(R"(\w+)", "a\u00b2\u00bd b\u2075"), (Matches{"a\u00b2\u00bd", "b"}));
  EXPECT_EQ(matches(R"([\w]+)", "a\u00b2\u00bd b\u2075"), (Matches{"a", "b"}));
  EXPECT_EQ(matches(R"(\W+)", "a\u00b2 \u2075b"), (Matches{" \u2075"}));
  EXPECT_EQ(matches(R"([\W\d]+)", "a\u00b2 1b"), (Matches{"\u00b2 1"}));
  EXPECT_EQ(matches(R"([^\w\s]+)", "a\u0301!? b"), (Matches{"!?"}));
  EXPECT_EQ(matches(R"(\d+|\D+)", "12\u0663\U000116d0\u00b2x"),
            (Matches{"12\u0663\U000116d0", "\u00b2x"}));
  EXPECT_EQ(matches(R"(\bx)", "x ax \u0301x x"), (Matches{"x", "x"}));
  EXPECT_EQ(matches(R"(\Bx)", "x ax \u0301x x"), (Matches{"x", "x"}));
  EXPECT_EQ(matches(R"(\d{1,3}(?=(?:\d{3})*\b))", "1234567 89a"), (Matches{"1", "234", "567"}));
  EXPECT_EQ(matches(R"(\v)", "a\n\v\r"), (Matches{"\v"}));
  EXPECT_EQ(matches(R"([\v]+)", "a\n\v\r"), (Matches{"\v"}));
}

// The splits of tiktoken 0.14, whose expressions are Rust's.
TEST(Regex, WordsDigitsAndBoundariesOfTiktokenAreRusts) {
  const auto split = [](const char* pattern, const char* text) {
    return matches(pattern, text, Regex::Dialect::fancy_regex);
  };
  EXPECT_EQ(split(R"(\w+|\W+)", "e\u0301x_\u200d\u24b6 a\u00b2"),
            (Matches{"e\u0301x_\u200d\u24b6", " ", "a", "\u00b2"}));
  EXPECT_EQ(split(R"(\d+|\D+)", ".\U00010d40\u0663\u00b2"),
            (Matches{".", "\U00010d40\u0663", "\u00b2"}));
  EXPECT_EQ(split(R"([^\w\s]+)", "-\u00b2 a\u0301"), Matches{"-\u00b2"});
  EXPECT_EQ(split(R"([\w--\d]+)", "K\U00016d401"), Matches{"K\U00016d40"});
  EXPECT_EQ(split(R"([\W\d]+)", "\t\u00b21a"), Matches{"\t\u00b21"});
  EXPECT_EQ(split(R"(\bx)", "x ax \u0301x x"), (Matches{"x", "x"}));
  EXPECT_EQ(split(R"(\Bx)", "x ax \u0301x x"), (Matches{"x", "x"}));
}

// U+16D40 is a letter and U+1343A a format character since Unicode 15 and 16; U+0378 is unassigned.
TEST(Regex, UnassignedCharactersAreUnicode16s) {
  const std::string text = "1\U00016d40\U0001343a\u0378\u200d";
  for (const Regex::Dialect dialect : {Regex::Dialect::oniguruma, Regex::Dialect::fancy_regex}) {
    EXPECT_EQ(matches(R"(\p{Cn}+)", text, dialect), Matches{"\u0378"});
    EXPECT_EQ(matches(R"(\p{C}+)", text, dialect), Matches{"\U0001343a\u0378\u200d"});
    EXPECT_EQ(matches(R"(\p{Cf}+)", text, dialect), (Matches{"\U0001343a", "\u200d"}));
    EXPECT_EQ(matches(R"([\P{Other}\p{Unassigned}]+)", text, dialect),
              (Matches{"1\U00016d40", "\u0378"}));
  }
}

// PCRE2 reads a script without "sc:" as Script_Extensions, which have U+30FC and U+0640; the script
// of both is Common.
TEST(Regex, ScriptsAreNotTheirExtensions) {
  using enum Regex::Dialect;
  const std::string text = "\u3042\u30fc\u30a2";
  for (const char* name : {"\\p{Hiragana}", "\\p{hira}", "[\\p{ Hira-Gana }]", "\\P{^Hiragana}"})
    for (const Regex::Dialect dialect : {oniguruma, fancy_regex})
      EXPECT_EQ(matches(name, text, dialect), Matches{"\u3042"}) << name;
  for (const char* name : {"\\P{Katakana}+", "[\\p{^Katakana}]+", "[^\\p{Katakana}]+"})
    EXPECT_EQ(matches(name, text), Matches{"\u3042\u30fc"}) << name;
  for (const char* name : {"\\p{Script=Katakana}", "\\p{sc=kana}", "\\p{sc:Katakana}"})
    EXPECT_EQ(matches(name, text, fancy_regex), Matches{"\u30a2"}) << name;
  EXPECT_EQ(matches("\\p{scx=Katakana}+", text, fancy_regex), Matches{"\u30fc\u30a2"});
  EXPECT_EQ(matches("\\p{Syriac}", "\u0640\u0710"), Matches{"\u0710"});
  EXPECT_EQ(matches("\\p{Cyrillic}", "\U0001e08f"), Matches{"\U0001e08f"});
}

TEST(Regex, CategoriesHaveLongNames) {
  using enum Regex::Dialect;
  for (const char* name : {"\\p{Lu}", "\\p{lu}", "\\p{Uppercase_Letter}", "\\p{uppercase letter}"})
    for (const Regex::Dialect dialect : {oniguruma, fancy_regex})
      EXPECT_EQ(matches(name, "aB\u1c89", dialect), (Matches{"B", "\u1c89"})) << name;
  EXPECT_EQ(matches("\\p{gc=Letter}+", "1\u1c89b", fancy_regex), Matches{"\u1c89b"});
  EXPECT_EQ(matches("\\pL+", "1\u1c89b", fancy_regex), Matches{"\u1c89b"});
}

// As tokenizers 0.23.3 has them; [:punct:] includes symbols, \p{Punct} does not.
TEST(Regex, NamedClassesAreOnigurumas) {
  EXPECT_EQ(matches("\\p{Punct}+", "a!$\u3001"), (Matches{"!", "\u3001"}));
  EXPECT_EQ(matches("[[:punct:]]+", "a!$\u3001"), Matches{"!$\u3001"});
  EXPECT_EQ(matches("[[:^alpha:]]+", "a1\u0363!"), (Matches{"1", "!"}));
  EXPECT_EQ(matches("[[:alnum:]_]+", "a\u0661_ b"), (Matches{"a\u0661_", "b"}));
  EXPECT_EQ(matches("[[:word:]&&[^[:digit:]]]+", "a1_"), (Matches{"a", "_"}));
  EXPECT_EQ(matches("[[:blank:]]+", " \t\n\u3000"), (Matches{" \t", "\u3000"}));
  EXPECT_EQ(matches("\\h+|\\H", "fFg \uff11"), (Matches{"fF", "g", " ", "\uff11"}));
  EXPECT_EQ(matches("[\\h-]+", "f-g"), Matches{"f-"});
  EXPECT_EQ(matches("[\\u3040-\\u309f]+|\\u0041", "A\u3042a"), (Matches{"A", "\u3042"}));
  EXPECT_EQ(matches("\\u{3042}", "\u3042", Regex::Dialect::fancy_regex), Matches{"\u3042"});
}

TEST(Regex, TheOptionMOfOnigurumaLetsADotMatchLineEnds) {
  EXPECT_EQ(matches("(?m:a.)|a.", "a\na"), Matches{"a\n"});
  EXPECT_EQ(matches("(?im)A.", "a\na"), Matches{"a\n"});
  EXPECT_EQ(matches("(?m)a(?-m:.)", "a\nab"), Matches{"ab"});
}

TEST(Regex, AnchorsOfOnigurumaAreTheEndsOfLines) {
  EXPECT_EQ(matches(R"(^\w)", "ab\ncd\n\ne"), (Matches{"a", "c", "e"}));
  EXPECT_EQ(matches(R"(\w$)", "ab\ncd\n\ne\n"), (Matches{"b", "d", "e"}));
  EXPECT_EQ(matches(R"(\A\w|\w\z)", "ab\ncd"), (Matches{"a", "d"}));
  EXPECT_EQ(matches("^[a-z]|[a-z]$", "ab\ncd", Regex::Dialect::fancy_regex), (Matches{"a", "d"}));
}

TEST(Regex, ARepeatWithoutALowerLimitBeginsWithZero) {
  EXPECT_EQ(matches("xa{,2}", "xaaa x{,2}"), (Matches{"xaa", "x"}));
  EXPECT_EQ(matches(R"([{,2}]+|\{,2})", "x{,2}"), (Matches{"{,2}"}));
  EXPECT_EQ(matches(R"(\x{61}?b)", "ab b"), (Matches{"ab", "b"}));
}

TEST(Regex, RefusesWhatOnigurumaReadsDifferently) {
  const auto error = [](const std::string& pattern) {
    try {
      Regex(pattern, "test");
    } catch (const UserError& e) {
      EXPECT_EQ(e.code(), ExitCode::checkpoint);
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  for (const auto& [pattern, what] : {std::pair{R"(a\Kb)", R"('\K')"},
                                      {R"(\X)", R"('\X')"},
                                      {R"(\Q.\E)", R"('\Q')"},
                                      {R"(\E)", R"('\E')"},
                                      {R"(\pL)", R"('\p' without '{')"},
                                      {R"([\PL])", R"('\P' without '{')"},
                                      {"a(?i)b|c", "'(?i)' inside a branch"},
                                      {"\\|(?m).", "'(?m)' inside a branch"},
                                      {R"(\p{Graph})", "the property 'Graph'"},
                                      {R"(\p{sc=Han})", "the property 'sc=Han'"},
                                      {"[[:graph:]]", "a class '[:graph:]'"},
                                      {R"(\u30)", R"('\u' without hexadecimal digits)"},
                                      {"(?is:.+)", "the option 's' of a group"},
                                      {"a{2}?", "'?' after '{N}'"},
                                      {"(?i:[\\p{Lu}])", "the property 'Lu' with the option i"},
                                      {"a{1,2}+", "'}+'"}})
    EXPECT_THAT(error(pattern), ::testing::HasSubstr(std::string("test: ") + what +
                                                     " in a pattern is not supported"))
        << pattern;
  EXPECT_EQ(error("(?i)a|(?i)b|((?m).)|(?i:'s)|(?<s>a)(?<!m)(?:s)(?=m)|\\(?m"), "accepted");
  std::string boundaries;
  for (int i = 0; i < 30000; ++i) boundaries += "\\b";
  EXPECT_THAT(error(boundaries), ::testing::HasSubstr("more than 4194304 bytes of character sets"));
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
  EXPECT_THAT(error("[[:alpha:]]"), ::testing::HasSubstr("a class '[:alpha:]' in a pattern"));
  for (const char* escape : {R"(\h)", R"(\<)", R"(\>)"})
    EXPECT_THAT(error(escape), ::testing::HasSubstr(fmt::format("'{}' in a pattern", escape)));
  EXPECT_THAT(error(R"(\b{start}a)"), ::testing::HasSubstr(R"('\b{' in a pattern)"));
  for (const char* pattern : {R"((?i)\p{Lu})", R"((?i:a[\p{Lu}]))", R"((?i:(?-i)a)b(?i)\P{gc=Lu})"})
    EXPECT_THAT(error(pattern), ::testing::HasSubstr("Lu' with the option i in a pattern"));
  for (const char* pattern :
       {R"((?i:'s)|\p{Lu})", R"(((?i)a)\p{Lu})", R"((?i)(?-i:\p{Lu})\pL[\<])"})
    EXPECT_EQ(error(pattern), "accepted") << pattern;
  EXPECT_THAT(error(R"(\u{3040)"), ::testing::HasSubstr(R"('\u' without hexadecimal digits)"));
  EXPECT_THAT(error(R"(\p{gc=Nobody})"), ::testing::HasSubstr("the property 'gc=Nobody'"));
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
