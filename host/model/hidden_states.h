// Hidden states of a model for a text, and logits from them.
//
//   const HiddenStates h = hidden_states(m.model(), m.weights.pointers(), tokens, {}, backend);
//   h.normed;                                       // [tokens, D]: the input of the head
//   logits_of(m.model(), pointers, h.normed, ...);  // [tokens, V]
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "decoder/model.h"
#include "runtime/backend.h"

namespace lamina::model {

struct HiddenOptions {
  DType dtype = DType::f32;  // compute type
  bool layers = false;       // also the inputs and outputs of every layer
  // Called after each kernel with the number of computed layers, and of all layers. May throw,
  // which ends the computation. [the calling thread]
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

struct HiddenStates {
  std::vector<float> normed;  // [tokens, D]: the last, after the final norm
  // [0] is the input of the first layer, [i + 1] the output of layer i; each [tokens, D], or
  // [tokens, streams, D]. Empty unless requested.
  std::vector<std::vector<float>> layers;
};

// Computes the states of one whole text, without decode state. Errors: exit 2 for more tokens than
// the model has learned positions.
HiddenStates hidden_states(const decoder::Model& model, std::span<const ConstTensorRef> parameters,
                           std::span<const std::int32_t> tokens, const HiddenOptions& options,
                           const Backend& backend);

// Returns f32[rows, V] for rows of HiddenStates::normed.
std::vector<float> logits_of(const decoder::Model& model,
                             std::span<const ConstTensorRef> parameters,
                             std::span<const float> normed, DType dtype, const Backend& backend);

}  // namespace lamina::model
