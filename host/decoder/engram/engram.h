// Engram, of any family: before some layers, rows of large tables that the last n-grams lead to are
// added to the residual stream. This is what its config comes to. DeepSeek-AI, "Conditional Memory
// via Scalable Lookup", 2026; the hash and the equations are MaxText's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "registry/model_config.h"

namespace lamina::decoder {

// The ids under which n-grams know tokens; see text::compress_tokens().
struct CompressedTokens {
  std::vector<std::int32_t> ids;  // by token id, the ids past its end as the last
  std::int64_t count = 0;         // of different ones: 0 to count - 1
  std::optional<std::int32_t> pad;
};

// Each token as itself, with 0 as the pad: for what does not depend on the tokenizer.
CompressedTokens uncompressed_tokens(std::int64_t vocabulary);

struct EngramLayer {
  std::int64_t layer = 0;                 // before which it stands
  std::vector<std::int64_t> multipliers;  // one a token of the longest n-gram
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

  // Null where nothing stands before that layer.
  const EngramLayer* find(std::int64_t layer) const;
};

using CompressTokens = std::function<CompressedTokens(std::int64_t vocabulary)>;

// The engram_* keys of a model; none where engram_layers is empty, and then `tokens`, which may be
// null, is not asked. Throws UserError (exit 2) that names the key: a layer outside the stack or
// twice, bases that are not one for each length, tables too large to count; and where n-grams are
// wanted and there are no tokens to compress, or no pad among them.
std::optional<Engram> read_engram(const registry::ModelConfig& config,
                                  const CompressTokens& tokens);

}  // namespace lamina::decoder
