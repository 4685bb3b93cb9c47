// Code shared by the commands about checkpoints: finding them and visiting their tensors.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/shell/command.h"
#include "core/dtype.h"
#include "io/weight_files.h"
#include "publishers/formats.h"
#include "weights/weights.h"

namespace lamina::cli {

// The checkpoints of a run directory, complete or not, oldest first; else the directory of a model
// or an adapter itself.
std::vector<std::string> checkpoints_of(const std::string& path);

// True if training has removed the checkpoint while it was read; such a checkpoint is not damaged.
bool is_gone(const std::string& path);
inline constexpr int kMaxAttempts = 10;

// True for a checkpoint of ours that has no manifest.
bool lacks_manifest(const std::string& path);

// --to DIR, the directory that a command writes; --dtype TYPE, the type of its tensors.
Option to_option();
Option stored_type_option(std::string doc);
std::optional<DType> stored_type(const Arguments& a);

// Visits every tensor of every set of safetensors files in the directory.
template <typename Fn>
void for_each_tensor(const std::string& path, Fn fn) {
  for (const std::string_view stem : {std::string_view("model"), weights::kAverageStem,
                                      publishers::kAdapterStem, std::string_view("optimizer")}) {
    if (!io::has_weight_set(path, stem)) continue;
    io::WeightFiles files(path, stem);
    for (const io::SafetensorsFile& f : files.files())
      for (const io::StoredTensor& t : f.tensors())
        fn(std::filesystem::path(f.path()).filename().string(), t);
  }
}

}  // namespace lamina::cli
