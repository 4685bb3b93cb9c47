#include "train/metrics/metrics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "core/open_file.h"
#include "core/system_error.h"
#include "core/write_all.h"
#include "train/loop/run_directory.h"

namespace lamina::train {
namespace {

[[noreturn]] void fail(const std::string& path, std::string_view doing, int error_number) {
  throw DeviceError(ExitCode::checkpoint,
                    {path,
                     fmt::format("{}: {}", doing, system_error_text(error_number)),
                     {"check the disk and the permissions of the run directory"}});
}

int open_to_append(const std::string& path) {
  return open_regular_file(path, O_RDWR | O_CREAT | O_APPEND);
}

std::optional<std::int64_t> step_of(std::string_view line) {
  constexpr std::string_view kBegin = "{\"step\":";
  std::int64_t step = 0;
  if (!line.starts_with(kBegin)) return std::nullopt;
  const auto [stop, error] =
      std::from_chars(line.data() + kBegin.size(), line.data() + line.size(), step);
  return error == std::errc() ? std::optional(step) : std::nullopt;
}

bool is_whole(const std::string& line) {
  try {
    return JsonDocument::parse(line, "metrics", {}).root().is_object();
  } catch (const UserError&) {
    return false;
  }
}

// The contents of the metrics file of a run that continues.
struct Kept {
  std::uint64_t num_bytes = 0;  // of lines that stay
  bool ends_whole = true;       // with a line feed
  bool has_samples = false;     // of the step after which the run continues
  std::string superseded;       // lines of later steps
};

// Reads the file from its beginning. It is cut to the lines that are read here, so it is not opened
// a second time: if that failed, it would seem to be empty.
Kept read_lines(int fd, const std::string& path, std::int64_t step) {
  Kept out;
  const std::string samples = fmt::format("{{\"step\":{},\"samples\":", step);
  std::string line;
  const auto take = [&](bool ends_whole) {
    if (!ends_whole && !is_whole(line)) return;  // half of a line: the process was killed
    if (!out.superseded.empty() || step_of(line).value_or(0) > step) {
      out.superseded += line + "\n";
    } else {
      out.ends_whole = ends_whole;
      out.has_samples = out.has_samples || line.starts_with(samples);
      out.num_bytes += line.size() + (ends_whole ? 1 : 0);
    }
  };
  std::string buffer(std::size_t{1} << 16, '\0');
  for (;;) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "cannot be read", errno);
    if (n == 0) break;
    std::string_view rest(buffer.data(), static_cast<std::size_t>(n));
    for (std::size_t end; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
      line += rest.substr(0, end);
      take(true);
      line.clear();
    }
    line += rest;
  }
  if (!line.empty()) take(false);
  return out;
}

void append_durably(const std::string& path, std::string_view text) {
  const int fd = open_to_append(path);
  const off_t num_bytes = ::lseek(fd, 0, SEEK_END);
  int error = num_bytes < 0 ? errno : write_all(fd, text);
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  // The next attempt appends all lines again, and half a line would spoil the first of them.
  if (error != 0 && num_bytes >= 0) [[maybe_unused]]
    const int cut = ::ftruncate(fd, num_bytes);
  ::close(fd);
  if (error != 0) fail(path, "cannot be written", error);
}

AppendedFile open_to_resume(const std::string& run, std::int64_t step, bool& had_samples) {
  const std::string path = metrics_path(run);
  const int fd = open_to_append(path);
  try {
    Kept kept = read_lines(fd, path, step);
    had_samples = kept.has_samples;
    if (!kept.superseded.empty()) append_durably(superseded_metrics_path(run), kept.superseded);
    if (::ftruncate(fd, static_cast<off_t>(kept.num_bytes)) != 0)
      fail(path, "cannot be cut after its last whole line", errno);
    if (!kept.ends_whole) {
      if (const int error = write_all(fd, "\n")) fail(path, "cannot be written", error);
      ++kept.num_bytes;
    }
    return AppendedFile(path, fd, kept.num_bytes);
  } catch (...) {
    ::close(fd);
    throw;
  }
}

}  // namespace

MetricsFile::MetricsFile(const std::string& run, std::int64_t step)
    : file_(open_to_resume(run, step, had_samples_)) {}

}  // namespace lamina::train
