// Tiles of 64 tokens as operands of the products of the attention kernels: the copies of tokens,
// and the products in the open cells. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/cached_rows.h"
#include "backends/cpu/attention/cells.h"
#include "backends/cpu/attention/products.h"
#include "backends/cpu/simd/memory.h"
#include "backends/cpu/threads/scratch.h"

namespace lamina::cpu {
namespace {

// Addresses of up to 64 tokens; null: a row of zeros.
template <class T>
struct Tokens {
  const T* row[kTile];

  void from_queries(const AttentionInput& x, const Sizes& sizes, std::int64_t b,
                    std::int64_t kv_head, std::int64_t first_row) {
    const T* base = static_cast<const T*>(x.data) + b * x.strides.batch +
                    kv_head * sizes.group * x.strides.head;
    RowCursor r(sizes, first_row);
    for (std::int64_t i = 0; i < kTile; ++i, r.next())
      row[i] = first_row + i < sizes.rows ? base + r.t * x.strides.token + r.g * x.strides.head
                                          : nullptr;
  }
  void from_keys(const AttentionInput& x, const Side& keys, std::int64_t b, std::int64_t kv_head,
                 std::int64_t first_key) {
    const T* base = static_cast<const T*>(x.data) + b * x.strides.batch + kv_head * x.strides.head +
                    first_key * x.strides.token;
    for (std::int64_t i = 0; i < kTile; ++i)
      row[i] =
          i < keys.count && keys.position[i] != kNoPosition ? base + i * x.strides.token : nullptr;
  }
};

// Prefetches part `part` of `parts` of the tokens [first, first + 64) of a head, except those that
// do not exist.
inline void prefetch_tokens(const AttentionInput& x, std::int64_t element_bytes, std::int64_t dim,
                            std::int64_t b, std::int64_t head, std::int64_t first, std::int64_t end,
                            std::int64_t part, std::int64_t parts) {
  const auto* base = static_cast<const char*>(x.data) +
                     (b * x.strides.batch + head * x.strides.head) * element_bytes;
  const std::int64_t last = min(end, first + kTile * (part + 1) / parts);
  for (std::int64_t t = first + kTile * part / parts; t < last; ++t)
    for (std::int64_t i = 0; i < dim * element_bytes; i += 64)
      __builtin_prefetch(base + t * x.strides.token * element_bytes + i, 0, 2);
}

// Prefetches the 64 rows of queries (or of their outputs, for writing) from first_row.
template <bool kWrite>
void prefetch_rows(const void* data, const AttentionStrides& strides, std::int64_t element_bytes,
                   std::int64_t dim, const Sizes& sizes, std::int64_t b, std::int64_t kv_head,
                   std::int64_t first_row) {
  const auto* base = static_cast<const char*>(data) +
                     (b * strides.batch + kv_head * sizes.group * strides.head) * element_bytes;
  RowCursor row(sizes, first_row);
  for (std::int64_t i = first_row; i < min(sizes.rows, first_row + kTile); ++i, row.next()) {
    const char* p = base + (row.t * strides.token + row.g * strides.head) * element_bytes;
    for (std::int64_t j = 0; j < dim * element_bytes; j += 64)
      if constexpr (kWrite)
        prefetch_for_writing(p + j);
      else
        __builtin_prefetch(p + j, 0, 2);
  }
}

// Memory for tokens made from the numbers of rows that are not plain.
template <class T>
struct CachedNumbers {
  T* elements;     // [64, dim]
  float* widened;  // [dim]
};

// Makes tokens of the numbers of up to 64 keys, and sets their scales, 0 for keys that do not
// exist.
template <class V, class S, class T>
void tokens_from_numbers(const AttentionInput& x, const Side& keys, std::int64_t b,
                         std::int64_t kv_head, std::int64_t first_key, std::int64_t dim,
                         const CachedNumbers<T>& to, Tokens<T>& tokens, float* scales) {
  const S* row = static_cast<const S*>(x.data) + b * x.strides.batch + kv_head * x.strides.head +
                 first_key * x.strides.token + kRowHead<S>;
  for (std::int64_t i = 0; i < kTile; ++i, row += x.strides.token) {
    tokens.row[i] = nullptr;
    scales[i] = 0;
    if (i >= keys.count || keys.position[i] == kNoPosition) continue;
    T* elements = to.elements + i * dim;
    if constexpr (sizeof(T) == 4) {
      numbers_to_floats<V>(row, dim, elements);
    } else {
      numbers_to_floats<V>(row, dim, to.widened);
      narrow_row(reinterpret_cast<const Word*>(to.widened), dim, elements);
    }
    tokens.row[i] = elements;
    scales[i] = row_scale(row);
  }
}

// Copies of tokens as operands. T: float, or uint16_t for bf16.
template <class V, class T, bool kPairs>
struct Operands {
  static constexpr int L = V::kLanes;
  static std::int64_t words(std::int64_t dim) { return kPairs ? divide_up(dim, 2) : dim; }
  // Number of words along the tokens of a tile.
  static constexpr std::int64_t kDepth = kPairs ? kTile / 2 : kTile;
  static constexpr std::int64_t kCellDepth = kPairs ? kCell / 2 : kCell;

  static void copy_row(const T* src, std::int64_t dim, Word* dst) {
    if constexpr (kPairs) {
      std::memcpy(dst, src, static_cast<std::size_t>(dim) * 2);
      if (dim % 2) dst[dim / 2] = src[dim - 1];
    } else if constexpr (sizeof(T) == 4) {
      std::memcpy(dst, src, static_cast<std::size_t>(dim) * 4);
    } else {
      widen_row(src, dim, dst);
    }
  }

  // Makes dst[token][stride], with dims as neighbours.
  static void rows(const Tokens<T>& tokens, std::int64_t count, std::int64_t dim,
                   std::int64_t stride, Word* dst) {
    for (std::int64_t i = 0; i < count; ++i, dst += stride) {
      if (tokens.row[i])
        copy_row(tokens.row[i], dim, dst);
      else
        std::memset(dst, 0, static_cast<std::size_t>(words(dim)) * sizeof(Word));
    }
  }

  // Makes dst[token (pair)][width], with tokens as neighbours and zeros beyond dim.
  static void across(const Tokens<T>& tokens, std::int64_t count, std::int64_t dim,
                     std::int64_t width, Word* dst) {
    if constexpr (!kPairs) {
      rows(tokens, count, dim, width, dst);
      for (std::int64_t i = 0; i < count && dim < width; ++i)
        std::memset(dst + i * width + dim, 0, static_cast<std::size_t>(width - dim) * sizeof(Word));
    } else {
      for (std::int64_t i = 0; i < count; i += 2, dst += width) {
        const T* low = tokens.row[i];
        const T* high = tokens.row[i + 1];
        if (low && high)
          for (std::int64_t h = 0; h < dim; ++h)
            dst[h] = low[h] | static_cast<std::uint32_t>(high[h]) << 16;
        else
          for (std::int64_t h = 0; h < dim; ++h)
            dst[h] = (low ? low[h] : 0u) | (high ? static_cast<std::uint32_t>(high[h]) << 16 : 0u);
        for (std::int64_t h = dim; h < width; ++h) dst[h] = 0;
      }
    }
  }

  // Makes dst[word of the dim][64 tokens]; staging has 64 * round_up(words(dim), 16) words.
  static void columns(const Tokens<T>& tokens, std::int64_t dim, Word* staging, Word* dst) {
    const std::int64_t num = words(dim), stride = round_up(num, kCell);
    rows(tokens, kTile, dim, stride, staging);
    transpose(staging, stride, kTile, num, dst, kTile);
  }

  // Sets dst[j][i] = src[i][j] for i < rows (a multiple of 16), j < columns; reads whole vectors of
  // src.
  static void transpose(const Word* src, std::int64_t src_stride, std::int64_t num_rows,
                        std::int64_t columns, Word* dst, std::int64_t dst_stride) {
    for (std::int64_t i = 0; i < num_rows; i += L)
      for (std::int64_t j = 0; j < columns; j += L) {
        typename V::F block[L];
#pragma GCC unroll 16
        for (int r = 0; r < L; ++r) block[r] = V::load(src + (i + r) * src_stride + j);
        V::transpose(block);
        if (j + L <= columns) {
#pragma GCC unroll 16
          for (int r = 0; r < L; ++r) V::store(dst + (j + r) * dst_stride + i, block[r]);
        } else {
          for (int r = 0; r < columns - j; ++r) V::store(dst + (j + r) * dst_stride + i, block[r]);
        }
      }
  }

  static void store_row(const Word* src, std::int64_t dim, T* dst) {
    if constexpr (sizeof(T) == 4)
      std::memcpy(dst, src, static_cast<std::size_t>(dim) * 4);
    else
      narrow_row(src, dim, dst);
  }
};

// The copy of keys or values with tokens as neighbours, A of a product whose sum runs over tokens.
// A matrix unit reads it by rows: then the copy is transposed once for all blocks of rows.
template <class V, class T, bool kPairs>
struct AcrossTokens {
  using Ops = Operands<V, T, kPairs>;
  Word* words;       // [64 tokens or 32 pairs, width]
  Word* transposed;  // [width, 32 pairs]; null without pairs

  void take(Arena& arena, std::int64_t width) {
    words = arena.take<Word>(Ops::kDepth * width);
    transposed = kPairs ? arena.take<Word>(width * Ops::kDepth) : nullptr;
  }

  void set(const Tokens<T>& tokens, std::int64_t count, std::int64_t dim, std::int64_t width) {
    Ops::across(tokens, count, dim, width, words);
    if (uses_matrix_unit<kPairs>())
      Ops::transpose(words, width, Ops::kDepth, width, transposed, Ops::kDepth);
  }

  // Computes `product`, whose A begins at this cell.
  void multiply(Product product, std::int64_t cell, std::int64_t width) const {
    if (uses_matrix_unit<kPairs>()) {
      product.a = transposed + cell * Ops::kCellDepth;
      product.a_stride = Ops::kDepth;
      return run_product<V, kPairs, false>(product);
    }
    product.a = words + cell * Ops::kCellDepth * width;
    product.a_stride = width;
    run_product<V, kPairs, true>(product);
  }
};

// Sets out[key, row] of a run of cells to factor * keys[key] . columns[row], with keys [64, words],
// columns [words, 64] and out [64, 64].
template <class V, bool kPairs>
void multiply_cells(const CellRun& run, std::int64_t words, const Word* keys, const Word* columns,
                    float factor, float* out) {
  run_product<V, kPairs, false>({.rows = (run.end - run.begin) * kCell,
                                 .columns = (run.last - run.first) * kCell,
                                 .depth = words,
                                 .a = keys + run.begin * kCell * words,
                                 .a_stride = words,
                                 .b = columns + run.first * kCell,
                                 .b_stride = kTile,
                                 .c = out + run.begin * kCell * kTile + run.first * kCell,
                                 .c_stride = kTile,
                                 .store = Store::scaled,
                                 .factor = factor});
}

}  // namespace
}  // namespace lamina::cpu
