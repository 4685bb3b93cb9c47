#include "train/loop/file_owner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include "core/error.h"
#include "core/read_file.h"
#include "core/without_dots.h"
#include "io/manifest.h"
#include "train/loop/run_directory.h"

namespace lamina::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;

bool path_exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool is_run_directory(const fs::path& directory) {
  std::error_code error;
  const fs::path checkpoints = checkpoints_directory(directory.string());
  return path_exists(metrics_path(directory.string())) ||
         (path_exists(directory / "config.toml") &&
          (path_exists(directory / "lock") || fs::is_directory(checkpoints, error)));
}

// Many programs have a config.json; a model's names the type of the model.
bool is_model_directory(const fs::path& directory) {
  if (path_exists(directory / "model.toml")) return true;
  const std::string config = (directory / "config.json").string();
  if (!path_exists(config)) return false;
  try {
    const std::string text = read_file(config, ExitCode::checkpoint, kMaxConfigBytes);
    return text.find("\"model_type\"") != text.npos || text.find("\"architectures\"") != text.npos;
  } catch (const Error&) {  // unreadable, so not a model that could be lost
    return false;
  }
}

// Finds the owner by the names of the folders of `path`.
std::optional<FileOwner> owner_by_names(const fs::path& path) {
  const fs::path parent = path.parent_path();
  if (path_exists(parent / io::kManifestName))
    return FileOwner{parent.string(), "a checkpoint", true};
  constexpr std::array<std::string_view, 2> kFolders = {"checkpoints", "tensorboard"};
  for (fs::path folder = parent;; folder = folder.parent_path()) {
    const std::string name = folder.filename().string();
    if (std::ranges::find(kFolders, name) != kFolders.end() &&
        is_run_directory(folder.parent_path()))
      return FileOwner{folder.parent_path().string(), "a run directory", true};
    if (folder == folder.parent_path()) break;
  }
  if (is_run_directory(parent)) return FileOwner{parent.string(), "a run directory"};
  if (is_model_directory(parent)) return FileOwner{parent.string(), kModelDirectory};
  return std::nullopt;
}

}  // namespace

std::string inside_in_words(const FileOwner& owner) {
  return fmt::format("would be inside {}, '{}', which only its training writes to", owner.kind,
                     owner.directory);
}

std::optional<FileOwner> file_owner(const std::string& path) {
  std::error_code error;
  fs::path named = without_dots(fs::absolute(path, error));
  if (!named.has_filename()) named = named.parent_path();
  if (const auto owner = owner_by_names(named)) return owner;
  // A link may lead into a run from elsewhere.
  const fs::path real = fs::weakly_canonical(named, error);
  return error || real == named ? std::nullopt : owner_by_names(real);
}

}  // namespace lamina::train
