// The matrix product of the attention kernels by a unit of tiles (gemm/tile_unit.h), for words of
// two bf16 (products.h). Internal to each file that includes it.
//
// A sum over the depth is divided into pieces of 16 words from 0 on, as in all products by a unit.
#pragma once

#include <algorithm>
#include <cstring>

#include "backends/cpu/attention/product.h"
#include "backends/cpu/gemm/tile_unit.h"

namespace lamina::cpu {
namespace {

// Rows, columns and words of a tile.
constexpr std::int64_t kUnitSide = 16;
constexpr int kUnitColumnTiles = 4;

// Tiles 0 to 3 contain sums, 4 and 5 words of A, 6 and 7 words of B. Tiles 5 and 7 are for the last
// words of the depth, if they do not fill a tile.
inline TileShapes product_shapes(std::int64_t rows, std::int64_t last_words) {
  const auto r = static_cast<std::uint8_t>(rows), last = static_cast<std::uint8_t>(last_words);
  const auto last_bytes = static_cast<std::uint8_t>(4 * last_words);
  const auto last_rows = static_cast<std::uint8_t>(last > 0 ? rows : 0);
  return {.rows = {r, r, r, r, r, last_rows, 16, last},
          .row_bytes = {64, 64, 64, 64, 64, last_bytes, 64, 64}};
}

// Up to 16 rows of A for one piece of the depth.
template <class V, bool kAcross>
class PieceOfA {
 public:
  // Takes rows [row, row + rows) and words [word, word + words).
  PieceOfA(const Product& p, std::int64_t row, std::int64_t rows, std::int64_t word,
           std::int64_t words) {
    if constexpr (!kAcross) {
      data_ = p.a + row * p.a_stride + word;
      step_bytes_ = p.a_stride * 4;
    } else {
      typename V::F lanes[kUnitSide] = {};
      for (std::int64_t k = 0; k < words; ++k) {
        const Word* from = p.a + (word + k) * p.a_stride + row;
        if (rows == kUnitSide) {
          lanes[k] = V::load(from);
        } else {
          Word padded[kUnitSide] = {};
          std::memcpy(padded, from, static_cast<std::size_t>(rows) * sizeof(Word));
          lanes[k] = V::load(padded);
        }
      }
      V::transpose(lanes);
      for (std::int64_t r = 0; r < rows; ++r) V::store(copy_[r], lanes[r]);
      data_ = copy_[0];
      step_bytes_ = kUnitSide * 4;
    }
  }
  const Word* data() const { return data_; }
  std::int64_t step_bytes() const { return step_bytes_; }

 private:
  const Word* data_;
  std::int64_t step_bytes_;
  alignas(64) Word copy_[kAcross ? kUnitSide : 1][kUnitSide];
};

// Calls body<c>() for the tiles of sums c below `count`.
template <typename Body>
void for_column_tiles(int count, const Body& body) {
  const auto call = [&]<int kC>() {
    if (kC < count) body.template operator()<kC>();
  };
  call.template operator()<0>();
  call.template operator()<1>();
  call.template operator()<2>();
  call.template operator()<3>();
}

// Adds the products of tile a with `count` tiles of B from `b` on to the sums.
template <class Unit, int kA, int kB>
void add_columns(const Word* b, std::int64_t step_bytes, int count) {
  for_column_tiles(count, [&]<int kC>() {
    Unit::template load<kB>(b + kC * kUnitSide, step_bytes);
    Unit::template multiply_bf16<kC, kA, kB>();
  });
}

// Stores one tile of sums to C as p.store requires.
template <class V>
void finish_tile(const Product& p, const float* sums, std::int64_t row, std::int64_t rows,
                 std::int64_t column) {
  const typename V::F factors =
      p.store == Store::rescaled ? V::load(p.column_factors + column) : V::set(p.factor);
  for (std::int64_t r = 0; r < rows; ++r) {
    float* out = p.c + (row + r) * p.c_stride + column;
    const typename V::F sum = V::load(sums + r * kUnitSide);
    if (p.store == Store::scaled)
      V::store(out, sum * factors);
    else if (p.store == Store::add)
      V::store(out, V::load(out) + sum);
    else
      V::store(out, V::multiply_add(V::load(out), factors, sum));
  }
}

template <class Unit, class V>
void finish_tiles(const Product& p, std::int64_t row, std::int64_t rows, std::int64_t column,
                  int count) {
  alignas(64) float sums[kUnitColumnTiles][kUnitSide * kUnitSide];
  for_column_tiles(count, [&]<int kC>() { Unit::template store<kC>(sums[kC], kUnitSide * 4); });
  for (int c = 0; c < count; ++c) finish_tile<V>(p, sums[c], row, rows, column + c * kUnitSide);
}

// REQUIRES: p.columns is a multiple of 16.
template <class Unit, class V, bool kAcross>
void run_unit_product(const Product& p) {
  const std::int64_t last_words = p.depth % kUnitSide, whole = p.depth - last_words;
  std::int64_t configured = 0;
  for (std::int64_t row = 0; row < p.rows; row += kUnitSide) {
    const std::int64_t rows = std::min(kUnitSide, p.rows - row);
    if (rows != configured) Unit::configure(product_shapes(rows, last_words));
    configured = rows;
    for (std::int64_t column = 0; column < p.columns; column += kUnitColumnTiles * kUnitSide) {
      const auto count = static_cast<int>(
          std::min<std::int64_t>(kUnitColumnTiles, (p.columns - column) / kUnitSide));
      for_column_tiles(count, []<int kC>() { Unit::template zero<kC>(); });
      for (std::int64_t word = 0; word < whole; word += kUnitSide) {
        const PieceOfA<V, kAcross> a(p, row, rows, word, kUnitSide);
        Unit::template load<4>(a.data(), a.step_bytes());
        add_columns<Unit, 4, 6>(p.b + word * p.b_stride + column, p.b_stride * 4, count);
      }
      if (last_words > 0) {
        const PieceOfA<V, kAcross> a(p, row, rows, whole, last_words);
        Unit::template load<5>(a.data(), a.step_bytes());
        add_columns<Unit, 5, 7>(p.b + whole * p.b_stride + column, p.b_stride * 4, count);
      }
      finish_tiles<Unit, V>(p, row, rows, column, count);
    }
  }
  if (configured > 0) Unit::release();
}

}  // namespace
}  // namespace lamina::cpu
