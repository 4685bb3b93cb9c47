// Code shared by the commands about checkpoints: finding them and visiting their tensors.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/shell/command.h"
#include "core/dtype.h"
#include "io/safetensors.h"

namespace lamina::cli {

// The checkpoints of a run directory, complete or not, oldest first; else the directory of a model
// or an adapter itself, or the GGUF file.
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

// Logs a note if the tokenizer of the written directory is one that only lamina has.
void note_tokenizer(const std::string& to);

// Visits every tensor of every set of safetensors files in the directory, or of a GGUF file, with
// the name of its file.
void for_each_tensor(
    const std::string& path,
    const std::function<void(const std::string& file, const io::StoredTensor& tensor)>& visit);

}  // namespace lamina::cli
