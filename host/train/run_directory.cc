#include "train/run_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "io/manifest.h"

namespace lamina::train {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "step-";

std::vector<CheckpointEntry> list(const fs::path& directory) {
  std::vector<CheckpointEntry> out;
  if (!fs::is_directory(directory)) return out;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    std::string name = entry.path().filename().string();
    std::int64_t step = 0;
    if (!name.starts_with(kPrefix)) continue;
    const char* begin = name.data() + kPrefix.size();
    const char* end = name.data() + name.size();
    auto [stop, error] = std::from_chars(begin, end, step);
    if (error != std::errc() || stop != end) continue;
    if (fs::exists(entry.path() / io::kManifestName)) out.push_back({step, entry.path().string()});
  }
  std::ranges::sort(out, {}, &CheckpointEntry::step);
  return out;
}

}  // namespace

std::string checkpoints_directory(const std::string& run) { return run + "/checkpoints"; }

std::string checkpoint_path(const std::string& run, std::int64_t step) {
  return fmt::format("{}/{}{:08}", checkpoints_directory(run), kPrefix, step);
}

std::string metrics_path(const std::string& run) { return run + "/metrics.jsonl"; }

std::vector<CheckpointEntry> list_checkpoints(const std::string& run) {
  return list(checkpoints_directory(run));
}

std::string newest_checkpoint(const std::string& path) {
  std::vector<CheckpointEntry> entries = list_checkpoints(path);
  if (entries.empty()) entries = list(path);
  return entries.empty() ? "" : entries.back().path;
}

}  // namespace lamina::train
