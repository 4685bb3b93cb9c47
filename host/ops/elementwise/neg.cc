// neg(x) = -x.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) { return {-c.ct()}; }

}  // namespace

constinit const OpDef neg_op = {.infer = infer_number, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
