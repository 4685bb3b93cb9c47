#include "train/loop/output_folders.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <filesystem>
#include <optional>
#include <string>

#include "core/error.h"
#include "train/loop/file_owner.h"

namespace lamina::train {
namespace {

namespace fs = std::filesystem;

fs::path without_last_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

// Resolves links, also where the last parts do not exist; without "." and "..".
fs::path plain(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path);
  fs::path out = fs::weakly_canonical(absolute, error);
  if (error) out = absolute.lexically_normal();
  return without_last_slash(out);
}

// Likewise for a glob, up to its first part with a wildcard.
fs::path plain_glob(const std::string& pattern) {
  const std::size_t slash = pattern.rfind('/', pattern.find_first_of("*?["));
  const std::size_t begin = slash == pattern.npos ? 0 : slash + 1;
  const fs::path above = plain(begin == 0 ? "." : pattern.substr(0, begin));
  return without_last_slash((above / pattern.substr(begin)).lexically_normal());
}

// Returns the folder above or at `folder` that a pattern of data.train matches, if its files
// include the ones of `folder`, which may be made later: a hidden folder in between is not read.
std::optional<fs::path> matched_above(const std::string& pattern, const fs::path& folder) {
  const bool is_glob = pattern.find_first_of("*?[") != pattern.npos && !fs::exists(pattern);
  const std::string wanted = (is_glob ? plain_glob(pattern) : plain(pattern)).string();
  for (fs::path at = folder;; at = at.parent_path()) {
    if (is_glob ? ::fnmatch(wanted.c_str(), at.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0
                : at == wanted) {
      std::error_code error;
      if (!fs::exists(at, error) || fs::is_directory(at, error)) return at;
    }
    if (at.filename().string().starts_with('.') || at == at.parent_path()) return std::nullopt;
  }
}

class Checker {
 public:
  Checker(const config::RunConfig& run, const std::string& key, const std::string& folder)
      : run_(run), key_(key), folder_(folder) {}

  void check_owner(bool is_run_directory) const {
    const std::optional<FileOwner> owner = file_owner((fs::path(folder_) / "file").string());
    if (!owner) return;
    if (owner->is_closed) refuse(fmt::format("'{}' {}", folder_, inside_in_words(*owner)));
    if (is_run_directory && owner->kind == kModelDirectory)
      refuse(
          fmt::format("'{}' is {}: other commands would read that model instead of the run's "
                      "checkpoints",
                      folder_, owner->kind));
  }

  void check_data() const {
    for (const auto* patterns : {&run_.data.train, &run_.data.validation})
      for (const std::string& pattern : *patterns)
        if (matched_above(pattern, plain(folder_)))
          refuse(fmt::format("'{}' is inside the data '{}', so its files would be read as data",
                             folder_, pattern));
  }

 private:
  [[noreturn]] void refuse(std::string what) const {
    throw UserError(ExitCode::usage,
                    {config::place_in(run_)(key_), std::move(what), {"choose another directory"}});
  }

  const config::RunConfig& run_;
  const std::string& key_;
  const std::string& folder_;
};

}  // namespace

void check_output_folders(const config::RunConfig& run) {
  const auto check = [&](const std::string& key, const std::string& folder) {
    const Checker checker(run, key, folder);
    checker.check_owner(key == "run.out");
    checker.check_data();
  };
  check("run.out", run.run.out);
  if (run.data.store != "none") check("data.store", run.data.store);
}

}  // namespace lamina::train
