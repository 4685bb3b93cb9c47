// Rows of keys and values as operands of the products of one_token.h. Device code.
//
// A form of rows has the loads of a lane, in the layout of the products: t is the number of the
// lane in its quad. Keys and queries may have their channels in any order that they share, and
// channels of the results have the order of the values.
#pragma once

#include "backends/cuda/attention/matrices.h"
#include "backends/cuda/stored/row_numbers.h"

namespace lamina::cuda {

// 8 numbers as the registers of a product.
using ProductWords = gpu::Vector<std::uint32_t, 4>;

// Rows of kRowWidth numbers of 16 bits: a lane reads 16 bytes at a time.
template <int kRowWidth>
struct WordRows {
  static constexpr int kWidth = kRowWidth, kOwn = kWidth / 8;
  static constexpr bool kHasScales = false;
  // Wider heads have no registers for keys and values at once.
  static constexpr bool kLoadsTogether = kWidth <= 128;

  using KeyPiece = ProductWords;  // 8 channels of a key
  struct Value {                  // the channels of a lane: quad kOwn and the following
    ProductWords words[kOwn / 8];
  };

  static LAMINA_GPU_FUNCTION ProductWords load(gpu::Address x, std::int64_t i) {
    return gpu::load_vector<4>(gpu::Global<const std::uint32_t>(x), i / 2);
  }
  // Piece c of the query at q[at].
  static LAMINA_GPU_FUNCTION ProductWords load_query(gpu::Address q, std::int64_t at, int c,
                                                     int t) {
    return load(q, at + c * 32 + t * 8);
  }
  static LAMINA_GPU_FUNCTION KeyPiece load_key(gpu::Address k, std::int64_t row, int c, int t) {
    return load(k, row * kWidth + c * 32 + t * 8);
  }
  static LAMINA_GPU_FUNCTION ProductWords words(const KeyPiece& piece) { return piece; }

  static LAMINA_GPU_FUNCTION void load_value(gpu::Address v, std::int64_t row, int quad,
                                             Value& to) {
    LAMINA_GPU_UNROLL
    for (int c = 0; c < kOwn / 8; ++c) to.words[c] = load(v, row * kWidth + quad * kOwn + c * 8);
  }
  // Returns channel `own` of two values.
  static LAMINA_GPU_FUNCTION std::uint32_t pair(const Value& a, const Value& b, int own) {
    const std::uint32_t low = a.words[own / 8].values[own % 8 / 2],
                        high = b.words[own / 8].values[own % 8 / 2];
    return own % 2 == 0 ? (low & 0xffffu) | high << 16 : low >> 16 | (high & 0xffff0000u);
  }
  // Returns the channel of a result; groups of 4 are neighbours.
  static LAMINA_GPU_FUNCTION int channel(int quad, int own) { return quad * kOwn + own; }
};

// Rows of formats/row_formats.h, which begin at multiples of 4 bytes: a lane reads 4 numbers at a
// time. They are exact in bf16, and their scales are factors of logits and probabilities.
template <typename Number, int kRowWidth>
struct NumberRows {
  static constexpr int kWidth = kRowWidth, kOwn = kWidth / 8;
  static constexpr int kRowWords = kWidth / 4 + 1;  // the first one is the scale
  static constexpr bool kHasScales = true, kLoadsTogether = kWidth <= 128;

  struct KeyPiece {
    std::uint32_t words[2];
  };
  struct Value {
    std::uint32_t words[kOwn / 4];
  };

  static LAMINA_GPU_FUNCTION std::uint32_t word_at(gpu::Address x, std::int64_t row, int word) {
    return gpu::Global<const std::uint32_t>(x)[row * kRowWords + word];
  }
  static LAMINA_GPU_FUNCTION float scale(gpu::Address x, std::int64_t row) {
    return stored::float_of_bits(word_at(x, row, 0));
  }

  static LAMINA_GPU_FUNCTION ProductWords load_query(gpu::Address q, std::int64_t at, int c,
                                                     int t) {
    const gpu::Global<const std::uint32_t> words(q);
    const auto low = gpu::load_vector<2>(words, (at + c * 32 + 4 * t) / 2);
    const auto high = gpu::load_vector<2>(words, (at + c * 32 + 16 + 4 * t) / 2);
    return {low.values[0], low.values[1], high.values[0], high.values[1]};
  }
  static LAMINA_GPU_FUNCTION KeyPiece load_key(gpu::Address k, std::int64_t row, int c, int t) {
    return {word_at(k, row, 1 + c * 8 + t), word_at(k, row, 1 + c * 8 + 4 + t)};
  }
  static LAMINA_GPU_FUNCTION ProductWords words(const KeyPiece& piece) {
    ProductWords out;
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t numbers = piece.words[i / 2] >> i % 2 * 16;
      out.values[i] = pair_of_numbers(numbers, numbers >> 8);
    }
    return out;
  }

  static LAMINA_GPU_FUNCTION void load_value(gpu::Address v, std::int64_t row, int quad,
                                             Value& to) {
    LAMINA_GPU_UNROLL
    for (int i = 0; i < kOwn / 4; ++i) to.words[i] = word_at(v, row, 1 + i * 8 + quad);
  }
  static LAMINA_GPU_FUNCTION std::uint32_t pair(const Value& a, const Value& b, int own) {
    return pair_of_numbers(a.words[own / 4] >> own % 4 * 8, b.words[own / 4] >> own % 4 * 8);
  }
  static LAMINA_GPU_FUNCTION int channel(int quad, int own) {
    return own / 4 * 32 + quad * 4 + own % 4;
  }

 private:
  // Returns the numbers of two low bytes in bf16, whose bits are the upper ones of floats.
  static LAMINA_GPU_FUNCTION std::uint32_t pair_of_numbers(std::uint32_t low, std::uint32_t high) {
    return stored::bits_of_float(Number::widen(low)) >> 16 |
           (stored::bits_of_float(Number::widen(high)) & 0xffff0000u);
  }
};

}  // namespace lamina::cuda
