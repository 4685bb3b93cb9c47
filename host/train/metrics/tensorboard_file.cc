#include "train/metrics/tensorboard_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <vector>

#include "core/folder_entries.h"
#include "io/event_file.h"
#include "train/loop/run_directory.h"

namespace lamina::train {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "events.out.tfevents.";

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns the newest time in a name of the folder; 0 if there is none, or no folder.
std::int64_t newest_time(const std::string& folder) {
  std::int64_t out = 0;
  for (const auto& entry : folder_entries(folder)) {
    const std::string name = entry.path().filename().string();
    std::int64_t time = 0;
    if (!name.starts_with(kPrefix)) continue;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), time);
    out = std::max(out, time);
  }
  return out;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == 0) return "localhost";
  return name.data();
}

// TensorBoard reads the files of a folder in the order of their names. A run that continues within
// a second, or after a clock was set back, therefore needs a later time than now.
std::string file_path(const std::string& folder) {
  const std::int64_t time =
      std::max(static_cast<std::int64_t>(wall_time()), newest_time(folder) + 1);
  return fmt::format("{}/{}{:010}.{}.{}", folder, kPrefix, time, host_name(), ::getpid());
}

// In one piece: a file without its version would be read by older rules.
std::string first_events(std::int64_t step) {
  const double now = wall_time();
  return io::event_file_version(now) + io::event_session_start(now, step + 1);
}

}  // namespace

TensorboardFile::TensorboardFile(const std::string& run, std::int64_t step)
    : file_(file_path(tensorboard_directory(run)), "events") {
  file_.write(first_events(step));
}

void TensorboardFile::renew(std::int64_t step) { file_.renew(first_events(step)); }

void TensorboardFile::write(const MetricsRecord& record) {
  std::vector<io::EventScalar> scalars;
  for (const MetricsRecord::Scalar& scalar : record.scalars())
    scalars.push_back({scalar.name, static_cast<float>(scalar.number())});
  file_.write(io::event_scalars(wall_time(), record.step(), scalars));
}

}  // namespace lamina::train
