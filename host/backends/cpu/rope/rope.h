// Rotary position embeddings: the table of cosines and sines, and the rotation of heads by it
// (Su et al. 2021).
//
//   ops::RopeFrequencies f = ops::rope_frequencies({.rotary_dim = 64, .theta = 1e4}, tokens);
//   rope_table({.positions = positions, .num_tokens = tokens, .inv_freq = f.inv_freq.data(),
//               .num_frequencies = 32, .attention_factor = f.attention_factor,
//               .cos = cos, .sin = sin});
//   rope_apply({.dtype = DType::bf16, .num_tokens = tokens, .num_heads = 8, .head_dim = 64,
//               .rotary_dim = 64, .x = q, .y = q, .cos = cos, .sin = sin});
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
  // The row of positions for each frequency (M-RoPE: 0 time, 1 height, 2 width); null: row 0.
  const std::uint8_t* axis_of_frequency = nullptr;
  float attention_factor = 1.0f;  // multiplies both
  float* cos;                     // [num_tokens, num_frequencies]
  float* sin;
};
// The angle is f32(position) * inv_freq rounded to f32, as Hugging Face computes it.
void rope_table(const RopeTable& p);

enum class RopePairs : std::uint8_t {
  half_split,   // channels i and i + rotary_dim / 2 rotate together
  interleaved,  // channels 2i and 2i + 1
};

struct RopeApply {
  DType dtype;              // of x and y: f32, bf16 (arithmetic in f32) or f64
  std::int64_t num_tokens;  // of all sequences together
  std::int64_t num_heads;
  std::int64_t head_dim;
  std::int64_t rotary_dim;  // even, at most head_dim; channels after it are copied
  RopePairs pairs = RopePairs::half_split;
  bool inverse = false;  // rotates back: the gradient of a rotation
  const void* x;         // [num_tokens, num_heads, head_dim]
  void* y;               // may be x
  const float* cos;      // [num_tokens, rotary_dim / 2]
  const float* sin;
};
void rope_apply(const RopeApply& p);

// The functions of one instruction set, for tokens [begin, end). Private to this folder.
struct RopeFunctions {
  void (*table)(const RopeTable& p, std::int64_t begin, std::int64_t end);
  void (*apply)(const RopeApply& p, std::int64_t begin, std::int64_t end);

  static const RopeFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
