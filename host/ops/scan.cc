// scan(operands...; body, times, num_consts, num_carries, reverse): carries, ys = body(consts,
// carries, xs[i]) for i = 0 .. times - 1 (backwards when reverse). Operands: consts, carries, then
// xs with a leading dim of size times; results: the last carries, then ys with that dim.
//
// The gradient of a scan is a scan over the transposed body: see autodiff/scan_transpose.h.
#include "graph/scan_shape.h"
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Graph& body = *c.body("body");
  const ScanShape shape = scan_shape(c);
  std::int64_t times = c.i("times");
  c.require(times >= 1, "times must be at least 1, got {}", times);
  c.require(static_cast<std::size_t>(c.num_inputs()) == body.inputs().size(),
            "has {} operands, but its body takes {}", c.num_inputs(), body.inputs().size());
  for (std::size_t i = 0; i < body.inputs().size(); ++i) {
    const Type& inner = body.type(body.inputs()[i].value);
    Type outer = inner;
    if (i >= shape.first_x()) outer.shape = inner.shape.with_leading(times);
    const Type& type = c.type(static_cast<int>(i));
    c.require(type == outer, "operand {} ('{}') must be {}, got {}", i, body.inputs()[i].name,
              to_string(outer), to_string(type));
  }
  c.require(body.outputs().size() >= shape.carries,
            "its body has {} results, fewer than its {} carries", body.outputs().size(),
            shape.carries);
  std::vector<Type> out;
  for (std::size_t i = 0; i < body.outputs().size(); ++i) {
    const Type& inner = body.type(body.outputs()[i].value);
    if (!shape.is_stacked(i)) {
      const Type& carry = body.type(body.inputs()[shape.consts + i].value);
      c.require(inner == carry, "carry {} enters as {} but leaves as {}", i, to_string(carry),
                to_string(inner));
      out.push_back(inner);
    } else {
      out.push_back(inner.with(inner.shape.with_leading(times)).stored_as(inner.storage));
    }
  }
  return out;
}

// Token flow of a body: an operand that is sliced by token belongs to one token in it.
class BodyFlow {
 public:
  BodyFlow(TokenFlow& flow, const Graph& body) : flow_(flow), body_(body), values_(body) {}

  void run(const ScanShape& shape) {
    DimExtents tokens, rows;
    for (std::size_t i = 0; i < body_.inputs().size(); ++i) {
      Extents extents = *flow_.inputs[i];
      Followed& inner = at(body_.inputs()[i].value);
      if (i < shape.first_x()) {
        if (!shape.is_carried(i) && has_tokens_of_row(extents))
          inner.mixes = fmt::format("reads {} of all tokens", to_string(flow_.node.type(int(i))));
        inner.extents = std::move(extents);
        continue;
      }
      if (has_tokens(extents[0])) tokens = extents[0];
      extents.erase(extents.begin());
      if (!extents.empty() && has_tokens(extents[0])) rows = extents[0];
      inner.extents = std::move(extents);
    }
    for (std::size_t i = shape.consts; i < shape.first_x(); ++i) {
      const ValueId carry = body_.inputs()[i].value;
      at(carry).extents = extents_of(body_.type(carry), Counted::other);
      if (body_.type(carry).ndim() > 0) at(carry).extents[0] = rows;
    }
    values_.run();
    for (std::size_t i = 0; i < body_.outputs().size(); ++i) {
      const Followed& result = at(body_.outputs()[i].value);
      if (flow_.mixes.empty() && !result.mixes.empty())
        flow_.mixes = result.mixes + ", in the body of a region over time";
      Extents extents = result.extents;
      if (shape.is_stacked(i))
        extents.insert(extents.begin(), tokens);
      else
        check_carry(i, extents, rows);
      flow_.outputs.push_back(std::move(extents));
    }
  }

 private:
  using Followed = GraphFlow::Followed;
  Followed& at(ValueId value) { return values_.at(value); }

  static bool has_tokens_of_row(const Extents& extents) {
    for (const DimExtents& dim : extents)
      for (const Extent& extent : dim)
        if (extent.counted == Counted::tokens || extent.counted == Counted::sorted) return true;
    return false;
  }

  // Rows stay in its first dim, so that the next token of a row finds the state of its row.
  void check_carry(std::size_t i, const Extents& extents, const DimExtents& rows) {
    for (std::size_t d = 0; d < extents.size(); ++d)
      if (flow_.mixes.empty() && has_tokens(extents[d]) && (d > 0 || extents[d] != rows))
        flow_.mixes = fmt::format("moves the rows of carry {} to another dim", i);
  }

  TokenFlow& flow_;
  const Graph& body_;
  GraphFlow values_;
};

// A scan in a block is a region over time: tokens pass state on in its carries, and nothing else
// may mix them.
void tokens(TokenFlow& flow) { BodyFlow(flow, *flow.node.body("body")).run(scan_shape(flow.node)); }

}  // namespace

constinit const OpDef scan_op = {
    .infer = infer,
    .decode = &kEachToken,
    .cost = {.none = "the cost of its body times the number of iterations"},
    .split = {.none = "the ops of its body are split in its place"},
    .tokens = tokens,
    .facts = {.loops = true, .size_attrs = {"times"}}};

}  // namespace lamina::ops
