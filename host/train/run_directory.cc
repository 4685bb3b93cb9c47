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

// Directories "step-<number>" that have a manifest, resp. that lack one.
std::vector<CheckpointEntry> list(const fs::path& directory, bool whole = true) {
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
    if (fs::exists(entry.path() / io::kManifestName) == whole)
      out.push_back({step, entry.path().string()});
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

std::vector<std::string> set_aside_damaged(const std::string& run) {
  std::vector<std::string> out;
  for (const CheckpointEntry& entry : list(checkpoints_directory(run), false)) {
    std::string path = entry.path + ".damaged";
    for (int n = 2; fs::exists(path); ++n) path = fmt::format("{}.damaged-{}", entry.path, n);
    fs::rename(entry.path, path);
    out.push_back(path);
  }
  return out;
}

std::string newest_checkpoint(const std::string& path) {
  std::vector<CheckpointEntry> entries = list_checkpoints(path);
  if (entries.empty()) entries = list(path);
  return entries.empty() ? "" : entries.back().path;
}

}  // namespace lamina::train
