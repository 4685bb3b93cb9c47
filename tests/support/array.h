// Tensors for tests: a type and its bytes, filled from and read as doubles.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/float16.h"
#include "graph/type.h"

namespace lamina::testing {

struct Array {
  Type type;
  std::vector<std::byte> bytes;

  void* data() { return bytes.data(); }
  const void* data() const { return bytes.data(); }
};

namespace detail {
template <typename T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <typename T>
void write(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}
}  // namespace detail

inline double get(const Array& a, std::int64_t i) {
  const std::byte* at = a.bytes.data() + i * size_bytes(a.type.dtype);
  switch (a.type.dtype) {
    case DType::f32:
      return static_cast<double>(detail::read<float>(at));
    case DType::f64:
      return detail::read<double>(at);
    case DType::bf16:
      return static_cast<double>(to_float(detail::read<bfloat16>(at)));
    case DType::f16:
      return static_cast<double>(to_float(detail::read<float16>(at)));
    case DType::i32:
      return detail::read<std::int32_t>(at);
    case DType::i64:
      return static_cast<double>(detail::read<std::int64_t>(at));
    default:
      LAMINA_ASSERT(size_bytes(a.type.dtype) == 1);
      return detail::read<std::uint8_t>(at);
  }
}

inline void set(Array& a, std::int64_t i, double x) {
  std::byte* at = a.bytes.data() + i * size_bytes(a.type.dtype);
  switch (a.type.dtype) {
    case DType::f32:
      return detail::write(at, static_cast<float>(x));
    case DType::f64:
      return detail::write(at, x);
    case DType::bf16:
      return detail::write(at, to_bfloat16(static_cast<float>(x)));
    case DType::f16:
      return detail::write(at, to_float16(static_cast<float>(x)));
    case DType::i32:
      return detail::write(at, static_cast<std::int32_t>(x));
    case DType::i64:
      return detail::write(at, static_cast<std::int64_t>(x));
    default:
      LAMINA_ASSERT(size_bytes(a.type.dtype) == 1);
      return detail::write(at, static_cast<std::uint8_t>(x));
  }
}

inline Array zeros(const Type& type) {
  return {type, std::vector<std::byte>(static_cast<std::size_t>(type.bytes()))};
}

// The bytes of a result before it is written: NaN, or a number that no case expects.
inline constexpr std::byte kUnwritten{0xff};
inline Array unwritten(const Type& type) {
  return {type, std::vector<std::byte>(static_cast<std::size_t>(type.bytes()), kUnwritten)};
}

inline Array array(const Type& type, std::span<const double> values) {
  Array out = zeros(type);
  LAMINA_ASSERT(static_cast<std::int64_t>(values.size()) == type.num_elements());
  for (std::int64_t i = 0; i < type.num_elements(); ++i)
    set(out, i, values[static_cast<std::size_t>(i)]);
  return out;
}
inline Array array(const Type& type, std::initializer_list<double> values) {
  return array(type, std::span(values.begin(), values.size()));
}

inline std::vector<double> to_doubles(const Array& a) {
  std::vector<double> out(static_cast<std::size_t>(a.type.num_elements()));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = get(a, static_cast<std::int64_t>(i));
  return out;
}

// Uniform in [low, high); for integers, in {low, ..., high}.
inline Array random_array(const Type& type, std::mt19937& random, double low = -1,
                          double high = 1) {
  Array out = zeros(type);
  std::uniform_real_distribution<double> real(low, high);
  std::uniform_int_distribution<std::int64_t> whole(static_cast<std::int64_t>(low),
                                                    static_cast<std::int64_t>(high));
  for (std::int64_t i = 0; i < type.num_elements(); ++i)
    set(out, i, is_floating(type.dtype) ? real(random) : static_cast<double>(whole(random)));
  return out;
}

// The same numbers in another element type.
inline Array converted(const Array& a, DType dtype) {
  Array out = zeros(a.type.with(dtype));
  for (std::int64_t i = 0; i < a.type.num_elements(); ++i) set(out, i, get(a, i));
  return out;
}

}  // namespace lamina::testing
