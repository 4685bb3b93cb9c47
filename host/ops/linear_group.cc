// linear_group(x, weights..., biases...; biases) = linear(x, w, b) for each weight: one pass over x
// for projections that share it. Attribute biases: 1 for each weight with a bias.
#include "ops/group_members.h"
#include "ops/op.h"

namespace lamina::ops {
namespace {

int num_weights(const Call& c) { return static_cast<int>(c.list("biases").size()); }

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  c.require_floating(0);
  const std::vector<GroupMember> members = group_members(c);
  int operands = 1;
  for (const GroupMember& m : members) operands += m.bias < 0 ? 1 : 2;
  c.require(c.num_inputs() == operands, "has {} operands, expected {}", c.num_inputs(), operands);
  std::vector<Type> out;
  for (const GroupMember& m : members) {
    const Type& w = c.type(m.weight);
    c.require(w.ndim() == 2 && w.dim(1) == x.dim(-1) && w.dtype == x.dtype,
              "{} must be {}[outputs, {}], got {}", c.input_name(m.weight), name(x.dtype),
              x.dim(-1), to_string(w));
    if (m.bias >= 0) c.require_shape(m.bias, {w.dim(0)});
    Type y = x;
    y.shape[-1] = w.dim(0);
    out.push_back(y);
  }
  return out;
}

std::vector<Tensor> lower(const LowerCall& c) {
  std::vector<Tensor> out;
  for (const GroupMember& m : group_members(c))
    out.push_back(linear(c.in(0), c.in(m.weight), m.bias < 0 ? Tensor{} : c.in(m.bias)));
  return out;
}

double flops(const NodeView& n, const WorkContext&) {
  double outputs = 0;
  for (int i = 0; i < n.num_outputs(); ++i) outputs += num_elements(n.out_type(i));
  return 2 * outputs * static_cast<double>(n.type(0).dim(-1));
}

}  // namespace

std::vector<GroupMember> group_members(const Call& call) {
  int weight = 1, bias = 1 + num_weights(call);
  std::vector<GroupMember> out;
  for (const std::int64_t has_bias : call.list("biases"))
    out.push_back({weight++, has_bias ? bias++ : -1});
  return out;
}

constinit const OpDef linear_group_op = {
    .infer = infer,
    .lower = lower,
    .decode = &kEachToken,
    .cost = {.flops = flops},
    .split = {.none = "it consists of linears that are already split"},
    .takes_stored = [](const Call& c, int input) { return input >= 1 && input <= num_weights(c); }};

}  // namespace lamina::ops
