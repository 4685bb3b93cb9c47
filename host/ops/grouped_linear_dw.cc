// grouped_linear_dw(x, dy, offsets): for each group the product dy^T x of its rows, and the sum of
// its rows of dy, in f32; zeros for groups without rows.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  const Type& dy = c.type(1);
  c.require_floating(0);
  c.require_ndim(0, 2);
  c.require_ndim(1, 2);
  c.require(dy.dim(0) == x.dim(0) && dy.dtype == x.dtype, "dy must be {}[{}, outputs], got {}",
            name(x.dtype), x.dim(0), to_string(dy));
  c.require_dtype(2, DType::i32);
  c.require_ndim(2, 1);
  c.require(c.type(2).dim(0) >= 2, "offsets must have at least 2 elements, got {}",
            to_string(c.type(2)));
  const std::int64_t groups = c.type(2).dim(0) - 1;
  DType wide = sum_dtype(x.dtype);
  return {{wide, {groups, dy.dim(1), x.dim(1)}, {}}, {wide, {groups, dy.dim(1)}, {}}};
}

}  // namespace

constinit const OpDef grouped_linear_dw_op = {.infer = infer,
                                              .zero_gradient = true,
                                              .decode = &kTrainingOnly,
                                              .cost = kOfBackwardPass,
                                              .split = {.rule = "Ri, Ro, _ -> Eoi, Eo"}};

}  // namespace lamina::ops
