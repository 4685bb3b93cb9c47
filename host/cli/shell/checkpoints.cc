#include "cli/shell/checkpoints.h"

#include <algorithm>
#include <iterator>

#include "io/manifest.h"
#include "model/place.h"
#include "train/loop/run_directory.h"

namespace lamina::cli {

namespace fs = std::filesystem;

std::vector<std::string> checkpoints_of(const std::string& path) {
  if (fs::is_directory(path)) {
    // A folder of checkpoints lists the same ones as its run.
    const fs::path folder = fs::canonical(path), run = folder.parent_path();
    const bool all = folder == train::checkpoints_directory(run.string());
    const std::string of = all ? run.string() : path;
    std::vector<train::CheckpointEntry> entries = train::list_checkpoints(of);
    std::ranges::copy(train::list_incomplete(of), std::back_inserter(entries));
    std::ranges::stable_sort(entries, {}, &train::CheckpointEntry::step);
    std::vector<std::string> out;
    for (const train::CheckpointEntry& entry : entries) out.push_back(entry.path);
    if (!out.empty()) return out;
  }
  if (model::is_adapter(path)) return {path};
  return {train::resolve_model_directory(path)};
}

bool is_gone(const std::string& path) {
  std::error_code ec;
  return !fs::exists(path, ec) && !ec;
}

bool lacks_manifest(const std::string& path) {
  return !fs::exists(fs::path(path) / io::kManifestName) && io::has_weight_set(path, "optimizer");
}

Option to_option() {
  Option out = text_option("to", 0, "DIR", "The directory to write; it must not exist.");
  out.key.required = true;
  return out;
}

Option stored_type_option(std::string doc) { return dtype_option({}, std::move(doc)); }

std::optional<DType> stored_type(const Arguments& a) {
  if (!a.has("dtype")) return std::nullopt;
  return parse_dtype(a.text("dtype"));
}

}  // namespace lamina::cli
