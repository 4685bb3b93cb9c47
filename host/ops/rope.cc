// rope(x, positions; ...) = rotate(x, rope_table(positions)): rotary positions on x[B, T, N, H]. Su
// et al. 2021. positions i32[B, T] or i32[3, B, T]. The table is a separate node, so that queries,
// keys and layers share it. With frequencies[rotary_dim / 2] the table contains the angles position
// * frequency, with cosines and sines multiplied by attention_factor.
#include "ops/op.h"
#include "ops/registry.h"
#include "ops/rope_frequencies.h"

namespace lamina::ops {
namespace {

namespace in = operand::rope;

std::vector<Type> infer(const Call& c) {
  const Type& x = c.type(0);
  c.require_floating(0);
  c.require_ndim(0, 4);
  c.require_dtype(1, DType::i32);
  const Shape& positions = c.type(1).shape;
  c.require(positions == Shape{x.dim(0), x.dim(1)} || positions == Shape{3, x.dim(0), x.dim(1)},
            "positions must be [B, T] or [3, B, T] of x {}, got {}", to_string(x),
            to_string(c.type(1)));
  std::int64_t rotary = c.i("rotary_dim") ? c.i("rotary_dim") : x.dim(3);
  c.require(rotary % 2 == 0 && rotary > 0 && rotary <= x.dim(3),
            "rotary_dim must be even and at most the head width {}, got {}", x.dim(3), rotary);
  if (!c.has(in::kFrequencies)) require_rope_attrs(c, c.type(1), rotary);
  c.require_floating(in::kFrequencies);
  c.require_shape(in::kFrequencies, {rotary / 2});
  c.require(!c.has(in::kFrequencies) || (c.s("scaling") == "none" && c.type(1).ndim() == 2),
            "frequencies cannot be combined with a scaling, and require positions [B, T]");
  return {x};
}

// Returns f32[2, B, T, F], as rope_table does.
Tensor table_of(Tensor positions, Tensor frequencies, double factor) {
  const Shape angles{positions.dim(0), positions.dim(1), frequencies.dim(0)};
  Tensor at = reshape(cast(positions, DType::f32), {angles[0], angles[1], 1});
  Tensor angle = at * cast(frequencies, DType::f32);
  const auto row = [&](Tensor x) {
    return scale(reshape(x, angles.with_leading(1)), factor != 0 ? factor : 1);
  };
  return stop_gradient(concat({row(cos(angle)), row(sin(angle))}, {.dim = 0}));
}

std::vector<Tensor> lower(const LowerCall& c) {
  if (c.has(in::kFrequencies))
    return {rotate(c.in(0), table_of(c.in(1), c.in(in::kFrequencies), c.f("attention_factor")),
                   {.interleaved = c.i("interleaved") != 0})};
  const Op& op = c.op();
  std::vector<std::pair<std::string_view, AttrValue>> attrs;  // the same as rope_table's
  for (std::size_t i = 0; i < op.attrs.size(); ++i)
    attrs.emplace_back(op.attrs[i].name, c.attrs()[i]);
  for (auto& [name, value] : attrs)
    if (name == "rotary_dim" && !c.i("rotary_dim")) value = c.type(0).dim(3);
  const Tensor positions = c.in(1);
  const Op& op_of_table = get(OpCode::rope_table);
  Tensor table = positions.graph->add_node(op_of_table, std::span(&positions, 1), attrs).front();
  return {rotate(c.in(0), table, {.interleaved = c.i("interleaved") != 0})};
}

// With scaling dynamic and longrope the rotation of a row depends on its largest position.
std::string split_rule(const Call& c) {
  return c.type(1).ndim() == 3 ? "bTnH, _bT, F? -> bTnH" : "bTnH, bT, F? -> bTnH";
}

// Positions belong to the same rows and tokens as x, or are all equal: an index of the call is not
// the place of a token.
void tokens(TokenFlow& flow) {
  const std::size_t first = static_cast<std::size_t>(flow.node.type(1).ndim()) - 2;
  for (std::size_t d = 0; d < 2; ++d) {
    const DimExtents &of_x = flow.in(0)[d], &of_positions = flow.in(1)[first + d];
    const bool known = of_positions == of_x || of_positions.empty() ||
                       of_positions.front().counted == Counted::same;
    if (!known && flow.mixes.empty())
      flow.mixes =
          fmt::format("distinguishes tokens by their position in the call, along dim {} of {} {}",
                      first + d, flow.node.input_name(1), to_string(flow.node.type(1)));
  }
  flow.outputs = {flow.in(0)};
}

}  // namespace

constinit const OpDef rope_op = {
    .infer = infer,
    .lower = lower,
    .always_lower = true,
    .decode = &kEachToken,
    .cost = kNoProducts,
    .split = {.rule_of = split_rule},
    .tokens = tokens,
    .facts = {.on_heads = OnHeads::changes, .carries_rows = true, .rotates = true}};

}  // namespace lamina::ops
