// The purpose and size of a graph, for its blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "decoder/roles/adapter.h"
#include "decoder/roles/block_options.h"
#include "decoder/roles/model_graph.h"
#include "graph/type.h"

namespace lamina::decoder {

struct TracePhase : GraphShape, GraphFeatures, StateSize {
  bool stateful = false;       // reads and writes decode state
  bool bidirectional = false;  // tokens may see later ones
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_token_ids = 0;  // of the tokenizer, where n-grams are looked up
  // The types of the carries of layers, and of each layer's element of the entry's stacked results.
  // Empty until BlockCache has traced the entry.
  std::vector<Type> carries = {};
  std::vector<Type> per_layer = {};
  const Adapter* adapter = nullptr;  // of the model, if it has one
  BlockOptions options = {};

  // Returns the type of the activations x: [B, T, D].
  Type activations() const { return {dtype, {batch, tokens, hidden_size}, {}}; }
};

}  // namespace lamina::decoder
