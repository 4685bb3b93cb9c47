#include "formats/value_rounder.h"

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "formats/fp4.h"
#include "formats/fp8.h"
#include "formats/rounding.h"

namespace lamina::formats {
namespace {

float largest_magnitude(std::span<const float> values) {
  float most = 0;
  for (const float v : values) most = std::max(most, std::fabs(v));
  return most;
}

}  // namespace

bool ValueRounder::can_round(const BlockFormat& format) {
  const RoundedKind kind = kind_of(format);
  return kind == RoundedKind::int8 || kind == RoundedKind::int4 || kind == RoundedKind::mxfp4;
}

ValueRounder::ValueRounder(const BlockFormat& format)
    : bits_(kind_of(format) == RoundedKind::int8 ? 8 : 4),
      is_float_(kind_of(format) == RoundedKind::mxfp4) {
  LAMINA_ASSERT(can_round(format));
}

float ValueRounder::choose_scale(std::span<const float> block,
                                 std::span<const float> importance) const {
  const float most = largest_magnitude(block);
  if (most == 0) return 1;
  // In units of `most`, so that the sum is finite for values of any size.
  const auto error_of = [&](float scale) {
    float sum = 0;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const float error = (block[i] - round(scale, block[i]).value) / most;
      sum += (importance.empty() ? 1 : importance[i]) * error * error;
    }
    return sum;
  };
  if (is_float_) {
    const int exponent = smaller_mxfp4_exponent(most);
    const float smaller = e8m0(static_cast<std::uint8_t>(exponent)), larger = 2 * smaller;
    return error_of(larger) < error_of(smaller) ? larger : smaller;
  }
  if (bits_ == 8) return usable_scale(most / 127);
  return best_int4_scale(most, error_of);
}

ValueRounder::Rounded ValueRounder::round(float scale, float value) const {
  const float inverse = 1 / scale;
  if (is_float_) {
    const int index = e2m1_index(std::fabs(value * inverse)) + (std::signbit(value) ? 8 : 0);
    return {static_cast<std::uint8_t>(index), scale * kE2m1[static_cast<std::size_t>(index)]};
  }
  const float zero = bits_ == 8 ? 128 : 8;
  const float number = rounded(std::clamp(value * inverse, -zero, zero - 1));
  return {static_cast<std::uint8_t>(static_cast<int>(number + zero)), scale * number};
}

void ValueRounder::write(float scale, std::span<const std::uint8_t> codes, std::byte* out) const {
  auto* to = reinterpret_cast<std::uint8_t*>(out);
  if (is_float_) {
    *to++ = static_cast<std::uint8_t>(std::ilogb(scale) + 127);
  } else {
    const bfloat16 stored = to_bfloat16(scale);
    std::memcpy(to, &stored, sizeof stored);
    to += sizeof stored;
  }
  const std::size_t count = codes.size();
  if (bits_ == 8)
    for (std::size_t i = 0; i < count; ++i) *to++ = codes[i] ^ 0x80;
  else
    for (std::size_t i = 0; i < count / 2; ++i)
      *to++ = static_cast<std::uint8_t>(codes[i] | codes[i + count / 2] << 4);
}

}  // namespace lamina::formats
