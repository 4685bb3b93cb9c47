// grouped_linear_dx(dy, w, offsets): rows offsets[e] to offsets[e + 1] of dy[R, O] times w[e]; sums
// in f32, rounded once. Rows without a group are 0.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& dy = c.type(0);
  const Type& w = c.type(1);
  c.require_floating(0);
  c.require_ndim(0, 2);
  c.require(w.ndim() == 3 && w.dim(1) == dy.dim(1) && w.dtype == dy.dtype,
            "w must be {}[groups, {}, inputs] to match dy {}, got {}", name(dy.dtype), dy.dim(1),
            to_string(dy), to_string(w));
  c.require_dtype(2, DType::i32);
  c.require_shape(2, {w.dim(0) + 1});
  return {{dy.dtype, {dy.dim(0), w.dim(2)}, {}}};
}

}  // namespace

constinit const OpDef grouped_linear_dx_op = {
    .infer = infer,
    .zero_gradient = true,
    .decode = &kTrainingOnly,
    .cost = kOfBackwardPass,
    .split = {.rule = "Ro, Eoi, _ -> Ri+o"},
    .takes_stored = [](const Call&, int input) { return input == 1; }};

}  // namespace lamina::ops
