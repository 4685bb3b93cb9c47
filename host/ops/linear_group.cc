// linear_group(x, weights..., biases...; biases) = linear(x, w, b) for each weight: one pass over x
// for projections that share it. Attribute biases: 1 for each weight with a bias.
#include "ops/op.h"

namespace lamina::ops {
namespace {

int num_weights(const Call& c) { return static_cast<int>(c.list("biases").size()); }

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  c.require_floating(0);
  int biases = 0;
  for (std::int64_t flag : c.list("biases")) biases += flag != 0;
  c.require(c.num_inputs() == 1 + num_weights(c) + biases, "has {} operands, expected {}",
            c.num_inputs(), 1 + num_weights(c) + biases);
  int bias = 1 + num_weights(c);
  std::vector<Type> out;
  for (int i = 0; i < num_weights(c); ++i) {
    const Type& w = c.type(1 + i);
    c.require(w.ndim() == 2 && w.dim(1) == x.dim(-1) && w.dtype == x.dtype,
              "{} must be {}[outputs, {}], got {}", c.input_name(1 + i), name(x.dtype), x.dim(-1),
              to_string(w));
    if (c.list("biases")[static_cast<std::size_t>(i)]) c.require_shape(bias++, {w.dim(0)});
    Type y = x;
    y.shape[-1] = w.dim(0);
    out.push_back(y);
  }
  return out;
}

std::vector<Tensor> lower(const LowerCall& c) {
  int bias = 1 + num_weights(c);
  std::vector<Tensor> out;
  for (int i = 0; i < num_weights(c); ++i) {
    bool has_bias = c.list("biases")[static_cast<std::size_t>(i)] != 0;
    out.push_back(linear(c.in(0), c.in(1 + i), has_bias ? c.in(bias++) : Tensor{}));
  }
  return out;
}

double flops(const NodeView& n, const WorkContext&) {
  double outputs = 0;
  for (int i = 0; i < n.num_outputs(); ++i) outputs += num_elements(n.out_type(i));
  return 2 * outputs * static_cast<double>(n.type(0).dim(-1));
}

}  // namespace

constinit const OpDef linear_group_op = {
    .infer = infer,
    .lower = lower,
    .decode = &kEachToken,
    .cost = {.flops = flops},
    .split = {.none = "it consists of linears that are already split"},
    .takes_stored = [](const Call& c, int input) { return input >= 1 && input <= num_weights(c); }};

}  // namespace lamina::ops
