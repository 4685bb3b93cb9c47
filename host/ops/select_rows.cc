// select_rows(x, rows): row rows[b] of each x[b]: x[B, T, D], rows i32[B], result [B, D].
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  c.require_ndim(0, 3);
  c.require_dtype(1, DType::i32);
  c.require_shape(1, {x.dim(0)});
  return {x.with(Shape{x.dim(0), x.dim(2)})};
}

}  // namespace

constinit const OpDef select_rows_op = {.infer = infer,
                                        .zero_gradient = true,
                                        .decode = &kEachToken,
                                        .cost = kNoProducts,
                                        .split = {.rule = "bTd, b -> bd"}};

}  // namespace lamina::ops
