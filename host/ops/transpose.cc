// transpose(x; perm): dim i of the result is dim perm[i] of x.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const auto& perm = c.list("perm");
  const Type& x = c.type(0);
  c.require(perm.size() == static_cast<std::size_t>(x.ndim()),
            "perm must contain each of the {} dims of {} once, got {} numbers", x.ndim(),
            to_string(x), perm.size());
  Type out = x;
  unsigned seen = 0;
  for (int i = 0; i < x.ndim(); ++i) {
    int from = checked_dim(c, perm[static_cast<std::size_t>(i)], x.ndim());
    c.require(!(seen >> from & 1), "perm contains dim {} twice", from);
    seen |= 1u << from;
    out.shape[i] = x.shape[from];
    out.axes[static_cast<std::size_t>(i)] = x.axes[static_cast<std::size_t>(from)];
  }
  return {out};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  const auto& perm = c.list("perm");
  std::vector<std::int64_t> inverse(perm.size());
  int ndim = c.type(0).ndim();
  for (int i = 0; i < ndim; ++i)
    inverse[static_cast<std::size_t>(checked_dim(c, perm[static_cast<std::size_t>(i)], ndim))] = i;
  return {transpose(c.ct(), std::move(inverse))};
}

std::string split_rule(const Call& c) {
  const std::string dims = dim_letters(c, 0);
  std::string permuted;
  for (std::int64_t dim : c.list("perm"))
    permuted += dims[static_cast<std::size_t>(checked_dim(c, dim, c.type(0).ndim()))];
  return fmt::format("{} -> {}", dims, permuted);
}

}  // namespace

constinit const OpDef transpose_op = {.infer = infer,
                                      .vjp = vjp,
                                      .layout_only = true,
                                      .decode = &kEachToken,
                                      .cost = kNoProducts,
                                      .split = {.rule_of = split_rule},
                                      .facts = {.on_heads = OnHeads::shapes, .moves_data = true}};

}  // namespace lamina::ops
