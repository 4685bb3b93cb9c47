// cross_entropy(x, w, labels, bias?; soft_cap, logit_scale): over the rows of x[M, D] whose label
// is not negative, the sums of -log softmax(logits)[label], of logsumexp(logits)^2 (z-loss; de
// Brebisson & Vincent 2016) and of the mean over the vocabulary of -log softmax(logits), the
// cross-entropy with the uniform distribution (label smoothing; Szegedy et al. 2015), where logits
// = cap(x w^T * logit_scale + bias), w[V, D]; and the terms of the first sum, [M]. Kernels compute
// the logits in tiles of the vocabulary; [M, V] is never stored.
#include <algorithm>

#include "ops/op.h"

namespace lamina::ops {
namespace {

Type scalar(const Call& c) { return {sum_dtype(c.type(0).dtype), {}, {}}; }

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  const Type& w = c.type(1);
  c.require_floating(0);
  c.require(x.ndim() == 2 && w.ndim() == 2 && x.dim(1) == w.dim(1) && x.dtype == w.dtype,
            "x [tokens, D] and w [vocabulary, D] do not match: {} and {}", to_string(x),
            to_string(w));
  c.require_dtype(2, DType::i32);
  c.require_shape(2, {x.dim(0)});
  c.require_floating(3);
  c.require_shape(3, {w.dim(0)});
  Type one = scalar(c);
  const Type of_rows = one.with(Shape{x.dim(0)});
  return {one, one, one, of_rows, of_rows};
}

std::vector<Tensor> lower(const LowerCall& c) {
  DType wide = scalar(c).dtype;
  std::int64_t rows = c.type(0).dim(0), vocabulary = c.type(1).dim(0);
  Tensor logits = scale(matmul(c.in(0), c.in(1), false, true, wide), c.f("logit_scale"));
  if (c.has(3)) logits = logits + cast(c.in(3), wide);
  logits = soft_cap(logits, {.cap = c.f("soft_cap")});
  Tensor top = reduce_max(logits, {1}, true);
  Tensor lse = reshape(log(reduce_sum(exp(logits - top), {1}, true)) + top, {rows});
  Graph& graph = *logits.graph;
  Tensor column = iota(graph, {.shape = {1, vocabulary}, .dim = 1});
  Tensor is_label = equal(reshape(c.in(2), {rows, 1}), column);
  Tensor picked = reduce_sum(select(is_label, logits, zeros_like(logits)), {1});
  Tensor counted = cast(less(constant(graph, {DType::i32, {rows}, {}}, -1), c.in(2)), wide);
  Tensor token_loss = (lse - picked) * counted;
  Tensor mean = scale(reduce_sum(logits, {1}),
                      1 / static_cast<double>(std::max<std::int64_t>(vocabulary, 1)));
  return {reduce_sum(token_loss, {0}), reduce_sum(square(lse) * counted, {0}),
          reduce_sum((lse - mean) * counted, {0}), token_loss, lse};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  c.require(!c.ct(4), "lse has no gradient");
  Tensor zero = constant(*c.in(0).graph, scalar(c), 0);
  const auto grads =
      cross_entropy_grad({.x = c.in(0),
                          .w = c.in(1),
                          .labels = c.in(2),
                          .dloss = c.ct(0) ? c.ct(0) : zero,
                          .dz_loss = c.ct(1) ? c.ct(1) : zero,
                          .bias = c.in(3),
                          .duniform_loss = c.ct(2),
                          .dtoken_loss = c.ct(3)},
                         {.soft_cap = c.f("soft_cap"), .logit_scale = c.f("logit_scale")});
  return {grads.dx, grads.dw, {}, c.has(3) ? grads.dbias : Tensor{}};
}

double flops(const NodeView& n, const WorkContext&) {
  return 2 * num_elements(n.type(0)) * static_cast<double>(n.type(1).dim(0));
}

}  // namespace

constinit const OpDef cross_entropy_op = {
    .infer = infer,
    .lower = lower,
    .vjp = vjp,
    // The same pass over the vocabulary computes the loss.
    .from_gradient = {OpCode::cross_entropy_grad, 3},
    .decode = &kTrainingOnly,
    .cost = {.flops = flops},
    .split = {.rule = "mD, VD, m, V? -> ()+m, ()+m, ()+m, m, m"},
    .takes_stored = [](const Call&, int input) { return input == 1; },
    .facts = {.product = Product::loss}};

}  // namespace lamina::ops
