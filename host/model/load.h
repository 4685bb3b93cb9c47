// A model with its weights and its tokenizer, ready to compute.
//
//   const model::Loaded m = model::load("my-model", plugins, DType::bf16, backend);
//   decode::Session session(m.model(), m.weights.pointers(),
//                           {.capacity = 512, .dtype = DType::bf16}, backend);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/open.h"
#include "runtime/backend.h"
#include "weights/weights.h"

namespace lamina::model {

struct Loaded {
  OpenedModel opened;
  weights::Weights weights;
  std::unique_ptr<text::Tokenizer> tokenizer;  // null if it has none

  const decoder::Model& model() const { return *opened.model; }
  // Returns the ids that end a text: the checkpoint's, else the tokenizer's.
  std::vector<std::int32_t> end_tokens() const;
};

// Errors: as open_weights() and Weights::load(). Safe while training removes checkpoints.
Loaded load(const std::string& path, const registry::Catalog& plugins, DType dtype,
            const Backend& backend, const WeightChoice& choice = {});

// Like load(), but also searches for plugins while the vocabulary is read. `described` is called
// before weights are read.
using FindPlugins = std::function<const registry::Catalog&()>;
Loaded load(const std::string& path, const FindPlugins& plugins, DType dtype,
            const Backend& backend, const WeightChoice& choice = {},
            const std::function<void(const decoder::Model&)>& described = {});

}  // namespace lamina::model
