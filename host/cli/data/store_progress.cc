#include "cli/data/store_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/shell/units.h"

namespace lamina::cli {

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

}  // namespace lamina::cli
