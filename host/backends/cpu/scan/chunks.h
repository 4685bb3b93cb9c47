// Divides rows of tokens into chunks that end at the end of a document. Internal to each file that
// includes it.
#pragma once

#include <cstdint>

namespace lamina::cpu {
namespace {

// Tokens [t, t + size) of a row; the state is reset before a fresh chunk.
struct TokenChunk {
  std::int64_t t, size;
  bool fresh;
  std::int64_t padded() const { return (size + 15) / 16 * 16; }
};

// A Problem has `tokens` per row and `segments` [batch, tokens], or null.
template <typename Problem>
bool begins_document(const Problem& p, std::int64_t b, std::int64_t t) {
  if (t == 0 || p.segments == nullptr) return t == 0;
  const std::int32_t* row = p.segments + b * p.tokens;
  return row[t] != row[t - 1];
}

// The chunk of at most kSize tokens that begins at t < end.
template <std::int64_t kSize, typename Problem>
TokenChunk chunk_at(const Problem& p, std::int64_t b, std::int64_t t, std::int64_t end) {
  TokenChunk chunk{t, 1, begins_document(p, b, t)};
  while (chunk.size < kSize && t + chunk.size < end && !begins_document(p, b, t + chunk.size))
    ++chunk.size;
  return chunk;
}
// Returns the chunk that ends before t > 0, with the same chunks as chunk_at().
template <std::int64_t kSize, typename Problem>
TokenChunk chunk_before(const Problem& p, std::int64_t b, std::int64_t t) {
  std::int64_t begin = t - 1;
  while (!begins_document(p, b, begin)) --begin;
  const std::int64_t start = begin + (t - 1 - begin) / kSize * kSize;
  return {start, t - start, start == begin};
}

}  // namespace
}  // namespace lamina::cpu
