// Random values in blocks, with scales of a chosen size, for tests of kernels that read blocks.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "core/float16.h"
#include "formats/block_formats.h"

namespace lamina::testing {

// A factor of a block's values.
struct ScalePlace {
  enum class Type { e8m0, f16, bf16, f32, zero_point_f16, zero_point_bf16, divisor_f32 };
  int at;
  Type type;
};

inline std::vector<ScalePlace> scales_of(const formats::BlockFormat& format) {
  using enum ScalePlace::Type;
  const std::string_view name = format.name;
  if (name == "MXFP4") return {{0, e8m0}};
  if (name == "NVFP4") return {{0, divisor_f32}};
  if (name.starts_with("FP8")) return {{0, f32}};
  if (name.starts_with("INT")) {
    const bool half = name.ends_with("_F16");
    if (!name.starts_with("INT4Z")) return {{0, half ? f16 : bf16}};
    return {{0, half ? f16 : bf16}, {2, half ? zero_point_f16 : zero_point_bf16}};
  }
  if (name == "Q2_K") return {{80, f16}, {82, f16}};
  if (name == "Q3_K") return {{108, f16}};
  if (name == "Q6_K") return {{208, f16}};
  if (name.ends_with("_1") || name == "Q4_K" || name == "Q5_K") return {{0, f16}, {2, f16}};
  return {{0, f16}};
}

// Returns whether scales have the exponents of f32.
inline bool has_wide_scale(const formats::BlockFormat& format) {
  return scales_of(format)[0].type != ScalePlace::Type::f16;
}

inline void set_scale(const ScalePlace& place, std::byte* block, float scale) {
  const auto put = [&](auto value) { std::memcpy(block + place.at, &value, sizeof value); };
  switch (place.type) {
    case ScalePlace::Type::e8m0:
      return put(static_cast<std::uint8_t>(127 + std::ilogb(scale)));
    case ScalePlace::Type::f16:
      return put(to_float16(scale));
    case ScalePlace::Type::bf16:
      return put(to_bfloat16(scale));
    case ScalePlace::Type::f32:
      return put(scale);
    case ScalePlace::Type::zero_point_f16:
      return put(to_float16(7));
    case ScalePlace::Type::zero_point_bf16:
      return put(to_bfloat16(7));
    case ScalePlace::Type::divisor_f32:
      return put(1 / scale);
  }
}

// E4M3 has numbers that are NaN; replaces them in scales, and with `values` everywhere.
inline void remove_nans(const formats::BlockFormat& format, std::vector<std::byte>& blocks,
                        bool values = true) {
  const bool fp8 = format.name.starts_with("FP8");
  if (format.name != "NVFP4" && !(fp8 && values)) return;
  const int past = fp8 ? format.num_bytes : 8;
  for (std::size_t at = 0; at < blocks.size(); at += static_cast<std::size_t>(format.num_bytes))
    for (int i = 4; i < past; ++i)
      if (std::byte& b = blocks[at + static_cast<std::size_t>(i)];
          (b & std::byte{127}) == std::byte{127})
        b = std::byte{0};
}

// Blocks for `count` values with scales of about this size and without NaN among the scales; every
// byte of the rest occurs.
inline std::vector<std::byte> random_blocks(const formats::BlockFormat& format, std::int64_t count,
                                            unsigned seed, float scale = 0x1p-6f) {
  std::mt19937 random(seed);
  std::vector<std::byte> out(static_cast<std::size_t>(format.bytes_of(count)));
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
  for (std::size_t at = 0; at < out.size(); at += static_cast<std::size_t>(format.num_bytes)) {
    const float of_block = scale * static_cast<float>(1 + random() % 4);
    for (const ScalePlace& place : scales_of(format)) set_scale(place, out.data() + at, of_block);
  }
  remove_nans(format, out, false);
  return out;
}

}  // namespace lamina::testing
