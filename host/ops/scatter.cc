// scatter(x, ids; dim, size): y[..., n, ...] = the sum of the x[..., k, ...] with ids[k] = n along
// dim, for n < size; other ids are dropped. The transpose of gather.
#include "ops/move_dim.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  const int dim = checked_dim(c, c.i("dim"), x.ndim());
  c.require_dtype(1, DType::i32);
  c.require_shape(1, {x.dim(dim)});
  c.require(c.i("size") >= 0, "size must not be negative, got {}", c.i("size"));
  require_reducible(c, 0);
  Shape shape = x.shape;
  shape[dim] = c.i("size");
  return {{x.dtype, shape, {}}};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const int dim = checked_dim(c, c.i("dim"), c.type(0).ndim()), last = c.type(0).ndim() - 1;
  Tensor x = move_dim(c.in(0), dim, last);
  const Shape shape = x.shape();
  Shape of_ids = shape;
  for (int i = 0; i < last; ++i) of_ids[i] = 1;
  Tensor ids = broadcast(reshape(c.in(1), of_ids), shape);
  return {move_dim(scatter_along(x, ids, {.size = c.i("size")}), last, dim)};
}

std::string split_rule(const Call& c) {
  const std::int64_t dim = c.i("dim");
  const std::string dims = dim_letters(c, 0, std::span(&dim, 1));
  return fmt::format("{}, _ -> {}", dims, dims);
}

}  // namespace

constinit const OpDef scatter_op = {.infer = infer,
                                    .lower = lower,
                                    .decode = &kEachToken,
                                    .cost = kNoProducts,
                                    .split = {.rule_of = split_rule}};

}  // namespace lamina::ops
