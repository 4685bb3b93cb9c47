// adamw(p, g, m, v, scalars; ...): one step of Adam with decoupled weight decay, in place.
// Loshchilov & Hutter 2019, algorithm 2, in the order of PyTorch's AdamW:
//   g = g * scalars[1] (clipping);  p -= lr * weight_decay * p
//   m = beta1 m + (1 - beta1) g;    v = beta2 v + (1 - beta2) g^2
//   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// scalars f32[5]: lr, scale of g, 1 - beta1^t, 1 - beta2^t, and 0 if the results are p, m and v
// unchanged. With attribute copy, the new p in bf16 is a fourth result, for the products of the
// next step.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& p = c.type(0);
  for (int i : {0, 1, 2, 3}) {
    c.require_dtype(i, DType::f32);
    c.require(c.type(i).shape == p.shape, "{} must be {}, got {}", c.input_name(i), to_string(p),
              to_string(c.type(i)));
  }
  c.require_dtype(4, DType::f32);
  c.require_shape(4, {5});
  std::vector<Type> out{p, p, p};
  out[1] = c.type(2);
  if (c.i("copy")) out.push_back(p.with(DType::bf16));
  return out;
}

std::vector<Tensor> lower(const LowerCall& c) {
  Tensor p = c.in(0), scalars = c.in(4);
  auto scalar = [&](int i) { return reshape(slice(scalars, 0, i, 1), {}); };
  Tensor lr = scalar(0), g = c.in(1) * scalar(1);
  double beta1 = c.f("beta1"), beta2 = c.f("beta2");
  Tensor may_change = less(number_like(scalar(4), 0), scalar(4));
  p = p - p * scale(lr, c.f("weight_decay"));
  Tensor m = scale(c.in(2), beta1) + scale(g, 1 - beta1);
  Tensor v = scale(c.in(3), beta2) + scale(square(g), 1 - beta2);
  Tensor root = sqrt(v) / sqrt(scalar(3));
  p = p - lr / scalar(2) * (m / shift(root, c.f("eps")));
  std::vector<Tensor> out{select(may_change, p, c.in(0)), select(may_change, m, c.in(2)),
                          select(may_change, v, c.in(3))};
  if (c.i("copy")) out.push_back(cast(out[0], DType::bf16));
  return out;
}

}  // namespace

constinit const OpDef adamw_op = {.infer = infer,
                                  .lower = lower,
                                  .zero_gradient = true,
                                  .decode = &kTrainingOnly,
                                  .cost = kNoProducts,
                                  .split = {.rule = "..., ..., ..., ..., _ -> ..., ..., ..., ..."}};

}  // namespace lamina::ops
