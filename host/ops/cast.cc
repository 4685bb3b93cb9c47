// cast(x; dtype): x rounded to nearest, ties to even; towards zero from float to integer.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  auto dtype = parse_dtype(c.s("dtype"));
  c.require(dtype.has_value(), "dtype must be a name such as f32 or bf16, got '{}'", c.s("dtype"));
  return {c.type(0).with(*dtype)};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  if (!is_floating(c.type(0).dtype)) return {{}};
  return {cast(c.ct(), c.type(0).dtype)};
}

}  // namespace

constinit const OpDef cast_op = {
    .infer = infer,
    .vjp = vjp,
    .elementwise = true,
    .layout_only = true,
    .facts = {.on_heads = OnHeads::changes, .moves_data = true, .carries_rows = true}};

}  // namespace lamina::ops
