#include "text/regex_sets.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <fmt/format.h>

#include <algorithm>

#include "text/unicode_additions.h"

namespace lamina::text {
namespace {

// Names that PCRE2 lacks, and short names of scripts with additions, in comparable form.
struct OtherName {
  std::string_view name, usual;
};
constexpr OtherName kOtherNames[] = {
    {"alpha", "Alphabetic"},
    {"arab", "Arabic"},
    {"casedletter", "LC"},
    {"closepunctuation", "Pe"},
    {"cntrl", "Cc"},
    {"combiningmark", "M"},
    {"connectorpunctuation", "Pc"},
    {"control", "Cc"},
    {"currencysymbol", "Sc"},
    {"cyrl", "Cyrillic"},
    {"dashpunctuation", "Pd"},
    {"decimalnumber", "Nd"},
    {"digit", "Nd"},
    {"enclosingmark", "Me"},
    {"finalpunctuation", "Pf"},
    {"format", "Cf"},
    {"hani", "Han"},
    {"hira", "Hiragana"},
    {"initialpunctuation", "Pi"},
    {"kana", "Katakana"},
    {"latn", "Latin"},
    {"letter", "L"},
    {"letternumber", "Nl"},
    {"lineseparator", "Zl"},
    {"lowercaseletter", "Ll"},
    {"mark", "M"},
    {"mathsymbol", "Sm"},
    {"modifierletter", "Lm"},
    {"modifiersymbol", "Sk"},
    {"nonspacingmark", "Mn"},
    {"number", "N"},
    {"openpunctuation", "Ps"},
    {"other", "C"},
    {"otherletter", "Lo"},
    {"othernumber", "No"},
    {"otherpunctuation", "Po"},
    {"othersymbol", "So"},
    {"paragraphseparator", "Zp"},
    {"privateuse", "Co"},
    {"punct", "P"},
    {"punctuation", "P"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"spacingmark", "Mc"},
    {"surrogate", "Cs"},
    {"symbol", "S"},
    {"titlecaseletter", "Lt"},
    {"unassigned", "Cn"},
    {"uppercaseletter", "Lu"},
};

// Names are compared without their case and without spaces, "_" and "-".
std::string comparable(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != ' ' && c != '_' && c != '-')
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::string_view additions(std::string_view name) {
  const std::string wanted = comparable(name);
  for (const UnicodeAdditions& added : kUnicodeAdditions)
    if (comparable(added.category) == wanted) return added.ranges;
  return "";
}

bool pcre2_has(const std::string& property) {
  const std::string pattern = fmt::format("\\p{{{}}}", property);
  int error = 0;
  std::size_t offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  if (!code) return false;
  pcre2_code_free(code);
  return true;
}

std::string set_of(std::string_view usual) {
  const std::string script = fmt::format("sc:{}", usual);
  std::string out =
      fmt::format("\\p{{{}}}{}", pcre2_has(script) ? script : usual, additions(usual));
  if (comparable(usual) == "alphabetic") out += additions("L");
  return out;
}

}  // namespace

std::string word_characters() {
  constexpr std::string_view kCircledLetters =
      "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";
  std::string out = "\\p{Nl}\\p{Pc}";
  for (const std::string_view category : {"L", "M", "Nd"})
    out += fmt::format("\\p{{{}}}{}", category, additions(category));
  return out.append(kCircledLetters);
}

std::optional<CharacterSet> property_set(std::string_view name, Regex::Dialect dialect) {
  if (const std::size_t sign = name.find_first_of("=:"); sign != name.npos) {
    if (dialect == Regex::Dialect::oniguruma) return std::nullopt;
    const std::string kind = comparable(name.substr(0, sign));
    name.remove_prefix(sign + 1);
    if (kind == "scx" || kind == "scriptextensions") {
      const std::string property = fmt::format("scx:{}", name);
      if (!pcre2_has(property)) return std::nullopt;
      return CharacterSet{fmt::format("\\p{{{}}}", property), false};
    }
    if (kind != "sc" && kind != "script" && kind != "gc" && kind != "generalcategory")
      return std::nullopt;
  }
  const std::string key = comparable(name);
  const auto other = std::ranges::find(kOtherNames, key, &OtherName::name);
  if (other != std::end(kOtherNames)) name = other->usual;
  // "^" would be a negation.
  if (name.find_first_of("^=:") != name.npos || !pcre2_has(std::string(name))) return std::nullopt;
  // PCRE2's unassigned characters without the ones that have a category now.
  if (const std::string usual = comparable(name); usual == "c" || usual == "cn") {
    std::string others = fmt::format("\\P{{{}}}", name);
    for (const std::string_view category : {"L", "M", "N", "P", "S"}) others += additions(category);
    if (usual == "cn") others += additions("Cf");
    return CharacterSet{std::move(others), true};
  }
  return CharacterSet{set_of(name), false};
}

bool depends_on_case(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "ll", "lower",           "lowercase", "lowercaseletter", "lt",
      "lu", "titlecaseletter", "upper",     "uppercase",       "uppercaseletter"};
  return std::ranges::find(kNames, comparable(name.substr(name.find_first_of("=:") + 1))) !=
         std::end(kNames);
}

std::optional<std::string> bracket_set(std::string_view name) {
  if (name == "alnum") return set_of("Alphabetic") + set_of("Nd");
  if (name == "alpha") return set_of("Alphabetic");
  if (name == "ascii") return "\\x00-\\x7F";
  if (name == "blank") return "\\x09\\p{Zs}";
  if (name == "cntrl") return "\\p{Cc}";
  if (name == "digit") return set_of("Nd");
  if (name == "punct") return set_of("P") + set_of("S");
  if (name == "space") return std::string(kSpaceSet);
  if (name == "word") return word_characters();
  if (name == "xdigit") return std::string(kHexDigitSet);
  return std::nullopt;
}

}  // namespace lamina::text
