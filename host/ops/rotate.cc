// rotate(x, table; interleaved, inverse): each pair of the first rotary dims of x[B, T, N, H]
// rotated by its angle in table (see rope_table); pairs are (i, i + rotary / 2), or (2i, 2i + 1) if
// interleaved. Su et al. 2021, equation 34.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  const Type& table = c.type(1);
  c.require_floating(0);
  c.require_ndim(0, 4);
  c.require_dtype(1, DType::f32);
  c.require(table.ndim() == 4 && table.dim(0) == 2 && table.dim(1) == x.dim(0) &&
                table.dim(2) == x.dim(1) && 2 * table.dim(3) <= x.dim(3),
            "table {} does not match x {}", to_string(table), to_string(x));
  return {x};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const Type& x_type = c.type(0);
  std::int64_t half = c.type(1).dim(3), rotary = 2 * half, width = x_type.dim(3);
  bool interleaved = c.i("interleaved") != 0;
  DType wide = sum_dtype(x_type.dtype);
  Tensor x = cast(c.in(0), wide);
  Shape angle{x.dim(0), x.dim(1), 1, half};
  Tensor cos = cast(reshape(slice(c.in(1), 0, 0, 1), angle), wide);
  Tensor sin = cast(reshape(slice(c.in(1), 0, 1, 1), angle), wide);
  if (c.i("inverse")) sin = -sin;

  Shape heads{x.dim(0), x.dim(1), x.dim(2), half};
  Shape pairs{x.dim(0), x.dim(1), x.dim(2), interleaved ? half : 2, interleaved ? 2 : half};
  int pair_dim = interleaved ? 4 : 3;
  Tensor rotary_part = reshape(slice(x, 3, 0, rotary), pairs);
  Tensor a = reshape(slice(rotary_part, pair_dim, 0, 1), heads);
  Tensor b = reshape(slice(rotary_part, pair_dim, 1, 1), heads);
  Shape slot = heads.with_leading(1);
  for (int i = 0; i < 4; ++i) slot[i] = heads[i];
  slot[3] = interleaved ? half : 1;
  slot[4] = interleaved ? 1 : half;
  Tensor y = concat({reshape(a * cos - b * sin, slot), reshape(b * cos + a * sin, slot)},
                    {.dim = pair_dim});
  y = reshape(y, {x.dim(0), x.dim(1), x.dim(2), rotary});
  if (rotary < width) y = concat({y, slice(x, 3, rotary, width - rotary)}, {.dim = 3});
  return {cast(y, x_type.dtype)};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  return {rotate(c.ct(), c.in(1),
                 {.interleaved = c.i("interleaved") != 0, .inverse = c.i("inverse") == 0}),
          {}};
}

}  // namespace

constinit const OpDef rotate_op = {.infer = infer,
                                   .lower = lower,
                                   .vjp = vjp,
                                   .decode = &kEachToken,
                                   .cost = kNoProducts,
                                   .split = {.rule = "btnH, _btF -> btnH"}};

}  // namespace lamina::ops
