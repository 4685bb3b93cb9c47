#include "core/error.h"

namespace lamina {
namespace {

std::string format_error(const ErrorText& text) {
  std::string out = first_line(text);
  for (const std::string& note : text.notes) out += "\n  " + note;
  return out;
}

}  // namespace

std::string first_line(const ErrorText& text) {
  return text.where.empty() ? text.what : text.where + ": " + text.what;
}

Error::Error(ExitCode code, ErrorText text)
    : code_(code), text_(std::move(text)), formatted_(format_error(text_)) {}

namespace detail {

void assertion_failed(const char* expression, const char* file, int line) {
  std::string_view path = file;
  if (auto at = path.rfind("host/"); at != path.npos) path.remove_prefix(at);
  throw InternalError(
      {"assertion failed",
       expression,
       {fmt::format("{}:{}; please report with the output of `lamina explain`", path, line)}});
}

}  // namespace detail
}  // namespace lamina
