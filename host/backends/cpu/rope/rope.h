// Rotary position embeddings: the table of cosines and sines, and the rotation of heads by it
// (Su et al. 2021).
//
//   RopeFrequencies f = rope_frequencies({.rotary_dim = 64, .theta = 1e4}, tokens);
//   rope_table({.positions = positions, .num_tokens = tokens, .inv_freq = f.inv_freq.data(),
//               .num_frequencies = 32, .attention_factor = f.attention_factor,
//               .cos = cos, .sin = sin});
//   rope_apply({.dtype = DType::bf16, .num_tokens = tokens, .num_heads = 8, .head_dim = 64,
//               .rotary_dim = 64, .x = q, .x_strides = {512, 64}, .y = q, .y_strides = {512, 64},
//               .cos = cos, .sin = sin});
//
// Nothing is allocated, and no result depends on the number of threads. [any thread]
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace lamina::cpu {

struct RopeTable {
  const std::int32_t* positions;  // [axes, num_tokens]
  std::int64_t num_tokens;
  const float* inv_freq;         // [num_frequencies]
  std::int64_t num_frequencies;  // rotary_dim / 2
  // Which row of positions each frequency uses (M-RoPE: 0 time, 1 height, 2 width); null: row 0.
  const std::uint8_t* axis_of_frequency = nullptr;
  float attention_factor = 1.0f;  // multiplies both
  float* cos;                     // [num_tokens, num_frequencies]
  float* sin;
};
// The angle is f32(position) * inv_freq rounded to f32, as Hugging Face computes it.
void rope_table(const RopeTable& p);

enum class RopePairs : std::uint8_t {
  half_split,   // channels i and i + rotary_dim / 2 turn together
  interleaved,  // channels 2i and 2i + 1
};

struct HeadStrides {
  std::int64_t token, head;  // in elements; channels of a head are adjacent
};

struct RopeApply {
  DType dtype;              // of x and y: f32, bf16 (arithmetic in f32) or f64
  std::int64_t num_tokens;  // of all sequences together
  std::int64_t num_heads;
  std::int64_t head_dim;
  std::int64_t rotary_dim;        // even, at most head_dim
  std::int64_t first_rotary = 0;  // channels before it and behind the rotary ones are copied
  RopePairs pairs = RopePairs::half_split;
  bool inverse = false;  // turns back: the gradient of a rotation
  const void* x;
  HeadStrides x_strides;
  void* y;  // may be x, with the same strides
  HeadStrides y_strides;
  const float* cos;  // [num_tokens, rotary_dim / 2]
  const float* sin;
  // Rows of the table repeat after so many tokens (sequences of a batch that share positions);
  // 0: one row per token.
  std::int64_t table_period = 0;
};
void rope_apply(const RopeApply& p);

}  // namespace lamina::cpu
