// Shape rules shared by families of ops.
#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/op.h"

namespace lamina::ops {
namespace {

// The numbers of an integer dtype are at least `least` and below `end`.
struct IntegerLimits {
  double least, end;
};

std::optional<IntegerLimits> limits_of(DType dtype) {
  const int bits = 8 * size_bytes(dtype);
  switch (dtype) {
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
      return IntegerLimits{-std::ldexp(1, bits - 1), std::ldexp(1, bits - 1)};
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::u64:
      return IntegerLimits{0, std::ldexp(1, bits)};
    default:
      return {};
  }
}

}  // namespace

std::vector<Type> infer_unary(const Call& c) {
  c.require_floating(0);
  return {c.type(0)};
}

std::vector<Type> infer_number(const Call& c) {
  c.require(c.type(0).dtype != DType::boolean, "{} must have a numeric dtype, got {}",
            c.input_name(0), to_string(c.type(0)));
  return {c.type(0)};
}

bool is_reducible(DType dtype) {
  return is_floating(dtype) || dtype == DType::i32 || dtype == DType::i64;
}

void require_reducible(const Call& c, int input) {
  c.require(is_reducible(c.type(input).dtype), "{} must be floating-point, i32 or i64, got {}",
            c.input_name(input), to_string(c.type(input)));
}

Shape broadcast_shape(const Call& c, const Shape& a, const Shape& b) {
  int ndim = std::max(a.ndim(), b.ndim());
  std::array<std::int64_t, kMaxDims> dims{};
  for (int i = 0; i < ndim; ++i) {
    std::int64_t x = i < ndim - a.ndim() ? 1 : a[i - (ndim - a.ndim())];
    std::int64_t y = i < ndim - b.ndim() ? 1 : b[i - (ndim - b.ndim())];
    c.require(x == y || x == 1 || y == 1, "{} and {} do not broadcast: dim {} is {} and {}",
              to_string(a), to_string(b), i, x, y);
    dims[static_cast<std::size_t>(i)] = x == 1 ? y : x;
  }
  return Shape(std::span(dims.data(), static_cast<std::size_t>(ndim)));
}

std::vector<Type> infer_broadcast(const Call& c) {
  Type out = c.type(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    c.require(c.type(i).dtype == out.dtype, "{} and {} must have the same dtype, got {} and {}",
              c.input_name(0), c.input_name(i), to_string(c.type(0)), to_string(c.type(i)));
    Shape shape = broadcast_shape(c, out.shape, c.type(i).shape);
    if (!(shape == out.shape)) out = c.type(i).shape == shape ? c.type(i) : out.with(shape);
  }
  return {out};
}

std::vector<Type> infer_arithmetic(const Call& c) {
  infer_number(c);
  return infer_broadcast(c);
}

std::vector<Type> infer_integers(const Call& c) {
  const DType dtype = c.type(0).dtype;
  c.require(dtype == DType::i32 || dtype == DType::i64, "{} must be i32 or i64, got {}",
            c.input_name(0), to_string(c.type(0)));
  return infer_broadcast(c);
}

int checked_dim(const Call& c, std::int64_t dim, int ndim) {
  c.require(dim >= -ndim && dim < ndim, "dim {} is outside [{}, {})", dim, -ndim, ndim);
  return static_cast<int>(dim < 0 ? dim + ndim : dim);
}

void require_fits(const Call& c, std::string_view attr, double value, DType dtype) {
  const std::optional<IntegerLimits> limits = limits_of(dtype);
  if (!limits) return;
  c.require(value >= limits->least && value < limits->end,
            "{} has the value {}, which does not fit into {}", attr, value, name(dtype));
  c.require(value == std::trunc(value),
            "{} has the value {}, but {} has only integers; use f32 for fractions", attr, value,
            name(dtype));
}

Shape checked_shape(const Call& c, std::string_view attr) {
  const std::vector<std::int64_t>& dims = c.list(attr);
  c.require(dims.size() <= std::size_t{kMaxDims}, "expected at most {} dims, got {}", kMaxDims,
            dims.size());
  for (std::int64_t dim : dims)
    c.require(dim >= 0, "{} has the dim {}, which must not be negative", attr, dim);
  return Shape{std::span(dims)};
}

std::int64_t checked_sum(const Call& c, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  c.require(!__builtin_add_overflow(a, b, &out), "{} + {} exceeds the maximum size of a tensor", a,
            b);
  return out;
}

std::int64_t checked_product(const Call& c, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  c.require(!__builtin_mul_overflow(a, b, &out), "{} * {} exceeds the maximum size of a tensor", a,
            b);
  return out;
}

std::string dim_letters(const Call& c, int input, std::span<const std::int64_t> whole) {
  const int ndim = c.type(input).ndim();
  std::string letters;
  for (int i = 0; i < ndim; ++i) letters += static_cast<char>('a' + i);
  for (std::int64_t dim : whole) letters[static_cast<std::size_t>(checked_dim(c, dim, ndim))] = '_';
  return letters.empty() ? "()" : letters;
}

}  // namespace lamina::ops
