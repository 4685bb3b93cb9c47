// Decides which keys a query may see, one pair at a time, and the positions of slots of a cache.
// Included by files compiled for several instruction sets, hence everything is internal.
#pragma once

#include <cstdint>

#include "backends/cpu/attention/attention.h"

namespace lamina::cpu {
namespace {

// Differences with any position fit in 32 bits.
constexpr std::int32_t kNoPosition = -(1 << 30);

// The positions and masks of one batch row.
struct RowMasks {
  const std::int32_t* q_positions;
  const std::int32_t* k_positions;
  const std::int32_t* q_segments;
  const std::int32_t* k_segments;
  const std::int32_t* q_blocks;
  const std::int32_t* k_blocks;
  const std::uint8_t* keep;  // [q_tokens, kv_tokens] of query head 0
  std::int64_t keep_head;    // elements from one head's mask to the next; 0: the heads share it
  std::int32_t q_start;      // the position of query 0 if there are no q_positions
  bool cached, ring;
  std::int32_t first;     // cached: the lowest position that a query may see
  std::int32_t last;      // cached: the position of the last new token
  std::int64_t capacity;  // cached: slots
  std::int64_t num_keys;  // only keys (slots) in [0, num_keys) can be seen

  std::int32_t q_position(std::int64_t t) const {
    return q_positions ? q_positions[t] : q_start + static_cast<std::int32_t>(t);
  }

  // Returns the position of slot s, or kNoPosition if no query of this row may see the slot: its
  // contents must not matter, and 0 times NaN is NaN.
  std::int32_t k_position(std::int64_t s) const {
    if (k_segments && k_segments[s] == 0) return kNoPosition;
    if (!cached) return k_positions ? k_positions[s] : static_cast<std::int32_t>(s);
    std::int64_t position = s;
    if (ring) position = last - (last - s % capacity + capacity) % capacity;
    return position < first || position > last ? kNoPosition : static_cast<std::int32_t>(position);
  }
};

inline RowMasks row_masks(const AttentionSpec& spec, const AttentionMasks& masks,
                          const AttentionCache* cache, std::int64_t b) {
  auto row = [b](const std::int32_t* p, std::int64_t tokens) { return p ? p + b * tokens : p; };
  RowMasks r{};
  r.num_keys = r.capacity = spec.kv_tokens;
  const std::int64_t pairs = spec.q_tokens * spec.kv_tokens;
  const std::int64_t adjacent = masks.keep_by_head ? spec.heads * pairs : pairs;
  r.keep = masks.keep ? masks.keep + b * (masks.keep_batch ? masks.keep_batch : adjacent) : nullptr;
  r.keep_head = masks.keep_by_head ? pairs : 0;
  if (cache) {
    r.cached = true;
    r.ring = cache->ring;
    r.q_start = cache->starts[b];
    if (spec.window > 0 && spec.window <= r.q_start)
      r.first = r.q_start + 1 - static_cast<std::int32_t>(spec.window);
    if (spec.chunk > 0 && spec.chunk <= r.q_start) {
      const std::int64_t chunk = r.q_start / spec.chunk * spec.chunk;
      r.first = r.first < chunk ? static_cast<std::int32_t>(chunk) : r.first;
    }
    r.last = r.q_start + static_cast<std::int32_t>(spec.q_tokens) - 1;
    if (r.last + 1 < r.num_keys) r.num_keys = r.last + 1;
    return r;
  }
  r.q_start = static_cast<std::int32_t>(spec.kv_tokens - spec.q_tokens);
  r.q_positions = row(masks.q_positions, spec.q_tokens);
  r.k_positions = row(masks.k_positions, spec.kv_tokens);
  r.q_segments = row(masks.q_segments, spec.q_tokens);
  r.k_segments = row(masks.k_segments, spec.kv_tokens);
  r.q_blocks = row(masks.q_blocks, spec.q_tokens);
  r.k_blocks = row(masks.k_blocks, spec.kv_tokens);
  return r;
}

// Returns element i of sinks, slopes or a table, as T; kernels that compute in f32 use f32.
template <class T>
T number_of(const void* data, DType dtype, std::int64_t i) {
  if (dtype == DType::f64) return static_cast<T>(static_cast<const double*>(data)[i]);
  if (dtype == DType::f32) return static_cast<T>(static_cast<const float*>(data)[i]);
  const std::uint32_t bits = std::uint32_t{static_cast<const std::uint16_t*>(data)[i]} << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return static_cast<T>(value);
}

// The definition of the mask, for query t of head n and key s of the row.
inline bool allowed(const AttentionSpec& spec, const RowMasks& row, std::int64_t n, std::int64_t t,
                    std::int64_t s) {
  const std::int32_t q = row.q_position(t), k = row.k_position(s);
  if (k == kNoPosition) return false;
  if (row.keep && !row.keep[n * row.keep_head + t * row.capacity + s]) return false;
  if (row.q_segments && (row.q_segments[t] != row.k_segments[s] || row.q_segments[t] == 0))
    return false;
  if (row.q_blocks && row.k_blocks[s] != 0 && row.q_blocks[t] == row.k_blocks[s]) return true;
  if (spec.causal && k > q) return false;
  if (spec.window > 0 && (k > q || q - k >= spec.window)) return false;
  if (spec.chunk > 0 && q / spec.chunk != k / spec.chunk) return false;
  return true;
}

}  // namespace
}  // namespace lamina::cpu
