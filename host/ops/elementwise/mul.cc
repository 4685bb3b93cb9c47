// mul(a, b) = a * b, with broadcasting.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) {
  return {sum_to(c.ct() * c.in(1), c.type(0).shape), sum_to(c.ct() * c.in(0), c.type(1).shape)};
}

}  // namespace

constinit const OpDef mul_op = {.infer = infer_arithmetic,
                                .vjp = vjp,
                                .elementwise = true,
                                .facts = {.on_heads = OnHeads::changes}};

}  // namespace lamina::ops
