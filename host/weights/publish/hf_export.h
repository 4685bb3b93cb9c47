// Writes a model as a Hugging Face directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/workers.h"
#include "decoder/model.h"
#include "weights/match/tensor_map.h"

namespace lamina::weights {

struct Exported {
  std::int64_t num_tensors = 0;
  std::uint64_t num_bytes = 0;  // of tensors
};

// UserError (exit 2) if `to`, the value of --to, is empty or exists, also as a dangling link.
void require_absent(const std::string& to);

struct ExportOptions {
  std::optional<DType> dtype = {};    // of tensors; absent: as stored
  std::optional<Layout> layout = {};  // absent: as stored, or as published
  bool average = false;               // export the moving average of trained weights
  // Parameters with a storage are rounded to it with `workers`, and written in the layout of
  // compressed-tensors (publish/compressed.h).
  bool compressed = false;
  // Blocks of parameters that were rounded before, eg with a calibration; null or empty: none.
  // Borrowed.
  const std::vector<std::vector<std::byte>>* blocks = nullptr;
  Workers workers = {};
  // Called before each tensor and at the end with the bytes written and their sum; may throw to
  // stop.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
};

// Throws the error (exit 2) of an export with options.compressed for a tensor that has no form in
// that layout. It depends on shapes and storages only. REQUIRES: `files` are no GGUF file.
void check_compressed(const decoder::Model& model, const io::WeightFiles& files);

// Exports a checkpoint or a Hugging Face directory `from` to the directory `to`, which must not
// exist and appears complete or not at all: config.json, weights under their published names (as
// stored, or according to `options`), tokenizer files, generation_config.json. A checkpoint of
// training that started from a published directory gets its form: names, types, files and
// config.json. `check` is called with the written directory before it gets its final name; it may
// change its config.json, and may throw. Errors: exit 2 if `to` exists, and with options.compressed
// for a tensor that has no form in that layout; exit 4 if the family cannot be exported, for
// damaged weights, and for values that the type of their tensor rounds to infinity.
Exported export_to_hf(const decoder::Model& model, const std::string& from, const std::string& to,
                      const ExportOptions& options,
                      const std::function<void(const std::string& directory)>& check = {});

}  // namespace lamina::weights
