// Rows of n-grams: integer arithmetic, bound by memory. A thread computes the rows of one token.
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/ngram/params.h"

namespace lamina::cuda {
namespace {

// Returns the compressed id of a token. Negative ids are returned unchanged; ids beyond the table's
// end count as its last row.
LAMINA_GPU_FUNCTION std::int32_t compressed_id(const NgramParams& p, std::int64_t place) {
  const std::int32_t token = gpu::Global<const std::int32_t>(p.tokens)[place];
  if (token < 0 || p.entries == 0) return token;
  const gpu::Global<const std::int32_t> table(p.table);
  return table[token < p.entries ? token : p.entries - 1];
}

// Returns the id at `place` of a row: before 0 are the ids of the history, if any.
LAMINA_GPU_FUNCTION std::int32_t id_at(const NgramParams& p, std::int64_t row, std::int64_t place) {
  if (place >= 0) return compressed_id(p, row * p.num_tokens + place);
  const gpu::Global<const std::int32_t> history(p.history);
  if (!history || gpu::Global<const std::int32_t>(p.start)[row] == 0) return p.pad;
  const std::int64_t kept = p.length - 1;
  return history[row * kept + kept + place];
}

LAMINA_GPU_FUNCTION void hash_token(const NgramParams& p, std::int64_t row, std::int64_t t) {
  const gpu::Global<const std::int32_t> segments(p.segments);
  const std::int64_t at = row * p.num_tokens + t;
  const auto id = [&](int back) {
    if (segments && (t < back || segments[at - back] != segments[at])) return p.pad;
    return id_at(p, row, t - back);
  };
  // Wraps, as the reference's 32-bit integers do.
  std::uint32_t hash = static_cast<std::uint32_t>(id(0)) * p.multipliers[0];
  const gpu::Global<std::int32_t> rows = gpu::Global<std::int32_t>(p.rows) + at * p.heads;
  const int per_length = p.heads / (p.length - 1);
  std::int64_t offset = 0;
  for (int back = 1, head = 0; back < p.length; ++back) {
    hash ^= static_cast<std::uint32_t>(id(back)) * p.multipliers[back];
    for (int i = 0; i < per_length; ++i, ++head) {
      const std::int64_t rest = static_cast<std::int32_t>(hash) % p.sizes[head];
      rows[head] = static_cast<std::int32_t>(offset + rest + (rest < 0 ? p.sizes[head] : 0));
      offset += p.sizes[head];
    }
  }
}

}  // namespace

LAMINA_GPU_KERNEL(ngram_rows, NgramParams) {
  for (std::int64_t i = gpu::first_index(); i < p.batch * p.num_tokens; i += gpu::num_indices())
    hash_token(p, i / p.num_tokens, i % p.num_tokens);
}

// A thread moves the history of one row. It reads ahead of its writes, so that both may be the same
// memory.
LAMINA_GPU_KERNEL(ngram_history, NgramParams) {
  const gpu::Global<std::int32_t> out(p.history_out);
  const std::int64_t kept = p.length - 1;
  for (std::int64_t row = gpu::first_index(); row < p.batch; row += gpu::num_indices()) {
    const std::int64_t valid = gpu::Global<const std::int32_t>(p.count)[row];
    for (std::int64_t i = 0; i < kept; ++i) out[row * kept + i] = id_at(p, row, valid + i - kept);
  }
}

}  // namespace lamina::cuda
