// concat(xs...; dim): the inputs concatenated along dim.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require(c.num_inputs() >= 1, "requires at least one input");
  Type out = c.type(0);
  int dim = checked_dim(c, c.i("dim"), out.ndim());
  for (int i = 1; i < c.num_inputs(); ++i) {
    const Type& x = c.type(i);
    bool fits = x.dtype == out.dtype && x.ndim() == out.ndim();
    for (int d = 0; fits && d < out.ndim(); ++d) fits = d == dim || x.dim(d) == out.dim(d);
    c.require(fits, "{} is {}, which does not continue {} along dim {}", c.input_name(i),
              to_string(x), to_string(c.type(0)), dim);
    out.shape[dim] = checked_sum(c, out.dim(dim), x.dim(dim));
  }
  return {out};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  int dim = checked_dim(c, c.i("dim"), c.type(0).ndim());
  std::vector<Tensor> out;
  std::int64_t start = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    out.push_back(slice(c.ct(), dim, start, c.type(i).dim(dim)));
    start += c.type(i).dim(dim);
  }
  return out;
}

std::string split_rule(const Call& c) {
  const std::int64_t dim[] = {c.i("dim")};
  const std::string dims = dim_letters(c, 0, dim);
  std::string rule = dims;
  for (int i = 1; i < c.num_inputs(); ++i) rule += ", " + dims;
  return rule + " -> " + dims;
}

}  // namespace

constinit const OpDef concat_op = {.infer = infer,
                                   .vjp = vjp,
                                   .layout_only = true,
                                   .decode = &kEachToken,
                                   .cost = kNoProducts,
                                   .split = {.rule_of = split_rule},
                                   .facts = {.moves_data = true, .carries_rows = true}};

}  // namespace lamina::ops
