// What a model makes of a text before it predicts: hidden states, and logits of them later.
//
//   const HiddenStates h = hidden_states(m.model(), m.weights.pointers(), tokens, {}, backend);
//   h.normed;                                       // [tokens, D]: what the head gets
//   logits_of(m.model(), pointers, h.normed, ...);  // [tokens, V]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decoder/model.h"
#include "runtime/backend.h"

namespace lamina::model {

struct HiddenOptions {
  DType dtype = DType::f32;  // to compute in
  bool layers = false;       // also what enters and leaves every layer
};

struct HiddenStates {
  std::vector<float> normed;  // [tokens, D]: the last, after the final norm
  // [0] is what enters the first layer, [i + 1] what leaves layer i; each [tokens, D], or
  // [tokens, streams, D]. Empty unless asked for.
  std::vector<std::vector<float>> layers;
};

// Of one text, all of it at once and without decode state. Errors: exit 2 for more tokens than the
// model has positions.
HiddenStates hidden_states(const decoder::Model& model, std::span<void* const> parameters,
                           std::span<const std::int32_t> tokens, const HiddenOptions& options,
                           const Backend& backend);

// f32[rows, V] of rows of HiddenStates::normed.
std::vector<float> logits_of(const decoder::Model& model, std::span<void* const> parameters,
                             std::span<const float> normed, DType dtype, const Backend& backend);

}  // namespace lamina::model
