// add(a, b) = a + b, with broadcasting.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) {
  return {sum_to(c.ct(), c.type(0).shape), sum_to(c.ct(), c.type(1).shape)};
}

}  // namespace

constinit const OpDef add_op = {
    .infer = infer_arithmetic, .vjp = vjp, .elementwise = true, .facts = {.adds = true}};

}  // namespace lamina::ops
