// The conformance kit: the rules for plugins, as executable checks.
//
//   for (const Check& check : all_checks()) ... run_check(check, plugin) ...
//
// docs/plugin_check.md explains each of them. `lamina plugin check` runs each in a separate process
// (process/runner.h); our own tests call the functions behind them.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace lamina::conformance {

enum class Level { quick, full, pedantic };
std::string_view name(Level level);

// The finding of a check: the error, and what would be right.
class Failure : public std::exception {
 public:
  explicit Failure(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// There is nothing to check; has the reason. It is not a pass.
class Skipped : public Failure {
 public:
  using Failure::Failure;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
[[noreturn]] void skip(fmt::format_string<Args...> format, Args&&... args) {
  throw Skipped(fmt::format(format, std::forward<Args>(args)...));
}

class PluginSubject;
class FamilySubject;

// Another environment in which the check is repeated; the plugin must do the same there.
enum class Again {
  no,
  other_process,  // elsewhere in memory, with other variables
  hostile,        // no HOME, a small stack, another language, standard descriptors closed
};

struct Check {
  std::string_view id;     // "TRC-2"
  Level level;             // the lowest that includes it
  std::string_view rules;  // in docs/plugin_requirements.md: "M-6", "C-1, C-2"
  std::string_view what;   // one sentence
  // Some of these, in this order. They return if the plugin conforms, else throw Failure.
  void (*of_file)(const std::filesystem::path& file) = nullptr;  // runs no code of it
  void (*of_plugin)(const PluginSubject& plugin) = nullptr;
  void (*of_family)(const FamilySubject& family) = nullptr;
  std::string_view cannot = {};  // the reason why this host cannot check it
  Again again = Again::no;
  bool needs_golden = false;  // included at every level if a golden case is given
};

// In the order of execution.
std::span<const Check> all_checks();
// Null if there is none.
const Check* find_check(std::string_view id);

}  // namespace lamina::conformance
