// widen_stored(x): the values of x, which is stored in blocks (Type::storage), as plain elements:
// each is rounded once to x's dtype. Values that are plain already stay as they are.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_floating(0);
  return {c.type(0).stored_as(nullptr)};
}

}  // namespace

constinit const OpDef widen_stored_op = {
    .infer = infer,
    .zero_gradient = true,
    .decode = &kEachToken,
    .cost = kNoProducts,
    .split = {.none = "rows of blocks are widened whole, before they are split"},
    .takes_stored = [](const Call&, int) { return true; }};

}  // namespace lamina::ops
