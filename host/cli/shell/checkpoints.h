// What the commands about checkpoints share: which there are, and walking through their tensors.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/shell/command.h"
#include "core/dtype.h"
#include "io/weight_files.h"

namespace lamina::cli {

// The checkpoints of a run directory, whole or not, oldest first; else the directory itself.
std::vector<std::string> checkpoints_of(const std::string& path);

// Training removes old checkpoints while we read: what is gone is not damaged.
bool is_gone(const std::string& path);
inline constexpr int kMaxAttempts = 10;

// A checkpoint of ours that has lost its manifest, or never had one.
bool lacks_manifest(const std::string& path);

// --to DIR, the directory that a command makes; --dtype TYPE of the tensors in it.
Option to_option();
Option stored_type_option(std::string doc);
std::optional<DType> stored_type(const Arguments& a);

// Every tensor of every set of safetensors files in the directory.
template <typename Fn>
void for_each_tensor(const std::string& path, Fn fn) {
  for (const char* stem : {"model", "optimizer"}) {
    std::filesystem::path file = std::filesystem::path(path) / stem;
    if (!std::filesystem::exists(file.string() + ".safetensors") &&
        !std::filesystem::exists(file.string() + ".safetensors.index.json"))
      continue;
    io::WeightFiles files(path, stem);
    for (const io::SafetensorsFile& f : files.files())
      for (const io::StoredTensor& t : f.tensors())
        fn(std::filesystem::path(f.path()).filename().string(), t);
  }
}

}  // namespace lamina::cli
