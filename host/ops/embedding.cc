// embedding(table, ids): row ids[...] of table[V, D] for each id.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& table = c.type(0);
  c.require_ndim(0, 2);
  c.require_dtype(1, DType::i32);
  c.require(c.type(1).ndim() < kMaxDims, "ids has too many dims: {}", to_string(c.type(1)));
  std::vector<std::int64_t> dims = to_list(c.type(1).shape);
  dims.push_back(table.dim(1));
  return {{table.dtype, Shape{std::span(std::as_const(dims))}, {}}};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  return {embedding_grad(c.in(1), c.ct(), {}, {.rows = c.type(0).dim(0)}), {}};
}

// Only the rows of the table that are looked up are read.
double share_read(const NodeView& n, int input) {
  return input == 0 ? num_elements(n.out_type()) / num_elements(n.type(0)) : 1;
}

}  // namespace

constinit const OpDef embedding_op = {
    .infer = infer,
    .vjp = vjp,
    .decode = &kEachToken,
    .cost = {.none = kNoProducts.none, .share_read = share_read},
    .split = {.rule = "Vd, ... -> ...d"},
    .takes_stored = [](const Call&, int input) { return input == 0; },
    .facts = {.params = {{{"table", ParamUse::table}}}}};

}  // namespace lamina::ops
