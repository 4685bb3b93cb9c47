// Splits of published patterns, compared with Oniguruma, the engine of the reference tokenizer, on
// random characters.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <random>
#include <set>

#include "core/json.h"
#include "core/utf8.h"
#include "publishers/tokenizer_classes.h"
#include "support/goldens.h"
#include "text/oniguruma.h"
#include "text/regex.h"

namespace lamina::text {
namespace {

namespace fs = std::filesystem;

std::string utf8(char32_t c) {
  std::string out;
  utf8_append(out, c);
  return out;
}

Matches our_matches(const Regex& regex, const std::string& text) {
  Matches out;
  Regex::Searcher searcher(regex);
  Regex::Match match;
  for (std::size_t at = 0; at < text.size() && searcher.find(text, at, match); at = match.end) {
    if (match.begin == match.end) break;
    out.emplace_back(match.begin, match.end);
  }
  return out;
}

// The patterns of all "Regex" objects.
void collect(const JsonValue& value, std::set<std::string>& out) {
  if (value.is_array())
    for (const JsonValue element : value.elements()) collect(element, out);
  if (!value.is_object()) return;
  for (const auto& [key, inner] : value.members())
    if (key == "Regex" && inner.is_string())
      out.emplace(inner.as_string());
    else if (key != "vocab" && key != "merges")
      collect(inner, out);
}

std::set<std::string> published_patterns() {
  std::set<std::string> out;
  for (const fs::path& folder : lamina::testing::golden_folders("tokenizers", "tokenizer.json")) {
    const JsonDocument file = JsonDocument::read(folder / "tokenizer.json");
    for (const char* part : {"pre_tokenizer", "normalizer"})
      if (const JsonValue found = file.root().find(part)) collect(found, out);
  }
  return out;
}

// Random characters, many of them of the classes that patterns distinguish. Both engines must have
// the character: their tables come from different versions of Unicode, which
// unicode_classes_test.cc tests.
class Texts {
 public:
  std::string next() {
    std::string out;
    for (std::size_t n = 1 + random_() % 24; n > 0; --n) out += character();
    return out;
  }

 private:
  std::string character() {
    static constexpr const char* kOften[] = {
        " ",  "  ",      "\n", "\r\n", "\t", "'s",     "'LL",    "'re",    "'",      "a",
        "Zz", "1",       "23", "4567", ".",  "!?",     "_",      "/",      "\u00a0", "\u3000",
        "é",  "e\u0301", "漢", "あ",   "Ж",  "\u0661", "\u00bd", "\u01c5", "\u200d", "\U0001f600"};
    if (random_() % 4 != 0) return kOften[random_() % std::size(kOften)];
    for (;;) {
      // Equal probability for the characters below 0x3000 and for the first three planes.
      const char32_t limit = random_() % 2 ? 0x3000 : 0x30000;
      const char32_t c = random_() % limit;
      if (c == 0 || (c >= 0xd800 && c < 0xe000)) continue;
      std::string text = utf8(c);
      if (unassigned_.matches(text).empty()) return text;
    }
  }

  std::mt19937 random_{20240607};
  Oniguruma unassigned_{"\\p{Cn}"};
};

std::vector<std::string> random_texts() {
  Texts texts;
  std::vector<std::string> out;
  for (int i = 0; i < 4000; ++i) out.push_back(texts.next());
  return out;
}

void expect_same_splits(const std::string& pattern, const std::vector<std::string>& texts) {
  const Oniguruma reference(pattern);
  const Regex ours(pattern, "test");
  int different = 0;
  for (const std::string& text : texts) {
    if (our_matches(ours, text) == reference.matches(text)) continue;
    if (++different > 3) break;
    ADD_FAILURE() << pattern << "\n"
                  << ::testing::PrintToString(text) << "\nours "
                  << ::testing::PrintToString(our_matches(ours, text)) << "\nOniguruma "
                  << ::testing::PrintToString(reference.matches(text));
  }
}

TEST(RegexDifferential, PublishedPatternsSplitAsOnigurumaDoes) {
  const std::set<std::string> patterns = published_patterns();
  ASSERT_FALSE(patterns.empty());
  const std::vector<std::string> texts = random_texts();
  for (const std::string& pattern : patterns) expect_same_splits(pattern, texts);
}

// Classes of classes: unions, intersections and complements of a few sets, to a depth of 3.
std::string random_class(std::mt19937& random, int depth) {
  static constexpr const char* kSets[] = {"a-z", "\\p{L}", "\\p{Han}", "\\p{N}", "\\s", "\\S",
                                          "'",   "\\P{L}", "\\p{M}",   "\\r\\n", "e",   "1-3"};
  std::string out = random() % 3 == 0 ? "[^" : "[";
  for (unsigned operands = 1 + random() % 2; operands > 0; --operands) {
    for (unsigned items = 1 + random() % 2; items > 0; --items)
      out += depth > 0 && random() % 3 == 0 ? random_class(random, depth - 1)
                                            : kSets[random() % std::size(kSets)];
    if (operands > 1) out += "&&";
  }
  return out + "]";
}

TEST(RegexDifferential, ClassesOfClassesSplitAsOnigurumaDoes) {
  const std::vector<std::string> texts = random_texts();
  expect_same_splits(std::string(publishers::splitting_rules("kimi-k2").patterns[0]), texts);
  std::mt19937 random(29);
  for (int i = 0; i < 200; ++i)
    expect_same_splits(random_class(random, 2) + "+", {texts.begin(), texts.begin() + 200});
}

// [:alpha:] and [:punct:] have other characters in Oniguruma 6.9.8 than in the reference's version:
// regex_test.cc tests them.
TEST(RegexDifferential, NamedSetsSplitAsOnigurumaDoes) {
  const std::vector<std::string> texts = random_texts();
  for (const char* set : {"\\p{Hiragana}",
                          "\\p{Katakana}",
                          "\\p{Latin}",
                          "\\p{Greek}",
                          "\\p{Cyrillic}",
                          "\\p{Arabic}",
                          "\\p{Hebrew}",
                          "\\p{Devanagari}",
                          "\\p{Bengali}",
                          "\\p{Thai}",
                          "\\p{Hangul}",
                          "\\p{Han}",
                          "\\p{Common}",
                          "\\p{Inherited}",
                          "\\P{Latin}",
                          "\\p{^Greek}",
                          "\\p{Grek}",
                          "\\p{Letter}",
                          "\\p{Uppercase_Letter}",
                          "\\p{Punct}",
                          "\\p{Symbol}",
                          "\\h",
                          "\\H",
                          "\\u0661",
                          "(?m:.)",
                          "[[:ascii:]]",
                          "[[:blank:]]",
                          "[[:cntrl:]]",
                          "[[:digit:]]",
                          "[[:space:]]",
                          "[[:word:]]",
                          "[[:xdigit:]]"})
    expect_same_splits(std::string(set) + "+", texts);
}

}  // namespace
}  // namespace lamina::text
