// The shapes of a reduction over dims, kept with size 1 or left out. Private to ops.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "ops/op.h"

namespace lamina::ops {

// Of the result: attrs dims and keep of the call, its first input.
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

// Of the result with the reduced dims put back, of size 1.
inline Shape kept_shape(const Call& c) {
  Shape shape = c.type(0).shape;
  for (std::int64_t dim : c.list("dims")) shape[checked_dim(c, dim, shape.ndim())] = 1;
  return shape;
}

}  // namespace lamina::ops
