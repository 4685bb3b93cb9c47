// dropout(x, seed, layer?; rate, stream): x / (1 - rate) with probability 1 - rate, else 0. The
// draw for element i depends only on (seed, step, stream, layer, i): recomputing it gives the same
// mask. Philox4x32-10, Salmon et al. 2011.
#include "ops/op.h"

LAMINA_HOST_INPUTS(dropout, "seed layer?")
LAMINA_HOST_ATTRS(dropout, "stream:i=0")

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_floating(0);
  c.require_dtype(1, DType::i64);
  c.require_shape(1, {2});
  c.require_dtype(2, DType::i32);
  c.require_shape(2, {});
  const double rate = c.f("rate");
  c.require(rate >= 0 && static_cast<float>(rate) < 1, "rate must be in [0, 1) in float32, got {}",
            rate);
  return {c.type(0)};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  return {
      dropout(c.ct(), c.in(1), c.in(2), {.rate = c.f("rate"), .stream = c.i("stream")}), {}, {}};
}

}  // namespace

constinit const OpDef dropout_op = {
    .infer = infer,
    .vjp = vjp,
    .decode = &kEachToken,
    .cost = kNoProducts,
    .split = {.none = "a draw depends on the position of its element in the whole tensor"},
    .tokens = keep_extents,
    .facts = {.draws = true}};

}  // namespace lamina::ops
