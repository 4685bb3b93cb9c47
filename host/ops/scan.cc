// scan(operands...; body, times, num_consts, num_carries, reverse): carries, ys = body(consts,
// carries, xs[i]) for i = 0 .. times - 1 (backwards when reverse). Operands: consts, carries, then
// xs with a leading dim of size times; results: the last carries, then ys with that dim.
//
// The gradient of a scan is a scan over the transposed body: see autodiff/scan_transpose.h.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Graph& body = *c.body("body");
  auto consts = static_cast<std::size_t>(c.i("num_consts"));
  auto carries = static_cast<std::size_t>(c.i("num_carries"));
  std::int64_t times = c.i("times");
  c.require(times >= 1, "times must be at least 1, got {}", times);
  c.require(static_cast<std::size_t>(c.num_inputs()) == body.inputs().size(),
            "has {} operands, its body takes {}", c.num_inputs(), body.inputs().size());
  for (std::size_t i = 0; i < body.inputs().size(); ++i) {
    const Type& inner = body.type(body.inputs()[i].value);
    Type outer = i < consts + carries ? inner : inner.with(inner.shape.with_leading(times));
    const Type& type = c.type(static_cast<int>(i));
    c.require(type == outer, "operand {} ('{}') must be {}, got {}", i, body.inputs()[i].name,
              to_string(outer), to_string(type));
  }
  c.require(body.outputs().size() >= carries, "its body has {} results, fewer than its {} carries",
            body.outputs().size(), carries);
  std::vector<Type> out;
  for (std::size_t i = 0; i < body.outputs().size(); ++i) {
    const Type& inner = body.type(body.outputs()[i].value);
    if (i < carries) {
      const Type& carry = body.type(body.inputs()[consts + i].value);
      c.require(inner == carry, "carry {} goes in as {} and comes out as {}", i, to_string(carry),
                to_string(inner));
      out.push_back(inner);
    } else {
      out.push_back(inner.with(inner.shape.with_leading(times)));
    }
  }
  return out;
}

}  // namespace

constinit const OpDef scan_op = {.infer = infer,
                                 .decode = &kEachToken,
                                 .cost = {.none = "what its body costs, as often as it runs"},
                                 .split = {.none = "the ops of its body are split"}};

}  // namespace lamina::ops
