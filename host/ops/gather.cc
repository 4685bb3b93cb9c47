// gather(x, ids; dim): dim of x replaced by the dims of ids, which select elements along it; an id
// out of range gives zeros.
#include "ops/move_dim.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type &x = c.type(0), &ids = c.type(1);
  const int dim = checked_dim(c, c.i("dim"), x.ndim());
  c.require_dtype(1, DType::i32);
  c.require(x.ndim() - 1 + ids.ndim() <= kMaxDims,
            "the result would have {} dims; the maximum is {}", x.ndim() - 1 + ids.ndim(),
            kMaxDims);
  std::vector<std::int64_t> dims = to_list(x.shape);
  dims.erase(dims.begin() + dim);
  dims.insert(dims.begin() + dim, ids.shape.dims().begin(), ids.shape.dims().end());
  return {{x.dtype, Shape(std::span(std::as_const(dims))), {}}};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const Shape shape = infer(c)[0].shape;
  const int dim = checked_dim(c, c.i("dim"), c.type(0).ndim()), last = c.type(0).ndim() - 1;
  Tensor x = move_dim(c.in(0), dim, last);
  const std::int64_t count = c.type(1).num_elements();
  Shape flat = x.shape(), of_ids = flat;
  flat[-1] = of_ids[-1] = count;
  for (int i = 0; i < last; ++i) of_ids[i] = 1;
  Tensor y = take_along(x, broadcast(reshape(c.in(1), of_ids), flat));
  return {reshape(move_dim(y, last, dim), shape)};
}

// The dims of ids have separate letters.
std::string split_rule(const Call& c) {
  const std::int64_t dim = c.i("dim");
  const std::string of_x = dim_letters(c, 0, std::span(&dim, 1));
  std::string ids = dim_letters(c, 1), out = of_x;
  for (char& letter : ids)
    if (letter != '(' && letter != ')') letter = static_cast<char>(letter + kMaxDims);
  out.replace(out.find('_'), 1, ids == "()" ? "" : ids);
  return fmt::format("{}, {} -> {}", of_x, ids, out.empty() ? "()" : out);
}

}  // namespace

constinit const OpDef gather_op = {.infer = infer,
                                   .lower = lower,
                                   .decode = &kEachToken,
                                   .cost = kNoProducts,
                                   .split = {.rule_of = split_rule}};

}  // namespace lamina::ops
