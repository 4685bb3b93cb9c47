// Rows of tokens in chunks, for kernels whose work is many small products: the chunks, which end at
// the end of a document, and matrices of f32 in scratch memory. Internal to each file that includes
// it.
#pragma once

#include <cstdint>

#include "backends/cpu/attention/products.h"
#include "backends/cpu/simd/math.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

// ---- Chunks -------------------------------------------------------------------------------------

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

// ---- Matrices of f32, whose rows have a multiple of 16 numbers ----------------------------------

using NativeVectors = Vectors<kNativeBytes / 4>;

// A matrix of f32 rows, or with `across` its transpose.
struct Left {
  const float* data;
  std::int64_t stride;
  bool across = false;
};
inline Left across(const float* data, std::int64_t stride) { return {data, stride, true}; }

struct Size3 {
  std::int64_t rows, columns, depth;  // columns: a multiple of 16
};

// Computes c (+)= a b; rows of c and b have the same stride.
inline void multiply(Size3 size, Left a, const float* b, float* c, std::int64_t stride, Store store,
                     const float* column_factors = nullptr) {
  if (size.depth == 0 && store == Store::add) return;
  const Product p{.rows = size.rows,
                  .columns = size.columns,
                  .depth = size.depth,
                  .a = reinterpret_cast<const Word*>(a.data),
                  .a_stride = a.stride,
                  .b = reinterpret_cast<const Word*>(b),
                  .b_stride = stride,
                  .c = c,
                  .c_stride = stride,
                  .store = store,
                  .factor = 1,
                  .column_factors = column_factors};
  a.across ? run_product<NativeVectors, false, true>(p)
           : run_product<NativeVectors, false, false>(p);
}

// Sets to[j, i] = from[i, j] for whole vectors of rows and columns.
inline void transpose(const float* from, std::int64_t rows, std::int64_t columns,
                      std::int64_t from_stride, float* to, std::int64_t to_stride) {
  constexpr int L = NativeVectors::kLanes;
  for (std::int64_t i = 0; i < rows; i += L)
    for (std::int64_t j = 0; j < columns; j += L) {
      NativeVectors::F tile[L];
      for (int r = 0; r < L; ++r) tile[r] = NativeVectors::load(from + (i + r) * from_stride + j);
      NativeVectors::transpose(tile);
      for (int r = 0; r < L; ++r) NativeVectors::store(to + (j + r) * to_stride + i, tile[r]);
    }
}

// Clears a row of n numbers, n a multiple of 16.
inline void clear(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) store(x + i, splat(0.0f));
}
inline void fill(float* x, std::int64_t n, float value) {
  for (std::int64_t i = 0; i < n; i += kLanes) store(x + i, splat(value));
}
inline void copy(const float* from, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; i += kLanes) store(to + i, load(from + i));
}
inline void times(const float* x, float by, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; i += kLanes) store(to + i, load(x + i) * splat(by));
}
inline void add_times(const float* x, float by, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; i += kLanes)
    store(to + i, fma(load(x + i), splat(by), load(to + i)));
}
inline float dot(const float* a, const float* b, std::int64_t n) {
  Float sum = splat(0.0f);
  for (std::int64_t i = 0; i < n; i += kLanes) sum = fma(load(a + i), load(b + i), sum);
  return sum_lanes(sum);
}

inline float exponential(float x) {
  float lanes[kLanes];
  store(lanes, exp(splat(x)));
  return lanes[0];
}
inline float one_over_root(float x) {
  float lanes[kLanes];
  store(lanes, splat(1.0f) / sqrt(splat(x)));
  return lanes[0];
}

}  // namespace
}  // namespace lamina::cpu
