// A golden case: a model directory with numbers computed by another implementation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/json.h"
#include "io/weight_files.h"

namespace lamina::inspect {

struct GoldenCase {
  std::string directory;
  io::WeightFiles golden;
  JsonDocument info;

  explicit GoldenCase(std::string dir);
  bool has(std::string_view name) const { return golden.contains(name); }
  // Errors (exit 4): a missing tensor, another element type.
  std::vector<float> floats(std::string_view name) const;       // f32
  std::vector<std::int32_t> ints(std::string_view name) const;  // i32
  double number(std::string_view name) const;                   // f32, one element
  Shape shape(std::string_view name) const { return golden.tensor(name).shape; }
  // golden.json: tolerance.<key>, or `fallback`.
  double tolerance(std::string_view key, double fallback) const;
  // The type in which the reference computed: bf16 if all its logits are bfloat16 numbers, else
  // f32.
  DType reference_dtype() const;
};

}  // namespace lamina::inspect
