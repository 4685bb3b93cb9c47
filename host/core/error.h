// The four classes of error, their exit codes, and the common form of their text:
//
//   error: <where>: <what is wrong, with the value>; <what would be right>
//     <where it came from: file:line of config or model.cc>
//     <what to do, if we know>
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace lamina {

// Exit codes of the program (documented in docs/exit_codes.md and `lamina --help`).
enum class ExitCode : int {
  ok = 0,
  unclassified = 1,
  usage = 2,
  numerical = 3,
  checkpoint = 4,
  data = 5,
  communication = 6,
  memory = 7,
  plugin = 8,
  resumable = 75,
  interrupted = 130,
  terminated = 143,
};

// Contents of every error. `where` is a file:line, an op, a key or a component.
struct ErrorText {
  std::string where;
  std::string what;
  std::vector<std::string> notes;  // origin first, then what to do; printed indented, one per line
};

// Returns "where: what", for a note or a log line about another error.
std::string first_line(const ErrorText& text);

class Error : public std::exception {
 public:
  Error(ExitCode code, ErrorText text);
  const char* what() const noexcept override { return formatted_.c_str(); }
  ExitCode code() const { return code_; }
  const ErrorText& text() const { return text_; }

 private:
  ExitCode code_;
  ErrorText text_;
  std::string formatted_;
};

// Bad input: a config, a checkpoint, a prompt, a flag. The code says which kind.
class UserError : public Error {
 public:
  using Error::Error;
};

// A plugin broke the contract of plugin_api (exit 8).
class PluginError : public Error {
 public:
  explicit PluginError(ErrorText text) : Error(ExitCode::plugin, std::move(text)) {}
};

// Hardware, driver or operating system refused.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// Our bug. The only class whose text says "please report".
class InternalError : public Error {
 public:
  explicit InternalError(ErrorText text) : Error(ExitCode::unclassified, std::move(text)) {}
};

// Shorthands: user_error(ExitCode::data, where, "got {}", n) throws a UserError.
template <typename... Args>
[[noreturn]] void user_error(ExitCode code, std::string_view where,
                             fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(code, {std::string(where), fmt::format(format, std::forward<Args>(args)...), {}});
}

namespace detail {
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);
}

}  // namespace lamina

// Checks an internal invariant in every build. User input must never violate one.
#define LAMINA_ASSERT(expression) \
  ((expression) ? void(0) : ::lamina::detail::assertion_failed(#expression, __FILE__, __LINE__))
