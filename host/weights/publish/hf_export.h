// Writes a model as a Hugging Face directory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "decoder/model.h"
#include "weights/match/tensor_map.h"

namespace lamina::weights {

struct Exported {
  std::int64_t num_tensors = 0;
  std::uint64_t num_bytes = 0;  // of tensors
};

// UserError (exit 2) where `to`, which --to names, is empty or exists, also as a link to nothing.
void require_absent(const std::string& to);

struct ExportOptions {
  std::optional<DType> dtype = {};    // of tensors; nothing: as they are stored
  std::optional<Layout> layout = {};  // nothing: as they are stored, or as published
  bool average = false;               // the moving average of what learned, in its place
};

// From a checkpoint or a Hugging Face directory `from` into the directory `to`, which must not
// exist and appears whole or not at all: config.json, weights under their published names (as
// stored, or as `options` say), tokenizer files, generation_config.json. A checkpoint of training
// that began at a published directory gets the form of that again: names, types, files and
// config.json. `check` is called with what was written before it has its name, and may throw.
// Errors: exit 2 when `to` exists; exit 4 when the family cannot be exported, or for damaged
// weights.
Exported export_to_hf(const decoder::Model& model, const std::string& from, const std::string& to,
                      const ExportOptions& options,
                      const std::function<void(const std::string& directory)>& check = {});

}  // namespace lamina::weights
