#include "torture/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "torture/campaign.h"

namespace lamina::torture {
namespace {

constexpr std::string_view kError = "error: ";
constexpr std::size_t kShownBytes = 1200;

// True for codes of errors: not of success, saved after a signal, ended by a signal.
bool is_error(int code) { return code != 0 && code < 75; }

// True if stderr has the form of errors; `verify` reports differences (3) in its table.
bool says_why(const Ended& ended) {
  return error_line(ended).size() > kError.size() ||
         (ended.code == 3 && ended.out.find("FAIL") != ended.out.npos);
}

}  // namespace

std::string error_line(const Ended& ended) {
  std::string found;
  for (std::size_t at = 0; at < ended.err.size();) {
    const std::size_t end = std::min(ended.err.find('\n', at), ended.err.size());
    const std::string_view line = std::string_view(ended.err).substr(at, end - at);
    if (line.starts_with(kError)) found = line;
    at = end + 1;
  }
  return found;
}

std::string last_words(const Ended& ended) {
  if (ended.err.size() <= kShownBytes) return ended.err;
  return "..." + ended.err.substr(ended.err.size() - kShownBytes);
}

void expect_end(const Ended& ended, std::initializer_list<int> codes, const std::string& doing) {
  const bool ended_by_itself = !ended.timed_out && ended.signal == 0;
  if (!ended_by_itself || std::ranges::find(codes, ended.code) == codes.end())
    throw Failure(fmt::format("{}: {}; allowed are exit codes {}", doing, ended.text(),
                              fmt::join(codes, ", ")),
                  last_words(ended));
  if (ended.err.find("internal error: ") != ended.err.npos)
    throw Failure(doing + ": an internal error", last_words(ended));
  if (is_error(ended.code) && !says_why(ended))
    throw Failure(fmt::format("{}: exit code {} without a line \"error: ...\"", doing, ended.code),
                  last_words(ended));
}

}  // namespace lamina::torture
