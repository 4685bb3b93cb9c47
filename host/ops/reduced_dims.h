// Shapes of a reduction over dims that are kept with size 1 or dropped. Private to ops.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ops/op.h"

namespace lamina::ops {

// Returns the shape of the result, from the attributes dims and keep and the first input.
inline Shape reduced_shape(const Call& c) {
  const Type& x = c.type(0);
  unsigned reduced = 0;
  for (std::int64_t dim : c.list("dims")) reduced |= 1u << checked_dim(c, dim, x.ndim());
  std::vector<std::int64_t> dims;
  for (int i = 0; i < x.ndim(); ++i) {
    if (!(reduced >> i & 1))
      dims.push_back(x.dim(i));
    else if (c.i("keep"))
      dims.push_back(1);
  }
  return Shape{std::span(std::as_const(dims))};
}

// Returns the shape of the result with the reduced dims restored with size 1.
inline Shape kept_shape(const Call& c) {
  Shape shape = c.type(0).shape;
  for (std::int64_t dim : c.list("dims")) shape[checked_dim(c, dim, shape.ndim())] = 1;
  return shape;
}

// Returns the number of elements that are reduced to one.
inline std::int64_t num_reduced(const Call& c) {
  const Shape &from = c.type(0).shape, kept = kept_shape(c);
  std::int64_t count = 1;
  for (int i = 0; i < from.ndim(); ++i) count *= kept[i] == from[i] ? 1 : from[i];
  return count;
}

// Returns the type of the largest or smallest element over dims. Integers have no infinity for the
// one of no elements.
inline Type extreme_type(const Call& c) {
  const Type& x = c.type(0);
  require_reducible(c, 0);
  const Type out{x.dtype, reduced_shape(c), {}};
  c.require(is_floating(x.dtype) || num_reduced(c) > 0,
            "{} has no elements over the dims {}, and no integer stands for none", to_string(x),
            fmt::join(c.list("dims"), ", "));
  return out;
}

// Returns the dtype of sums: the attribute dtype, or the input's if it is empty.
inline DType summed_dtype(const Call& c) {
  const DType from = c.type(0).dtype;
  const std::optional<DType> to = c.s("dtype").empty() ? from : parse_dtype(c.s("dtype"));
  c.require(to.has_value(), "dtype must be a name such as f32, got '{}'", c.s("dtype"));
  c.require(is_reducible(from) && is_reducible(*to) && is_floating(from) == is_floating(*to),
            "{} cannot be summed as {}; both must be floating-point, or each i32 or i64",
            to_string(c.type(0)), name(*to));
  return *to;
}

// Returns a split rule in which reduced dims are whole.
inline std::string whole_where_reduced(const Call& c) {
  const std::string dims = dim_letters(c, 0, c.list("dims"));
  std::string kept = dims;
  if (!c.i("keep")) std::erase(kept, '_');
  return fmt::format("{} -> {}", dims, kept.empty() ? "()" : kept);
}

}  // namespace lamina::ops
