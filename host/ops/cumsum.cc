// cumsum(x; dim, exclusive, reverse): y[i] = x[0] + ... + x[i] along dim, without x[i] itself if
// exclusive, from the end if reverse; in f32 (f64 for f64), rounded once.
#include "ops/move_dim.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  require_reducible(c, 0);
  checked_dim(c, c.i("dim"), c.type(0).ndim());
  return {c.type(0)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const Type& type = c.type(0);
  const int dim = checked_dim(c, c.i("dim"), type.ndim());
  const DType wide = is_floating(type.dtype) ? sum_dtype(type.dtype) : type.dtype;
  if (type.num_elements() == 0) return {c.in(0)};
  Tensor x = move_dim(cast(c.in(0), wide), dim, 0);
  const Shape one(x.shape().dims().subspan(1));

  auto body = std::make_shared<Graph>();
  Tensor before = body->add_input("sum", {wide, one, {}});
  Tensor after = before + body->add_input("x", {wide, one, {}});
  body->add_output("sum", after);
  body->add_output("y", c.i("exclusive") ? before : after);
  const std::vector<Tensor> made =
      scan({constant(*x.graph, {wide, one, {}}, 0), x},
           {.body = body, .times = x.dim(0), .num_carries = 1, .reverse = c.i("reverse") != 0});
  return {cast(move_dim(made[1], 0, dim), type.dtype)};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  return {cumsum(
      c.ct(),
      {.dim = c.i("dim"), .exclusive = c.i("exclusive") != 0, .reverse = c.i("reverse") == 0})};
}

std::string split_rule(const Call& c) {
  const std::int64_t dim = c.i("dim");
  const std::string dims = dim_letters(c, 0, std::span(&dim, 1));
  return fmt::format("{} -> {}", dims, dims);
}

}  // namespace

constinit const OpDef cumsum_op = {.infer = infer,
                                   .lower = lower,
                                   .vjp = vjp,
                                   .decode = &kEachToken,
                                   .cost = kNoProducts,
                                   .split = {.rule_of = split_rule}};

}  // namespace lamina::ops
