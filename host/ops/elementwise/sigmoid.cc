// sigmoid(x) = 1 / (1 + exp(-x)).
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) { return {c.ct() * c.out(0) * shift(-c.out(0), 1)}; }

}  // namespace

constinit const OpDef sigmoid_op = {
    .infer = infer_unary, .vjp = vjp, .elementwise = true, .facts = {.is_activation = true}};

}  // namespace lamina::ops
