#include "cli/shell/status_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/shell/units.h"
#include "core/log.h"
#include "core/write_all.h"

namespace lamina::cli {
namespace {

constexpr std::chrono::milliseconds kRepaintInterval(100);
constexpr std::chrono::seconds kLineInterval(10);

}  // namespace

StatusLine::StatusLine(bool quiet, ColorMode color)
    : quiet_(quiet), animated_(describe_terminal(STDERR_FILENO, color).animated) {}

StatusLine::~StatusLine() {
  if (is_painted_) (void)write_all(STDERR_FILENO, "\n");
}

void StatusLine::show(bool at_end, const std::function<std::string(double seconds)>& text) {
  const auto now = Clock::now();
  if (quiet_ || (now - last_ < (animated_ ? Clock::duration(kRepaintInterval) : kLineInterval) &&
                 !(animated_ && at_end)))
    return;
  last_ = now;
  std::string line = text(std::chrono::duration<double>(now - start_).count());
  if (!animated_) return log::info("{}", line);
  const int columns = describe_terminal(STDERR_FILENO).columns - 1;
  if (line.size() > static_cast<std::size_t>(columns))
    line.resize(static_cast<std::size_t>(columns));
  (void)write_all(STDERR_FILENO, "\r" + line + "\033[K");
  is_painted_ = true;
}

std::string count_line(std::string_view doing, std::string_view what, std::uint64_t done,
                       std::uint64_t total, double seconds) {
  const double share = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  std::string out = fmt::format("{} {:3.0f}%  {} of {} {}", doing, 100 * share,
                                thousands_text(static_cast<std::int64_t>(done)),
                                thousands_text(static_cast<std::int64_t>(total)), what);
  if (seconds > 0 && done > 0 && done < total)
    out += fmt::format("  eta {}", duration_text(seconds * (1 - share) / share));
  return out;
}

}  // namespace lamina::cli
