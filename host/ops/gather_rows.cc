// gather_rows(x, order; divide): y[r] = row order[r] / divide of x, whose leading dims count as
// one. `order` contains each of the assignments 0 to rows * divide - 1 once, so the gradient of a
// row is the sum over its `divide` positions.
#include <algorithm>

#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  c.require_floating(0);
  c.require_dtype(1, DType::i32);
  c.require(x.ndim() >= 1, "x must have at least one dim, got {}", to_string(x));
  c.require(c.i("divide") >= 1, "divide must be at least 1, got {}", c.i("divide"));
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < x.ndim(); ++i) rows *= x.dim(i);
  const std::int64_t taken = checked_product(c, rows, c.i("divide"));
  c.require(c.type(1).shape == Shape{taken},
            "order must be [{}]: {} assignments for each of the {} rows of x {}, got {}", taken,
            c.i("divide"), rows, to_string(x), to_string(c.type(1)));
  Type out{x.dtype, {taken, x.dim(-1)}, {}};
  out.axes[1] = x.axes[static_cast<std::size_t>(x.ndim() - 1)];
  return {out};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  DType wide = sum_dtype(c.ct().dtype());
  Shape shape = c.type(0).shape;
  shape[-1] = c.i("divide");
  Tensor ones = constant(*c.ct().graph, {wide, shape, {}}, 1);
  return {combine_rows(c.ct(), c.in(1), ones), {}};
}

void tokens(TokenFlow& flow) {
  flow.read_places(1);
  const bool of_tokens = std::ranges::any_of(flow.in(0), has_tokens) || has_tokens(flow.in(1)[0]);
  const std::int64_t rows = flow.node.out_type().dim(0);
  flow.outputs = {{dim_of(of_tokens ? Counted::sorted : Counted::other, rows), flow.in(0).back()}};
}

}  // namespace

constinit const OpDef gather_rows_op = {.infer = infer,
                                        .vjp = vjp,
                                        .layout_only = true,
                                        .decode = &kEachToken,
                                        .cost = kNoProducts,
                                        .split = {.rule = "___d, _ -> Rd"},
                                        .tokens = tokens};

}  // namespace lamina::ops
