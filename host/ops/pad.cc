// pad(x; dim, before, after): x with zeros added before and after it along dim.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  Type out = c.type(0);
  int dim = checked_dim(c, c.i("dim"), out.ndim());
  c.require(c.i("before") >= 0 && c.i("after") >= 0, "cannot pad by {} and {}", c.i("before"),
            c.i("after"));
  out.shape[dim] = checked_sum(c, out.dim(dim), checked_sum(c, c.i("before"), c.i("after")));
  return {out};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  int dim = checked_dim(c, c.i("dim"), c.type(0).ndim());
  return {slice(c.ct(), dim, c.i("before"), c.type(0).dim(dim))};
}

std::string split_rule(const Call& c) {
  const std::int64_t dim[] = {c.i("dim")};
  const std::string dims = dim_letters(c, 0, dim);
  return fmt::format("{0} -> {0}", dims);
}

}  // namespace

constinit const OpDef pad_op = {.infer = infer,
                                .vjp = vjp,
                                .layout_only = true,
                                .decode = &kEachToken,
                                .cost = kNoProducts,
                                .split = {.rule_of = split_rule},
                                .facts = {.size_attrs = {"before", "after"}}};

}  // namespace lamina::ops
