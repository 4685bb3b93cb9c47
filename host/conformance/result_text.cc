#include "conformance/result_text.h"

#include <algorithm>
#include <cctype>

#include "conformance/process/runner.h"
#include "core/printable.h"
#include "lamina/abi.h"

namespace lamina::conformance {
namespace {

// The lines of a finding below its first one.
std::string indented(const std::string& text) {
  std::string out;
  for (const char c : printable_lines(text)) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

// Some text comes from plugins: removes terminal control characters and line breaks.
std::string in_one_line(const std::string& text) {
  std::string out;
  for (const char c : printable_lines(text)) {
    const bool begins_line = out.ends_with("; ");
    if (c == '\n')
      out += "; ";
    else if (!(begins_line && c == ' '))
      out += c;
  }
  return out;
}

}  // namespace

std::string result_text(const Result& result, const PluginSubject& plugin, bool color) {
  const Check& check = *result.check;
  const bool bad = result.outcome != Outcome::pass && result.outcome != Outcome::skip;
  std::string word = result.outcome == Outcome::pass ? "ok" : std::string(name(result.outcome));
  if (bad) std::ranges::transform(word, word.begin(), [](char c) { return std::toupper(c); });
  word = fmt::format("{:<7}", word);
  if (color && bad) word = "\033[1;31m" + word + "\033[0m";
  if (!bad && result.text.empty()) return fmt::format("{}  {}  {}\n", check.id, word, check.what);
  if (!bad)
    return fmt::format("{}  {}  {} ({})\n", check.id, word, check.what, in_one_line(result.text));
  std::vector<std::string> words = replay_words(check, plugin);
  std::erase(words, "--json");
  return fmt::format("{}  {}  {}\n  [{}]  replay: lamina {}\n", check.id, word,
                     indented(result.text), check.rules, fmt::join(words, " "));
}

std::string verdict_text(const Summary& summary, const PluginSubject& plugin) {
  std::string out =
      fmt::format("{} plugin ABI {}.{} at level {}: {} passed",
                  summary.conforms ? "conforms to" : "does not conform to", LAMINA_ABI_MAJOR,
                  LAMINA_ABI_MINOR, name(plugin.settings().level), summary.passed);
  if (!summary.failed.empty())
    out += fmt::format(", {} failed ({})", summary.failed.size(), fmt::join(summary.failed, ", "));
  if (!summary.skipped.empty())
    out +=
        fmt::format(", {} skipped ({})", summary.skipped.size(), fmt::join(summary.skipped, ", "));
  out += "\n";
  if (plugin.settings().goldens.empty())
    out +=
        "without a golden case (--golden) no check can find exchanged names, transposed squares "
        "and other faults that only numbers of the original show\n";
  return out;
}

}  // namespace lamina::conformance
