// Moves one dim of a tensor. Private to ops.
#pragma once

#include <vector>

#include "ops/op.h"

namespace lamina::ops {

// Moves dim `from` of x to `to`; the other dims keep their order.
inline Tensor move_dim(Tensor x, int from, int to) {
  if (from == to) return x;
  std::vector<std::int64_t> perm;
  for (int i = 0; i < x.ndim(); ++i)
    if (i != from) perm.push_back(i);
  perm.insert(perm.begin() + to, from);
  return transpose(x, perm);
}

}  // namespace lamina::ops
