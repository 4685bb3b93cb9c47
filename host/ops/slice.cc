// slice(x; dim, start, size): elements start .. start + size - 1 of dim.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  Type out = c.type(0);
  int dim = checked_dim(c, c.i("dim"), out.ndim());
  std::int64_t start = c.i("start"), size = c.i("size");
  c.require(start >= 0 && size >= 0 && size <= out.dim(dim) && start <= out.dim(dim) - size,
            "{} elements from {} on exceed dim {} of {}", size, start, dim, to_string(out));
  out.shape[dim] = size;
  return {out};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  int dim = checked_dim(c, c.i("dim"), c.type(0).ndim());
  std::int64_t after = c.type(0).dim(dim) - c.i("start") - c.i("size");
  return {pad(c.ct(), {.dim = dim, .before = c.i("start"), .after = after})};
}

// A slice of the first dim is contiguous; in other dims only if all earlier ones have size 1.
std::optional<std::int64_t> view(const Call& c) {
  const Type& x = c.type(0);
  int dim = checked_dim(c, c.i("dim"), x.ndim());
  for (int d = 0; d < dim; ++d)
    if (x.dim(d) != 1) return std::nullopt;
  std::int64_t row = 1;
  for (int d = dim + 1; d < x.ndim(); ++d) row *= x.dim(d);
  return c.i("start") * row;
}

std::string split_rule(const Call& c) {
  const std::int64_t dim[] = {c.i("dim")};
  const std::string dims = dim_letters(c, 0, dim);
  return fmt::format("{0} -> {0}", dims);
}

}  // namespace

constinit const OpDef slice_op = {.infer = infer,
                                  .vjp = vjp,
                                  .view = view,
                                  .layout_only = true,
                                  .decode = &kEachToken,
                                  .cost = kNoProducts,
                                  .split = {.rule_of = split_rule},
                                  .facts = {.on_heads = OnHeads::shapes,
                                            .moves_data = true,
                                            .carries_rows = true,
                                            .size_attrs = {"start", "size"}}};

}  // namespace lamina::ops
