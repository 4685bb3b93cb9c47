// One pass over rows of tokens without decode state: logits and outputs of layers.
#pragma once

#include <span>
#include <vector>

#include "decoder/model.h"
#include "inspect/verify/images.h"
#include "program/rows.h"

namespace lamina::inspect {

struct ForwardOptions {
  DType dtype = DType::f32;
  bool hidden = false;                              // also hidden states
  std::span<const std::int32_t> positions_3d = {};  // [3, B, T]: time, height, width
  const ImageInputs* images = nullptr;
};

struct ForwardResult {
  std::vector<float> logits;               // [B, T, V]
  std::vector<std::vector<float>> hidden;  // [0] is the input of the stack; often [B, T, D]
};

ForwardResult forward(const decoder::Model& model, std::span<const ConstTensorRef> parameters,
                      const program::Rows& rows, const ForwardOptions& options,
                      const Backend& backend);

}  // namespace lamina::inspect
