#include "train/loop/run_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "config/key_paths.h"
#include "core/error.h"
#include "core/system_error.h"
#include "io/directory_commit.h"
#include "io/durable_file.h"
#include "io/foreign_file.h"
#include "io/gguf_model.h"
#include "io/manifest.h"
#include "train/checkpoint/best_checkpoint.h"

namespace lamina::train {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "step-";

// The step of a directory's name "step-<number>".
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || stop != end) return std::nullopt;
  return step;
}

// As list() below; nothing if one of them was removed after its name was read.
std::optional<std::vector<CheckpointEntry>> try_list(const fs::path& directory, bool whole) {
  std::vector<CheckpointEntry> out;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::optional<std::int64_t> step = step_of(entry.path().filename().string());
    if (!step) continue;
    std::error_code ec;
    const fs::file_status manifest = fs::status(entry.path() / io::kManifestName, ec);
    // If it cannot be looked up, it may exist; its reader reports the error.
    const bool has_manifest = fs::is_regular_file(manifest) || !fs::status_known(manifest);
    const bool removed = fs::symlink_status(entry.path(), ec).type() == fs::file_type::not_found;
    if (!has_manifest && removed) return std::nullopt;
    if (has_manifest == whole) out.push_back({*step, entry.path().string()});
  }
  std::ranges::sort(out, {}, &CheckpointEntry::step);
  return out;
}

// Directories "step-<number>" that have a manifest, or that lack one. A run that keeps only the
// newest checkpoint removes it just after the next one appears. The names that were read may lack
// that one: they are read again, or the run would seem to have no checkpoints at all.
std::vector<CheckpointEntry> list(const fs::path& directory, bool whole = true) {
  if (!fs::is_directory(directory)) return {};
  for (;;)
    if (auto out = try_list(directory, whole)) return *std::move(out);
}

}  // namespace

std::string checkpoints_directory(const std::string& run) { return run + "/checkpoints"; }

std::string checkpoint_path(const std::string& run, std::int64_t step) {
  return fmt::format("{}/{}{:08}", checkpoints_directory(run), kPrefix, step);
}

std::string metrics_path(const std::string& run) { return run + "/metrics.jsonl"; }

std::string superseded_metrics_path(const std::string& run) {
  return run + "/metrics.superseded.jsonl";
}

std::string tensorboard_directory(const std::string& run) { return run + "/tensorboard"; }

std::vector<CheckpointEntry> list_checkpoints(const std::string& run) {
  return list(checkpoints_directory(run));
}

bool is_checkpoint_of(const std::string& run, const std::string& path) {
  std::error_code ec;
  return std::ranges::any_of(list_checkpoints(run), [&](const CheckpointEntry& entry) {
    return fs::equivalent(entry.path, path, ec);
  });
}

std::vector<CheckpointEntry> list_incomplete(const std::string& run) {
  return list(checkpoints_directory(run), false);
}

std::vector<std::string> list_all(const std::string& run) {
  std::vector<std::string> out;
  const fs::path directory = checkpoints_directory(run);
  if (!fs::is_directory(directory)) return out;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && !io::is_leftover(name)) out.push_back(entry.path().string());
  }
  std::ranges::sort(out);
  return out;
}

std::string set_aside(const std::string& path, std::string_view why) {
  std::string to = fmt::format("{}.{}", path, why);
  for (int n = 2; fs::exists(fs::symlink_status(to)); ++n)
    to = fmt::format("{}.{}-{}", path, why, n);
  std::error_code ec;
  fs::rename(path, to, ec);
  if (ec)
    throw DeviceError(ExitCode::checkpoint, {path,
                                             fmt::format("cannot be renamed to {}: {}", to,
                                                         system_error_text(ec.value())),
                                             {"check the permissions of the run directory"}});
  io::sync_directory(fs::path(path).parent_path().string());
  return to;
}

bool is_set_aside(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return name.starts_with(kPrefix) &&
         (name.find(".set-aside") != name.npos || name.find(".damaged") != name.npos);
}

std::string newest_checkpoint(const std::string& path) {
  std::vector<CheckpointEntry> entries = list_checkpoints(path);
  if (entries.empty()) entries = list(path);
  return entries.empty() ? "" : entries.back().path;
}

std::vector<std::string> advice_on_file(const std::string& path) {
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code error;
  if (!fs::exists(folder / "config.json", error)) return {};
  return {fmt::format("give its folder, {}", folder.string())};
}

std::vector<std::string> advice_on_missing(const std::string& path) {
  if (const auto advice = config::advice_on_home(path)) return {*advice};
  const bool is_relative = !path.starts_with('/') && !path.starts_with('.');
  std::error_code error;
  // "org/name", as on the Hub; a folder that exists is no organisation.
  if (!is_relative || std::ranges::count(path, '/') != 1 ||
      fs::exists(path.substr(0, path.find('/')), error))
    return {};
  return {"lamina downloads no models: give the directory of a downloaded one"};
}

std::string resolve_model_directory(const std::string& named) {
  std::string path = resolve_best(named);
  if (!fs::exists(path))
    throw UserError(ExitCode::checkpoint,
                    {path, fmt::format("no such file or directory; {}", kModelPlaces),
                     advice_on_missing(path)});
  if (!fs::is_directory(path))
    throw UserError(
        ExitCode::checkpoint,
        {path, fmt::format("is not a directory; {}", kModelPlaces), advice_on_file(path)});
  fs::path directory = path;
  if (fs::exists(directory / "model.toml") || fs::exists(directory / "config.json")) return path;
  if (std::string newest = newest_checkpoint(path); !newest.empty()) return newest;
  if (!list_all(path).empty())
    throw UserError(ExitCode::checkpoint,
                    {path,
                     "has checkpoints, but none is complete",
                     {"`lamina ckpt verify` says what is missing from each"}});
  const fs::path checkpoints = checkpoints_directory(path);
  if (fs::is_directory(checkpoints))
    throw UserError(ExitCode::checkpoint,
                    {checkpoints.string(),
                     "contains no complete checkpoint, and next to it is neither "
                     "config.json nor model.toml",
                     {io::contents_in_words(checkpoints.string())}});
  throw UserError(ExitCode::checkpoint,
                  {path,
                   "contains no model: neither config.json, model.toml nor checkpoints",
                   {io::contents_in_words(path)}});
}

std::string resolve_model_files(const std::string& path) {
  const std::string named = resolve_best(path);
  return fs::is_directory(named) && io::gguf_in(named).empty() ? resolve_model_directory(named)
                                                               : named;
}

}  // namespace lamina::train
