// cross_entropy_grad(x, w, labels, dloss, dz_loss, bias?, duniform_loss?, dtoken_loss?, acc?):
// loss, z_loss and uniform_loss of cross_entropy, and the gradients of dloss * loss + dz_loss *
// z_loss + duniform_loss * uniform_loss + dtoken_loss . token_loss, in one pass over the
// vocabulary; the gradient of w is added to acc[V, D]. With p = softmax(logits), for counted rows:
// dlogits = (dloss + dtoken_loss) (p - onehot(label)) + dz_loss 2 lse p + duniform_loss (p - 1 /
// V).
#include <algorithm>

#include "ops/op.h"

namespace lamina::ops {
namespace {

Type scalar(const Call& c) { return {sum_dtype(c.type(0).dtype), {}, {}}; }

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  const Type& w = c.type(1);
  Type one = scalar(c);
  c.require_dtype(2, DType::i32);
  c.require(x.ndim() == 2 && w.ndim() == 2 && x.dim(1) == w.dim(1) && x.dtype == w.dtype,
            "x [tokens, D] and w [vocabulary, D] do not match: {} and {}", to_string(x),
            to_string(w));
  for (int i : {3, 4})
    c.require(c.type(i) == one, "{} must be {}, got {}", c.input_name(i), to_string(one),
              to_string(c.type(i)));
  if (c.has(6))
    c.require(c.type(6) == one, "{} must be {}, got {}", c.input_name(6), to_string(one),
              to_string(c.type(6)));
  c.require_shape(7, {x.dim(0)});
  const Type of_w = one.with(w.shape);
  if (c.has(8))
    c.require(c.type(8) == of_w, "acc must be {}, got {}", to_string(of_w), to_string(c.type(8)));
  return {one, one, one, x, of_w, one.with(Shape{c.has(5) ? w.dim(0) : 0})};
}

std::vector<Tensor> lower(const LowerCall& c) {
  DType wide = scalar(c).dtype;
  std::int64_t rows = c.type(0).dim(0), vocabulary = c.type(1).dim(0);
  double cap = c.f("soft_cap");
  Tensor raw = scale(matmul(c.in(0), c.in(1), false, true, wide), c.f("logit_scale"));
  if (c.has(5)) raw = raw + cast(c.in(5), wide);
  Tensor logits = soft_cap(raw, {.cap = cap});
  Tensor top = reduce_max(logits, {1}, true);
  Tensor e = exp(logits - top);
  Tensor sum = reduce_sum(e, {1}, true);
  Tensor lse = log(sum) + top;
  Graph& graph = *logits.graph;
  Tensor column = iota(graph, {.shape = {1, vocabulary}, .dim = 1});
  Tensor onehot = cast(equal(reshape(c.in(2), {rows, 1}), column), wide);
  Tensor counted = cast(
      less(constant(graph, {DType::i32, {rows, 1}, {}}, -1), reshape(c.in(2), {rows, 1})), wide);
  Tensor loss = reduce_sum((lse - reduce_sum(onehot * logits, {1}, true)) * counted, {0, 1});
  Tensor z_loss = reduce_sum(square(lse) * counted, {0, 1});

  const double share = 1 / static_cast<double>(std::max<std::int64_t>(vocabulary, 1));
  Tensor uniform_loss =
      reduce_sum((lse - scale(reduce_sum(logits, {1}, true), share)) * counted, {0, 1});

  Tensor p = e / sum;
  Tensor dlogits = c.in(3) * (p - onehot) + c.in(4) * (scale(lse, 2) * p);
  if (c.has(6)) dlogits = dlogits + c.in(6) * shift(p, -share);
  if (c.has(7)) dlogits = dlogits + reshape(c.in(7), {rows, 1}) * (p - onehot);
  if (cap != 0) dlogits = dlogits * shift(-square(scale(logits, 1 / cap)), 1);
  dlogits = dlogits * counted;
  Tensor dbias = c.has(5) ? reduce_sum(dlogits, {0}) : constant(graph, {wide, {0}, {}}, 0);
  dlogits = cast(scale(dlogits, c.f("logit_scale")), c.type(0).dtype);
  Tensor dw = matmul(dlogits, c.in(0), true, false, wide);
  return {loss, z_loss, uniform_loss, matmul(dlogits, c.in(1)), c.has(8) ? c.in(8) + dw : dw,
          dbias};
}

}  // namespace

constinit const OpDef cross_entropy_grad_op = {
    .infer = infer,
    .lower = lower,
    .zero_gradient = true,
    .decode = &kTrainingOnly,
    .cost = kOfBackwardPass,
    .split = {.rule = "mD, VD, m, (), (), V?, ()?, m?, VD?! -> ()+m, ()+m, ()+m, mD, VD+m, V+m"},
    .takes_stored = [](const Call&, int input) { return input == 1; }};

}  // namespace lamina::ops
