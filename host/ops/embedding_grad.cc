// embedding_grad(ids, dy, acc?; rows): the rows of dy[..., D] summed by id into [rows, D], in f32
// and in the order of the ids, so that results do not depend on threads.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& dy = c.type(1);
  c.require_dtype(0, DType::i32);
  c.require(dy.ndim() == c.type(0).ndim() + 1, "dy must be the shape of ids {} and a width, got {}",
            to_string(c.type(0)), to_string(dy));
  DType wide = sum_dtype(dy.dtype);
  Type out{wide, {c.i("rows"), dy.dim(-1)}, {}};
  if (c.has(2))
    c.require(c.type(2) == out, "acc must be {}, got {}", to_string(out), to_string(c.type(2)));
  return {out};
}

}  // namespace

constinit const OpDef embedding_grad_op = {.infer = infer,
                                           .zero_gradient = true,
                                           .decode = &kTrainingOnly,
                                           .cost = kOfBackwardPass,
                                           .split = {.rule = "..., ...d, Vd?! -> Vd+..."},
                                           .sums_rows = true,
                                           .facts = {.accumulates = true}};

}  // namespace lamina::ops
