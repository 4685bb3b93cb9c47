// adamw_rows(p, ids, g, m, v, scalars, copy?; ...): adamw for a table p[R, D] whose gradient is a
// list of rows, as from sum_rows, and zero elsewhere. The numbers are the same as in adamw. With
// lazy, only rows of the list change: moments and weight decay of the other rows pause until they
// are looked up again, as in SparseAdam of PyTorch and LazyAdam of TensorFlow. copy is p in bf16,
// updated.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& p = c.type(0);
  const Type& g = c.type(2);
  for (int i : {0, 2, 3, 4}) c.require_dtype(i, DType::f32);
  c.require(p.ndim() == 2, "p must be [rows, width], got {}", to_string(p));
  for (int i : {3, 4})
    c.require(c.type(i).shape == p.shape, "{} must be {}, got {}", c.input_name(i), to_string(p),
              to_string(c.type(i)));
  c.require_dtype(1, DType::i32);
  c.require(c.type(1).ndim() == 1 && g.shape == (Shape{c.type(1).dim(0), p.dim(1)}),
            "g must have a row of {} for each of ids {}, got {}", p.dim(1), to_string(c.type(1)),
            to_string(g));
  c.require_dtype(5, DType::f32);
  c.require_shape(5, {5});
  std::vector<Type> out{p, c.type(3), c.type(4)};
  if (c.has(6)) {
    c.require(c.type(6).dtype == DType::bf16 && c.type(6).shape == p.shape,
              "copy must be {} in bf16, got {}", to_string(p.shape), to_string(c.type(6)));
    out.push_back(c.type(6));
  }
  return out;
}

std::vector<Tensor> lower(const LowerCall& c) {
  const std::int64_t rows = c.type(0).dim(0);
  const bool copy = c.has(6);
  auto spread = [&](Tensor values) { return embedding_grad(c.in(1), values, {}, {.rows = rows}); };
  const auto step =
      adamw({.p = c.in(0), .g = spread(c.in(2)), .m = c.in(3), .v = c.in(4), .scalars = c.in(5)},
            {.beta1 = c.f("beta1"),
             .beta2 = c.f("beta2"),
             .eps = c.f("eps"),
             .weight_decay = c.f("weight_decay"),
             .copy = copy});
  std::vector<Tensor> made{step.p_out, step.m_out, step.v_out};
  if (copy) made.push_back(step.copy);
  const auto keep_unless = [&](Tensor may_change) {
    for (std::size_t i = 0; i < made.size(); ++i)
      made[i] = select(may_change, made[i],
                       c.in(i == 0   ? 0
                            : i == 3 ? 6
                                     : static_cast<int>(i) + 2));
  };
  if (copy) {
    Tensor on = reshape(slice(c.in(5), 0, 4, 1), {});
    keep_unless(less(number_like(on, 0), on));
  }
  if (!c.i("lazy")) return made;
  Graph& graph = *c.in(0).graph;
  Tensor times = spread(constant(graph, {DType::f32, {c.type(1).dim(0), 1}, {}}, 1));
  Tensor listed = less(zeros_like(times), times);
  keep_unless(listed);
  return made;
}

}  // namespace

constinit const OpDef adamw_rows_op = {
    .infer = infer,
    .lower = lower,
    .zero_gradient = true,
    .decode = &kTrainingOnly,
    .cost = kNoProducts,
    .split = {.rule = "Rd, S, Sd, Rd, Rd, _, Rd? -> Rd, Rd, Rd, Rd"}};

}  // namespace lamina::ops
