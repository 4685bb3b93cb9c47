// One pass over rows of tokens without decode state: logits and what layers hand on.
#pragma once

#include <span>
#include <vector>

#include "decoder/model.h"
#include "inspect/verify/images.h"
#include "program/rows.h"

namespace lamina::cli {

struct ForwardOptions {
  DType dtype = DType::f32;
  bool hidden = false;                              // also hidden states
  std::span<const std::int32_t> positions_3d = {};  // [3, B, T]: time, height, width
  const ImageInputs* images = nullptr;
};

struct ForwardResult {
  std::vector<float> logits;               // [B, T, V]
  std::vector<std::vector<float>> hidden;  // [0] enters the stack; often [B, T, D]
};

ForwardResult forward(const decoder::Model& model, std::span<void* const> parameters,
                      const Rows& rows, const ForwardOptions& options, const Backend& backend);

// Once, in memory of its own. REQUIRES: everything is bound.
void run(decoder::BoundProgram& program, const Backend& backend);

// REQUIRES: f32, bf16 or i32.
std::vector<float> as_floats(const std::byte* from, std::size_t count, DType dtype);

}  // namespace lamina::cli
