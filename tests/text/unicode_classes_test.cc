// Character classes contain the same code points as in the reference's engine (Unicode 16).
#include <gtest/gtest.h>

#include "core/json.h"
#include "core/utf8.h"
#include "support/goldens.h"
#include "text/characters.h"
#include "text/regex.h"

namespace lamina::text {
namespace {

bool matches(Regex::Searcher& searcher, char32_t code) {
  std::string text;
  utf8_append(text, code);
  Regex::Match match;
  return searcher.find(text, 0, match) && match.end == text.size();
}

TEST(UnicodeClasses, HoldTheSameCharactersAsInTheReference) {
  const auto file = lamina::testing::golden_dir() / "tokenizers" / "unicode_classes.json";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no " << file;
  const JsonDocument classes = JsonDocument::read(file);
  for (JsonValue item : classes.root().at("classes").elements()) {
    const std::string name(item.at("class").as_string());
    std::vector<bool> expected(0x110000);
    for (JsonValue range : item.at("ranges").elements()) {
      auto bound = range.elements().begin();
      const std::int64_t first = (*bound).as_int64(), last = (*++bound).as_int64();
      for (std::int64_t c = first; c <= last; ++c) expected[static_cast<std::size_t>(c)] = true;
    }
    const Regex inside("[" + name + "]", "test"), outside(name, "test"),
        negated("[^" + name + "]", "test");
    Regex::Searcher a(inside), b(outside), c(negated);
    std::string differences;
    for (char32_t code = 0; code < 0x110000; ++code) {
      if (code >= 0xd800 && code < 0xe000) continue;
      const bool wanted = expected[code];
      // Oniguruma's \w has the powers and fractions of Latin-1 outside of classes only.
      const bool in_class =
          wanted && (name != "\\w" ||
                     std::u32string_view(U"\u00b2\u00b3\u00b9\u00bc\u00bd\u00be").find(code) ==
                         std::u32string_view::npos);
      const bool same = matches(a, code) == in_class && matches(b, code) == wanted &&
                        matches(c, code) != in_class &&
                        (name != "\\s" || is_space(code) == wanted) &&
                        (name != "\\p{N}" || is_numeric(code) == wanted);
      if (!same) differences += fmt::format(" {:x}", static_cast<unsigned>(code));
    }
    EXPECT_EQ(differences, "") << name;
  }
}

}  // namespace
}  // namespace lamina::text
