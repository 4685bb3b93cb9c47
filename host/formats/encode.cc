#include "formats/encode.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/float16.h"
#include "formats/e4m3_bits.h"
#include "formats/fp4.h"
#include "formats/fp8.h"
#include "formats/lookup.h"
#include "formats/rounding.h"

namespace lamina::formats {
namespace {

using Byte = std::uint8_t;
constexpr int kLanes = 8;  // partial results, so that loops can be vectorised

// Formats of a name of --quantize, the largest blocks first.
struct Name {
  std::string_view name;
  std::array<std::string_view, 3> formats;
};

constexpr Name kNames[] = {
    {"int8", {"INT8_128", "INT8_64", "INT8_32"}},
    {"int4", {"INT4_32"}},
    {"int4-g64", {"INT4_64", "INT4_32"}},
    {"int4-g128", {"INT4_128", "INT4_64", "INT4_32"}},
    {"mxfp4", {"MXFP4"}},
    {"nvfp4", {"NVFP4"}},
    {"fp8", {"FP8", "FP8_32"}},
};

constexpr auto kWords = [] {
  std::array<std::string_view, std::size(kNames)> out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = kNames[i].name;
  return out;
}();

bool are_finite(std::span<const float> values) {
  std::uint32_t largest = 0;
  for (float v : values) largest = std::max(largest, std::bit_cast<std::uint32_t>(v) & 0x7fffffffu);
  return largest < 0x7f800000u;
}

// REQUIRES: `count` is a multiple of 8.
float largest_magnitude(const float* x, std::ptrdiff_t count) {
  std::array<float, kLanes> most{};
  for (std::ptrdiff_t i = 0; i < count; i += kLanes)
    for (int j = 0; j < kLanes; ++j) {
      const float size = std::fabs(x[i + j]);
      most[static_cast<std::size_t>(j)] = std::max(most[static_cast<std::size_t>(j)], size);
    }
  return *std::ranges::max_element(most);
}

// Four values at once. The compiler cannot vectorise comparisons, because they could trap.
using Four [[gnu::vector_size(16)]] = float;

Four four_at(const float* x) {
  Four out;
  std::memcpy(&out, x, sizeof out);
  return out;
}

// The functions below take floats and vectors.

template <typename T>
T smaller(T a, T b) {
  return a < b ? a : b;
}

template <typename T>
T size_of(T v) {
  return v < 0 ? -v : v;
}

// Returns the squared error of `round(x / scale) * scale`, in units of `most`, so that it is finite
// for values of any size. REQUIRES: `count` is a multiple of 8.
template <typename Round>
float squared_error(const float* x, int count, float most, float scale, const Round& round) {
  Four sums{}, more_sums{};
  const float inverse = 1 / scale;
  const auto square = [&](const float* at) {
    const Four v = four_at(at) * inverse, error = v - round(v);
    return error * error;
  };
  for (int i = 0; i < count; i += 8) {
    sums += square(x + i);
    more_sums += square(x + i + 4);
  }
  const Four sum = sums + more_sums;
  const float unit = scale / most;
  return (sum[0] + sum[1] + sum[2] + sum[3]) * unit * unit;
}

constexpr auto to_int4 = [](auto v) {
  using T = decltype(v);
  return rounded(smaller(-smaller(-v, T{} + 8), T{} + 7));
};

void write_scale(float scale, Byte* out) {
  const bfloat16 stored = to_bfloat16(scale);
  std::memcpy(out, &stored, sizeof stored);
}

void encode_int8(const float* x, int count, Byte* out) {
  const float most = largest_magnitude(x, count), scale = most == 0 ? 1 : usable_scale(most / 127);
  const float inverse = 1 / scale;
  write_scale(scale, out);
  for (int i = 0; i < count; ++i)
    out[2 + i] = static_cast<Byte>(
        static_cast<std::int32_t>(rounded(std::clamp(x[i] * inverse, -128.f, 127.f))));
}

void encode_int4(const float* x, int count, Byte* out) {
  const float most = largest_magnitude(x, count);
  const float scale = most == 0 ? 1 : best_int4_scale(most, [&](float candidate) {
    return squared_error(x, count, most, candidate, to_int4);
  });
  write_scale(scale, out);
  const float inverse = 1 / scale;
  const auto code = [&](float v) {
    return static_cast<unsigned>(static_cast<std::int32_t>(to_int4(v * inverse)) + 8);
  };
  for (int i = 0; i < count / 2; ++i)
    out[2 + i] = static_cast<Byte>(code(x[i]) | code(x[i + count / 2]) << 4);
}

// Returns the magnitude of the nearest E2M1 value: steps of 1/2 below 2, of 1 below 4, of 2 up
// to 6.
constexpr auto e2m1_size = [](auto size) {
  using T = decltype(size);
  const T halves = rounded(size * 2) * .5f, ones = rounded(size);
  const T twos = smaller(rounded(size * .5f) * 2, T{} + 6);
  return size < 2 ? halves : size < 4 ? ones : twos;
};

// Returns the squared error of E2M1 numbers with this scale.
float e2m1_error(const float* x, int count, float most, float scale) {
  return squared_error(x, count, most, scale, [](Four v) {
    const Four size = size_of(v), nearest = e2m1_size(size);
    return v < 0 ? -nearest : nearest;
  });
}

unsigned e2m1_code(float v) {
  return static_cast<unsigned>(e2m1_index(std::fabs(v)) + (std::signbit(v) ? 8 : 0));
}

void encode_mxfp4(const float* x, int count, Byte* out) {
  const float most = largest_magnitude(x, count);
  int exponent = 127;
  if (most > 0) {
    exponent = smaller_mxfp4_exponent(most);
    const auto error = [&](int of) {
      return e2m1_error(x, count, most, e8m0(static_cast<Byte>(of)));
    };
    if (error(exponent + 1) < error(exponent)) ++exponent;
  }
  out[0] = static_cast<Byte>(exponent);
  const float inverse = 1 / e8m0(out[0]);
  for (int i = 0; i < count / 2; ++i)
    out[1 + i] =
        static_cast<Byte>(e2m1_code(x[i] * inverse) | e2m1_code(x[i + count / 2] * inverse) << 4);
}

// See encode_row().
float nvfp4_global_scale(std::span<const float> row) {
  constexpr float kUsual = 512, kLargest = 448 * 6;
  const float most = largest_magnitude(row.data(), std::ssize(row));
  if (most == 0 || (most * kUsual >= 6 && most * kUsual <= kLargest)) return kUsual;
  return std::ldexp(1.f, std::clamp(std::ilogb(kLargest / most), -126, 126));
}

// Returns the bits of the scale of 16 values, which is not 0.
Byte nvfp4_scale(const float* x, float global) {
  const float most = largest_magnitude(x, 16);
  if (most == 0) return e4m3_bits(1);
  Byte best = 1;
  float least = std::numeric_limits<float>::infinity();
  for (const float largest : {6.f, 4.f}) {
    Byte bits = std::max<Byte>(1, e4m3_bits(most / largest * global));
    while (!std::isfinite(6 * (kE4m3[bits] / global))) --bits;
    const float error = e2m1_error(x, 16, most, kE4m3[bits] / global);
    if (error < least) least = error, best = bits;
  }
  return best;
}

void encode_nvfp4(std::span<const float> row, int count, Byte* out) {
  const float global = nvfp4_global_scale(row);
  for (const float* x = row.data(); x < row.data() + row.size(); x += count) {
    std::memcpy(out, &global, sizeof global);
    out += sizeof global;
    std::array<unsigned, 64> codes;
    for (int group = 0; group < 4; ++group) {
      const Byte scale = out[group] = nvfp4_scale(x + 16 * group, global);
      const float inverse = 1 / (kE4m3[scale] / global);
      for (int i = 16 * group; i < 16 * (group + 1); ++i)
        codes[static_cast<std::size_t>(i)] = e2m1_code(x[i] * inverse);
    }
    out += 4;
    for (std::size_t i = 0; i < 32; ++i) *out++ = static_cast<Byte>(codes[i] | codes[i + 32] << 4);
  }
}

void encode_fp8(std::span<const float> row, int count, Byte* out) {
  const float most = largest_magnitude(row.data(), std::ssize(row));
  const float scale = most == 0 ? 1 : usable_scale(most / 448), inverse = 1 / scale;
  for (std::size_t i = 0; i < row.size();) {
    std::memcpy(out, &scale, sizeof scale);
    out += sizeof scale;
    for (int j = 0; j < count; ++j) *out++ = e4m3_bits(row[i++] * inverse);
  }
}

}  // namespace

std::span<const std::string_view> quantised_names() { return kWords; }

const BlockFormat* format_for(std::string_view name, std::int64_t width) {
  const auto found = std::ranges::find(kNames, name, &Name::name);
  if (found == std::end(kNames)) return nullptr;
  for (std::string_view format_name : found->formats) {
    const BlockFormat* format = block_format_named(format_name);
    if (format && width % format->num_values == 0) return format;
  }
  return nullptr;
}

std::int64_t row_unit(std::string_view name) {
  const auto found = std::ranges::find(kNames, name, &Name::name);
  std::int64_t out = 0;
  if (found != std::end(kNames))
    for (std::string_view format_name : found->formats)  // the smallest blocks are the last
      if (const BlockFormat* format = block_format_named(format_name)) out = format->num_values;
  return out;
}

bool is_encoded(const BlockFormat& format) { return kind_of(format) != RoundedKind::none; }

bool encode_row(const BlockFormat& format, std::span<const float> row, std::byte* out) {
  if (!are_finite(row)) return false;
  const RoundedKind kind = kind_of(format);
  const int count = format.num_values;
  Byte* to = reinterpret_cast<Byte*>(out);
  if (kind == RoundedKind::fp8) {
    encode_fp8(row, count, to);
    return true;
  }
  if (kind == RoundedKind::nvfp4) {
    encode_nvfp4(row, count, to);
    return true;
  }
  const auto encode = kind == RoundedKind::int8   ? encode_int8
                      : kind == RoundedKind::int4 ? encode_int4
                                                  : encode_mxfp4;
  for (std::size_t i = 0; i < row.size(); i += static_cast<std::size_t>(count)) {
    encode(row.data() + i, count, to);
    to += format.num_bytes;
  }
  return true;
}

BlockCodes read_codes(const BlockFormat& format, const std::byte* block) {
  BlockCodes out{};
  const RoundedKind kind = kind_of(format);
  const Byte* b = reinterpret_cast<const Byte*>(block);
  const int count = format.num_values;
  if (kind == RoundedKind::fp8) {
    std::memcpy(&out.scale, b, sizeof out.scale);
    std::copy_n(b + sizeof out.scale, count, out.codes.begin());
    return out;
  }
  if (kind == RoundedKind::nvfp4) {
    std::memcpy(&out.scale, b, sizeof out.scale);
    std::copy_n(b + sizeof out.scale, 4, out.group_scales.begin());
    b += sizeof out.scale + 4;
  } else if (kind == RoundedKind::mxfp4) {
    out.scale = e8m0(*b++);
  } else {
    bfloat16 scale;
    std::memcpy(&scale, b, sizeof scale);
    out.scale = to_float(scale);
    b += sizeof scale;
  }
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (kind == RoundedKind::int8)
      out.codes[at] = static_cast<Byte>(b[i] ^ 0x80);
    else
      out.codes[at] = i < count / 2 ? b[i] & 15 : b[i - count / 2] >> 4;
  }
  return out;
}

}  // namespace lamina::formats
