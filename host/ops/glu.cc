// glu(gate, up; activation) = activation(gate) * up. Shazeer 2020, "GLU variants improve
// Transformer".
#include "ops/op.h"

namespace lamina::ops {
namespace {

constexpr std::string_view kActivations[] = {"silu", "gelu", "gelu_tanh", "relu", "sigmoid"};

std::vector<Type> infer(const Call& c) {
  bool known = false;
  for (std::string_view name : kActivations) known |= c.s("activation") == name;
  c.require(known, "activation must be one of {}, got '{}'", fmt::join(kActivations, ", "),
            c.s("activation"));
  c.require(c.type(0) == c.type(1), "gate and up must have one type, got {} and {}",
            to_string(c.type(0)), to_string(c.type(1)));
  c.require_floating(0);
  return {c.type(0)};
}

std::vector<Tensor> lower(const LowerCall& c) {
  DType wide = sum_dtype(c.type(0).dtype);
  Tensor gate = call(c.s("activation"), {cast(c.in(0), wide)});
  return {cast(gate * cast(c.in(1), wide), c.type(0).dtype)};
}

}  // namespace

constinit const OpDef glu_op = {.infer = infer,
                                .lower = lower,
                                .decode = &kEachToken,
                                .cost = kNoProducts,
                                .split = {.rule = "..., ... -> ..."},
                                .facts = {.gates = true}};

}  // namespace lamina::ops
