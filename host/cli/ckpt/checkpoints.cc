#include "cli/ckpt/checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "formats/block_formats.h"
#include "io/gguf_model.h"
#include "io/manifest.h"
#include "io/weight_files.h"
#include "model/place.h"
#include "publishers/formats.h"
#include "train/loop/run_directory.h"
#include "weights/weights.h"

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
  if (std::string gguf = io::gguf_in(path); !gguf.empty()) return {std::move(gguf)};
  return {train::resolve_model_directory(path)};
}

bool lacks_manifest(const std::string& path) {
  return !fs::exists(fs::path(path) / io::kManifestName) && io::has_weight_set(path, "optimizer");
}

void for_each_tensor(
    const std::string& path,
    const std::function<void(const std::string& file, const io::StoredTensor& tensor)>& visit) {
  if (const std::string gguf = io::gguf_in(path); !gguf.empty()) {
    const io::GgufModel model(gguf);
    for (const auto& part : model.parts())
      for (const io::GgufTensor& t : part->tensors()) {
        io::StoredTensor tensor{std::string(t.name),
                                t.format ? t.format->name : io::safetensors_type(t.dtype),
                                {},
                                t.bytes};
        for (int i = 0; i < t.shape.ndim(); ++i)
          tensor.dims.push_back(static_cast<std::uint64_t>(t.shape[i]));
        visit(fs::path(part->path()).filename().string(), tensor);
      }
    return;
  }
  for (const std::string_view stem : {std::string_view("model"), weights::kAverageStem,
                                      publishers::kAdapterStem, std::string_view("optimizer")}) {
    if (!io::has_weight_set(path, stem)) continue;
    const io::WeightFiles files(path, stem);
    for (const io::SafetensorsFile& file : files.files())
      for (const io::StoredTensor& tensor : file.tensors())
        visit(fs::path(file.path()).filename().string(), tensor);
  }
}

}  // namespace lamina::cli
