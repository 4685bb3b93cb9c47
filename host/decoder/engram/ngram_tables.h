// The constants of Engram's n-gram hash: multipliers and table sizes. DeepSeek-AI, Engram:
// conditional memory by scalable lookup, 2026; bit for bit as in MaxText.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lamina::decoder {

// Returns `count` odd factors for the tokens of an n-gram in layer `layer`: 2 r + 1 with r the
// first draws of NumPy's default_rng(seed + 10007 layer).integers(0, half, dtype=int32), half such
// that the product with an id below `vocabulary` stays below 2^31. REQUIRES: vocabulary > 0, seed
// >= 0.
std::vector<std::int64_t> ngram_multipliers(std::int64_t vocabulary, std::int64_t seed,
                                            std::int64_t layer, std::int64_t count);

// Rows of every head's table: sizes[layer][n - 2][head] in the order of `layers`. Each is the next
// prime above the previous one (for the first of an order: at least bases[n - 2]) that no other
// head uses, so they depend on all layers and their order.
using NgramTableSizes = std::vector<std::vector<std::vector<std::int64_t>>>;
NgramTableSizes ngram_table_sizes(std::size_t layers, std::span<const std::int64_t> bases,
                                  std::int64_t heads);

}  // namespace lamina::decoder
