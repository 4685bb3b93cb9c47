#include "train/metrics_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>

#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "core/read_file.h"
#include "core/write_all.h"
#include "train/run_directory.h"

namespace lamina::train {
namespace {

constexpr std::size_t kMaxWaiting = 100'000;  // some 30 MB

[[noreturn]] void fail(const std::string& path, std::string_view doing, int error_number) {
  throw DeviceError(ExitCode::checkpoint,
                    {path,
                     fmt::format("{}: {}", doing, system_error_text(error_number)),
                     {"check the disk and the permissions of the run directory"}});
}

int open_to_append(const std::string& path) {
  // Not blocking: a FIFO would wait for its reader.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (fd < 0) fail(path, "cannot be opened", errno);
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) return fd;
  ::close(fd);
  throw DeviceError(ExitCode::checkpoint,
                    {path, "is not a regular file", {"remove it, or choose another --out"}});
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

// What a run that goes on finds in its metrics file.
struct Kept {
  std::uint64_t num_bytes = 0;  // of lines that stay
  bool ends_whole = true;       // with a line feed
  std::string superseded;       // lines of later steps
};

Kept read_lines(const std::string& path, std::int64_t step) {
  std::ifstream file(path, std::ios::binary);
  Kept out;
  std::string line;
  while (std::getline(file, line)) {
    const bool ends_whole = !file.eof();
    if (!ends_whole && !is_whole(line)) break;  // half of a line: the process was killed
    if (!out.superseded.empty() || step_of(line).value_or(0) > step) {
      out.superseded += line + "\n";
    } else {
      out.ends_whole = ends_whole;
      out.num_bytes += line.size() + (ends_whole ? 1 : 0);
    }
  }
  if (file.bad()) fail(path, "cannot be read", EIO);
  return out;
}

void append_durably(const std::string& path, std::string_view text) {
  const int fd = open_to_append(path);
  int error = write_all(fd, text);
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  ::close(fd);
  if (error != 0) fail(path, "cannot be written", error);
}

}  // namespace

MetricsFile::MetricsFile(const std::string& run, std::int64_t step) : path_(metrics_path(run)) {
  fd_ = open_to_append(path_);
  try {
    const Kept kept = read_lines(path_, step);
    if (!kept.superseded.empty()) append_durably(superseded_metrics_path(run), kept.superseded);
    num_bytes_ = kept.num_bytes;
    if (const int error = cut()) fail(path_, "cannot be cut after its last whole line", error);
    if (!kept.ends_whole) {
      if (const int error = write_all(fd_, "\n")) fail(path_, "cannot be written", error);
      ++num_bytes_;
    }
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

MetricsFile::~MetricsFile() { ::close(fd_); }

int MetricsFile::cut() { return ::ftruncate(fd_, static_cast<off_t>(num_bytes_)) == 0 ? 0 : errno; }

void MetricsFile::write(const JsonWriter& json) {
  if (waiting_.size() < kMaxWaiting)
    waiting_.push_back(json.text() + "\n");
  else
    ++num_dropped_;
  write_waiting();
}

void MetricsFile::write_waiting() {
  int error = torn_ ? cut() : 0;
  std::size_t done = 0;
  for (; done < waiting_.size() && error == 0; ++done) {
    error = write_all(fd_, waiting_[done]);
    if (error != 0) break;
    num_bytes_ += waiting_[done].size();
  }
  torn_ = error != 0 && cut() != 0;
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(done));
  if (error != 0) {
    if (!failing_)
      log::warning(
          "{} cannot be written, training goes on: {}; its lines are kept in memory and tried "
          "again after every step\n  free space on that disk or repair it before the run ends",
          path_, system_error_text(error));
    failing_ = true;
    return;
  }
  if (failing_) log::info("{} can be written again; {} lines were late", path_, done);
  if (num_dropped_ > 0)
    log::warning("{} lacks {} lines, which were too many to keep in memory; plots will have a gap",
                 path_, num_dropped_);
  failing_ = false;
  num_dropped_ = 0;
}

void MetricsFile::sync() {
  if (::fsync(fd_) != 0)
    log::warning("{} cannot be synced: {}; check the disk, a power cut may cost its last lines",
                 path_, system_error_text(errno));
}

void MetricsFile::finish() {
  write_waiting();
  if (!waiting_.empty())
    log::warning("{} lacks its last {} lines, which could not be written; repair the disk", path_,
                 waiting_.size() + num_dropped_);
}

}  // namespace lamina::train
