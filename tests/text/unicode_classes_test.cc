// Character classes contain the same code points as in the reference's engine (Unicode 16), and
// normalizers change the same ones.
#include <gtest/gtest.h>

#include "core/json.h"
#include "core/utf8.h"
#include "support/goldens.h"
#include "text/characters.h"
#include "text/hf/normalizer.h"
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

using Step = Normalizer::Step;

// Results of tokenizers 0.23.3 for the code points from 1 to 0x2ffff.
struct FormOfReference {
  Step step;
  std::int64_t num_changed, sum_of_changed;  // alone
  std::int64_t bytes_among_marks;            // of all results together
};
const FormOfReference kForms[] = {
    {Step::nfc, 1120, 139119398, 1879499},      {Step::nfd, 13232, 699342306, 1947220},
    {Step::nfkc, 4794, 376657991, 1876503},     {Step::nfkd, 16894, 936805002, 1945270},
    {Step::lowercase, 1488, 36394052, 1879907}, {Step::strip_accents, 1857, 66589571, 1095813},
};

TEST(UnicodeForms, ChangeTheSameCharactersAsInTheReference) {
  for (const FormOfReference& form : kForms) {
    const Normalizer normalizer(std::vector<Step>{form.step});
    std::int64_t num_changed = 0, sum_of_changed = 0, bytes = 0;
    for (char32_t code = 1; code < 0x30000; ++code) {
      if (code >= 0xd800 && code < 0xe000) continue;
      std::string text;
      utf8_append(text, code);
      if (normalizer.normalize(text) != text) {
        ++num_changed;
        sum_of_changed += code;
      }
      bytes += std::ssize(normalizer.normalize("a\u0323" + text + "\u0301b"));
    }
    SCOPED_TRACE(static_cast<int>(form.step));
    EXPECT_EQ(num_changed, form.num_changed);
    EXPECT_EQ(sum_of_changed, form.sum_of_changed);
    EXPECT_EQ(bytes, form.bytes_among_marks);
  }
}

// Results of tokenizers 0.23.3.
TEST(UnicodeForms, HaveTheVersionsOfTheReference) {
  const auto with = [](Step step, std::string_view text) {
    return Normalizer(std::vector<Step>{step}).normalize(text);
  };
  EXPECT_EQ(with(Step::nfkc, "\u32fe\u32ff"), "\u30f2\u32ff");  // of Unicode 12
  EXPECT_EQ(with(Step::nfkc, "\u32ff\u0301"), "\u32ff\u0301");
  EXPECT_EQ(with(Step::nfd, "a\u0afe\u0323\u0301"), "a\u0afe\u0323\u0301");
  EXPECT_EQ(with(Step::nfc, "a\u1df6\u0301"), "a\u1df6\u0301");
  EXPECT_EQ(with(Step::strip_accents, "a\u0301\u0afe\u1cf2"), "a\u0afe");
  EXPECT_EQ(with(Step::lowercase, "\ua7cb\u1c89"), "\u0264\u1c8a");  // of Unicode 16
}

}  // namespace
}  // namespace lamina::text
