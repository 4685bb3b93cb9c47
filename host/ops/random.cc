// random(; shape): numbers in [0, 1) in training, 0.5 otherwise, f32. Number i depends only on
// (seed, step, stream, layer, i), as in dropout: recomputing it gives the same.
#include "ops/op.h"

LAMINA_HOST_INPUTS(random, "seed layer?")
LAMINA_HOST_ATTRS(random, "stream:i=0")

namespace lamina::ops {
namespace {

namespace in = operand::random;

std::vector<Type> infer(const Call& c) {
  c.require_dtype(in::kSeed, DType::i64);
  c.require_shape(in::kSeed, {2});
  c.require_dtype(in::kLayer, DType::i32);
  c.require_shape(in::kLayer, {});
  return {{DType::f32, checked_shape(c, "shape"), {}}};
}

void tokens(TokenFlow& flow) { flow.outputs = {extents_of(flow.node.out_type(), Counted::same)}; }

}  // namespace

constinit const OpDef random_op = {
    .infer = infer,
    .zero_gradient = true,
    .decode = &kEachToken,
    .cost = kNoProducts,
    .split = {.none = "a draw depends on the position of its element in the whole tensor"},
    .tokens = tokens,
    .facts = {.draws = true, .size_attrs = {"shape"}}};

}  // namespace lamina::ops
