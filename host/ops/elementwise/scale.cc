// scale(x; by) = x * by, with a constant factor.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) { return {scale(c.ct(), c.f("by"))}; }

}  // namespace

constinit const OpDef scale_op = {
    .infer = infer_unary, .vjp = vjp, .elementwise = true, .facts = {.on_heads = OnHeads::changes}};

}  // namespace lamina::ops
