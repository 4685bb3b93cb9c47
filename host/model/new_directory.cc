#include "model/new_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "model/place.h"
#include "train/loop/file_owner.h"
#include "weights/publish/hf_export.h"

namespace lamina::model {

namespace {

namespace fs = std::filesystem;

// A run directory contains no model itself, so it may contain an export.
bool has_model(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / "config.json", ignored) ||
         fs::exists(directory / "model.toml", ignored) || is_adapter(directory.string());
}

bool is_inside(const std::string& to, const std::string& directory) {
  std::error_code error;
  const fs::path outer = fs::canonical(directory, error);
  if (error) return false;
  const fs::path inner = fs::weakly_canonical(fs::absolute(to, error), error);
  if (error) return false;
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

void check_new_directory(const std::string& to, std::span<const std::string> sources) {
  weights::require_absent(to);
  for (const char* ending : {".gguf", ".safetensors"})
    if (to.ends_with(ending))
      throw UserError(ExitCode::usage,
                      {"--to",
                       fmt::format("'{}' is the name of a file, but a directory is written", to),
                       {fmt::format("remove {}; the directory has model.safetensors, and no GGUF "
                                    "files are written",
                                    ending)}});
  const auto owner = train::file_owner(to);
  if (owner && owner->is_closed)
    throw UserError(ExitCode::usage, {"--to",
                                      fmt::format("'{}' {}", to, train::inside_in_words(*owner)),
                                      {"choose a directory outside its checkpoints"}});
  for (const std::string& source : sources)
    if (fs::is_directory(source) && has_model(source) && is_inside(to, source))
      throw UserError(
          ExitCode::usage,
          {"--to",
           fmt::format("'{}' is inside {}, the directory of a model that is read", to, source),
           {"choose a directory outside of it"}});
}

}  // namespace lamina::model
