// The config of Engram, for any family: before some layers, rows of large tables, selected by the
// last n-grams, are added to the residual stream. DeepSeek-AI, "Conditional Memory via Scalable
// Lookup", 2026; the hash and the equations are MaxText's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "registry/model_config.h"

namespace lamina::decoder {

// The ids of tokens in n-grams; see text::compress_tokens().
struct CompressedTokens {
  std::vector<std::int32_t> ids;  // by token id; larger ids use the last
  std::int64_t count = 0;         // number of different ids, which are 0 to count - 1
  std::optional<std::int32_t> pad;
};

// Maps each token to itself, with 0 as the pad: for uses that do not depend on the tokenizer. The
// list has at most 2^20 tokens; later ones are mapped like the last.
CompressedTokens uncompressed_tokens(std::int64_t vocabulary);

struct EngramLayer {
  std::int64_t layer = 0;                 // the layer that follows
  std::vector<std::int64_t> multipliers;  // one per token of the longest n-gram
  std::vector<std::int64_t> sizes;        // rows of each table, by length of n-gram, then head
  std::int64_t num_rows() const;
};

struct Engram {
  std::vector<EngramLayer> layers;  // as the config lists them
  std::vector<std::int32_t> ids;    // of CompressedTokens
  std::int64_t pad = 0;
  std::int64_t max_ngram = 0, head_dim = 0, kernel_size = 0;
  double norm_eps = 0;
  bool across_documents = false;

  // Returns the tables before that layer; null if it has none.
  const EngramLayer* find(std::int64_t layer) const;
};

using CompressTokens = std::function<CompressedTokens(std::int64_t vocabulary)>;

// Reads the engram_* keys of a model. Returns nothing if engram_layers is empty; then `tokens` may
// be null. Throws UserError (exit 2) with the key for: a layer outside the stack or given twice, a
// number of bases that is not one per length, tables that are too large, missing tokens to
// compress, a missing pad.
std::optional<Engram> read_engram(const registry::ModelConfig& config,
                                  const CompressTokens& tokens);

}  // namespace lamina::decoder
