// equal(a, b) = a == b as bool, with broadcasting.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) { return {infer_broadcast(c)[0].with(DType::boolean)}; }

}  // namespace

constinit const OpDef equal_op = {.infer = infer, .elementwise = true, .zero_gradient = true};

}  // namespace lamina::ops
