// Finds checkpoints and visits their tensors.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace lamina::cli {

// The checkpoints of a run directory, complete or not, oldest first; else the directory of a model
// or an adapter itself, or the GGUF file.
std::vector<std::string> checkpoints_of(const std::string& path);

// True for a checkpoint of ours that has no manifest.
bool lacks_manifest(const std::string& path);

// Visits every tensor of every set of safetensors files in the directory, or of a GGUF file, with
// the name of its file.
void for_each_tensor(
    const std::string& path,
    const std::function<void(const std::string& file, const io::StoredTensor& tensor)>& visit);

}  // namespace lamina::cli
