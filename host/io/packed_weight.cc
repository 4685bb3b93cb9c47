#include "io/packed_weight.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/float16.h"
#include "core/round_up.h"
#include "formats/fp4.h"
#include "formats/fp8.h"
#include "io/weight_files.h"

namespace lamina::io {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read by their bytes");

using Order = PackedTensors::Order;

// The place of a row's nibble among 8 of one word of AWQ.
constexpr std::array<int, 8> kAwqPlaces = {0, 4, 1, 5, 2, 6, 3, 7};

const std::uint8_t* bytes_of(const TensorView& view) {
  return reinterpret_cast<const std::uint8_t*>(view.bytes.data());
}

float float_at(const TensorView& view, std::int64_t at) {
  const std::byte* from = view.bytes.data() + at * size_bytes(view.dtype);
  const auto as = [&]<typename T>(T value) {
    std::memcpy(&value, from, sizeof value);
    if constexpr (std::is_same_v<T, float>)
      return value;
    else
      return to_float(value);
  };
  switch (view.dtype) {
    case DType::f32:
      return as(float{});
    case DType::f16:
      return as(float16{});
    case DType::bf16:
      return as(bfloat16{});
    default:
      return formats::kE4m3[bytes_of(view)[at]];
  }
}

int nibble_at(const std::uint8_t* bytes, std::int64_t i) { return bytes[i / 2] >> i % 2 * 4 & 15; }

// Number `i` of adjacent ones with 4 or 8 bits, the lowest bits first.
int packed_at(const std::uint8_t* bytes, int bits, std::int64_t i) {
  return bits == 8 ? bytes[i] : nibble_at(bytes, i);
}

}  // namespace

void PackedWeight::refuse_scale(std::int64_t row, std::int64_t group, float scale) const {
  const bool zero = scale == 0;
  const std::string_view wanted = zero         ? "number other than zero"
                                  : is_float() ? "finite positive number"
                                               : "finite number";
  fail(scales_,
       fmt::format("has the scale {} for group {} of row {}{}; expected a {}", scale, group, row,
                   zero ? ", whose values are not zero" : "", wanted),
       "the checkpoint is damaged: download or export it again");
}

float PackedWeight::scale_of(std::int64_t row, std::int64_t group) const {
  const float scale = float_at(scales_, place_of_scale(row, group));
  const bool wrong_sign = is_float() && scale < 0;  // integers may have any
  if (!std::isfinite(scale) || wrong_sign) refuse_scale(row, group, scale);
  return scale;
}

int PackedWeight::zero_of(std::int64_t row, std::int64_t group) const {
  if (tensors_->zero_points.empty()) return default_zero_;
  const std::uint8_t* bytes = bytes_of(zero_points_);
  const std::int64_t per_word = 32 / bits_, words = divide_up(rows_, per_word);
  int zero = default_zero_;
  switch (tensors_->order) {
    case Order::words:
      zero = packed_at(bytes + (row / per_word * num_groups_ + group) * 4, bits_, row % per_word);
      break;
    case Order::bytes:
      zero = bytes[place_of_scale(row, group)] ^ 0x80;
      break;
    case Order::gptq: {
      std::uint32_t word;
      std::memcpy(&word, bytes + (group * words + row / per_word) * 4, sizeof word);
      word += zero_offset_;
      zero = packed_at(reinterpret_cast<const std::uint8_t*>(&word), bits_, row % per_word);
      break;
    }
    case Order::awq:
      zero = packed_at(bytes + (group * words + row / 8) * 4, 4,
                       kAwqPlaces[static_cast<std::size_t>(row % 8)]);
      break;
    case Order::pairs:
      break;
  }
  if (!has_zero_points_ && zero != default_zero_)
    fail(zero_points_,
         fmt::format("has the zero point {} for group {} of row {}; expected {}", zero, group, row,
                     default_zero_),
         fmt::format("{} says sym = true; check that it belongs to these weights",
                     files_->compression().where));
  return zero;
}

PackedWeight::Group PackedWeight::group_at(std::int64_t row, std::int64_t group) const {
  const float scale = scale_of(row, group);
  if (is_float()) return {scale / global_scale_, 0};
  return {scale, static_cast<float>(zero_of(row, group))};
}

// Calls use(number) with a function that returns the number of a column. Integers have no sign: the
// default zero point is added to signed ones.
template <typename Use>
void PackedWeight::with_numbers(std::int64_t row, const Use& use) const {
  const std::uint8_t* bytes = bytes_of(values_);
  const bool wide = bits_ == 8;
  switch (tensors_->order) {
    case Order::words:
    case Order::pairs: {
      bytes += row * values_.shape[1] * size_bytes(values_.dtype);
      if (wide) return use([=](std::int64_t column) { return int{bytes[column]}; });
      return use([=](std::int64_t column) { return nibble_at(bytes, column); });
    }
    case Order::bytes:
      bytes += row * columns_;
      return use([=](std::int64_t column) { return bytes[column] ^ 0x80; });
    case Order::gptq: {
      const std::int64_t next = rows_ * 4;  // bytes from word to word of a row
      bytes += row * 4;
      if (wide)
        return use([=](std::int64_t column) { return int{bytes[column / 4 * next + column % 4]}; });
      return use(
          [=](std::int64_t column) { return nibble_at(bytes + column / 8 * next, column % 8); });
    }
    case Order::awq: {
      const std::int64_t next = rows_ / 2;
      const int place = kAwqPlaces[static_cast<std::size_t>(row % 8)];
      bytes += row / 8 * 4 + place / 2;
      const int shift = place % 2 * 4;
      return use([=](std::int64_t column) { return bytes[column * next] >> shift & 15; });
    }
  }
}

// Checks a group whose scale is 0: then its values must be 0, or they are lost.
template <typename Number>
void PackedWeight::check_zero(std::int64_t row, std::int64_t of, std::int64_t first,
                              std::int64_t count, const Group& group, const Number& number) const {
  for (std::int64_t i = 0; i < count; ++i)
    if (static_cast<float>(number(first + i)) != group.zero) refuse_scale(row, of, group.scale);
}

void PackedWeight::decode_row(std::int64_t row, std::int64_t first, std::span<float> out) const {
  with_numbers(row, [&](const auto& number) {
    for (std::int64_t i = 0, n; i < std::ssize(out); i += n) {
      const std::int64_t column = first + i, of = group_of(column);
      n = is_reordered() ? 1 : std::min(std::ssize(out) - i, (of + 1) * group_size_ - column);
      const Group group = group_at(row, of);
      float* to = out.data() + i;
      if (is_float()) {
        for (std::int64_t j = 0; j < n; ++j)
          to[j] = formats::kE2m1[static_cast<std::size_t>(number(column + j))] * group.scale;
        continue;
      }
      if (group.scale == 0) check_zero(row, of, column, n, group, number);
      for (std::int64_t j = 0; j < n; ++j)
        to[j] = group.scale * (static_cast<float>(number(column + j)) - group.zero);
    }
  });
}

void PackedWeight::decode(std::int64_t first, std::int64_t stride, std::span<float> out) const {
  std::int64_t at = first;
  for (std::size_t i = 0; i < out.size();) {
    const std::int64_t row = at / columns_, column = at % columns_;
    const std::size_t n =
        stride == 1 ? std::min(out.size() - i, static_cast<std::size_t>(columns_ - column)) : 1;
    decode_row(row, column, out.subspan(i, n));
    i += n;
    at += static_cast<std::int64_t>(n) * stride;
  }
}

// Writes the low halves of bytes as the first half of the block.
template <typename Number>
void PackedWeight::write_pairs(std::int64_t first, const Number& number, std::byte* out) const {
  const int half = format_->num_values / 2;
  for (int i = 0; i < half; ++i)
    out[i] = static_cast<std::byte>(number(first + i) | number(first + half + i) << 4);
}

template <typename Number>
void PackedWeight::write_floats(std::int64_t row, std::int64_t first, const Number& number,
                                std::byte* out) const {
  std::memcpy(out, &global_scale_, sizeof global_scale_);
  for (int i = 0; i < 4; ++i) {
    scale_of(row, first / 16 + i);  // checks it
    out[4 + i] = scales_.bytes[static_cast<std::size_t>(place_of_scale(row, first / 16 + i))];
  }
  write_pairs(first, number, out + 8);
}

template <typename Number>
void PackedWeight::write_integers(std::int64_t row, std::int64_t first, const Number& number,
                                  std::byte* out) const {
  const std::int64_t of = first / group_size_;
  const Group group = group_at(row, of);
  if (group.scale == 0) check_zero(row, of, first, format_->num_values, group, number);
  std::memcpy(out, scales_.bytes.data() + place_of_scale(row, of) * 2, 2);
  out += 2;
  if (bits_ == 8) {
    for (int i = 0; i < format_->num_values; ++i)
      out[i] = static_cast<std::byte>(number(first + i) ^ 0x80);
    return;
  }
  if (has_zero_points_) {
    const std::uint16_t zero =
        scales_.dtype == DType::f16 ? to_float16(group.zero).bits : to_bfloat16(group.zero).bits;
    std::memcpy(out, &zero, 2);
    out += 2;
  }
  write_pairs(first, number, out);
}

void PackedWeight::read_blocks(std::int64_t first, std::int64_t count, std::byte* out) const {
  const std::int64_t row = first / columns_, begin = first % columns_;
  with_numbers(row, [&](const auto& number) {
    for (std::int64_t at = begin; at < begin + count; at += format_->num_values) {
      if (is_float())
        write_floats(row, at, number, out);
      else
        write_integers(row, at, number, out);
      out += format_->num_bytes;
    }
  });
}

}  // namespace lamina::io
