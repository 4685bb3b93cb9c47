#include "cli/store_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/units.h"
#include "core/log.h"
#include "core/write_all.h"

namespace lamina::cli {
namespace {

constexpr std::chrono::milliseconds kRepaintInterval(100);
constexpr std::chrono::seconds kLineInterval(10);

}  // namespace

std::string progress_line(const data::StoreProgress& p, double seconds) {
  const auto bytes = [](std::uint64_t n) { return bytes_text(static_cast<double>(n)); };
  const double share =
      p.num_bytes == 0
          ? 1
          : std::min(1.0, static_cast<double>(p.bytes_done) / static_cast<double>(p.num_bytes));
  std::string out = fmt::format("tokenizing {:3.0f}%  {} of {}", 100 * share, bytes(p.bytes_done),
                                bytes(p.num_bytes));
  const double done_here = static_cast<double>(p.bytes_done - p.first_byte);
  if (seconds > 0 && done_here > 0) {
    const double left = static_cast<double>(p.num_bytes - std::min(p.num_bytes, p.bytes_done));
    out += fmt::format("  {:.1f} MB/s  {} tokens  eta {}", done_here / seconds / 1e6,
                       count_text(static_cast<double>(p.num_tokens)),
                       duration_text(left * seconds / done_here));
  }
  return out;
}

StoreProgressDisplay::StoreProgressDisplay(bool quiet, ColorMode color)
    : quiet_(quiet), animated_(describe_terminal(STDERR_FILENO, color).animated) {}

StoreProgressDisplay::~StoreProgressDisplay() {
  if (is_painted_) (void)write_all(STDERR_FILENO, "\n");
}

void StoreProgressDisplay::show(const data::StoreProgress& progress) {
  const auto now = Clock::now();
  if (quiet_ || (now - last_ < (animated_ ? Clock::duration(kRepaintInterval) : kLineInterval) &&
                 !(animated_ && progress.bytes_done == progress.num_bytes)))
    return;
  last_ = now;
  std::string line = progress_line(progress, std::chrono::duration<double>(now - start_).count());
  if (!animated_) return log::info("{}", line);
  const int columns = describe_terminal(STDERR_FILENO).columns - 1;
  if (line.size() > static_cast<std::size_t>(columns))
    line.resize(static_cast<std::size_t>(columns));
  (void)write_all(STDERR_FILENO, "\r" + line + "\033[K");
  is_painted_ = true;
}

}  // namespace lamina::cli
