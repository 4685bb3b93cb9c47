// What a graph is for, as far as its blocks need to know.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decoder/model.h"
#include "graph/type.h"

namespace lamina::decoder {

struct TracePhase {
  bool stateful = false;             // reads and writes decode state
  bool training = false;             // dropout is active
  bool aux = false;                  // losses, metrics and updates that layers sow are kept
  bool layer_metrics = false;        // with aux: also of each layer's output and its own losses
  bool segments = false;             // rows hold several documents
  bool positions_3d = false;         // time, height and width are given, not all the position
  std::vector<std::string> records;  // tags whose values in layers become outputs
  std::int64_t batch = 1;
  std::int64_t tokens = 1;
  std::int64_t capacity = 1;         // of decode state, in tokens a row
  std::int64_t max_call_tokens = 1;  // the most tokens one call writes
  DType dtype = DType::f32;
  GivenRows given = {};
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_token_ids = 0;  // of the tokenizer, where n-grams are looked up
  // What layers hand on, and each layer's element of what the entry gives to all of them. Empty
  // until BlockCache has looked at the entry.
  std::vector<Type> carries;
  std::vector<Type> per_layer;

  // x: the activations [B, T, D].
  Type activations() const { return {dtype, {batch, tokens, hidden_size}, {}}; }
};

}  // namespace lamina::decoder
