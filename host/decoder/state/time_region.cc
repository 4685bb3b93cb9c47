#include "decoder/state/time_region.h"

#include <algorithm>

#include "decoder/trace/region_types.h"
#include "graph/rewrite.h"
#include "ops/documents.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

// Exchanges dims 0 and 1.
Tensor by_token(Tensor x) {
  std::vector<std::int64_t> perm;
  for (int d = 0; d < x.ndim(); ++d) perm.push_back(d);
  std::swap(perm[0], perm[1]);
  return ops::transpose(x, perm);
}

// Returns true for all elements of a row of x[B, ...] if flags[B] is 0.
Tensor is_zero(Tensor flags, Tensor x) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.ndim()), 1);
  dims[0] = x.dim(0);
  Tensor column = ops::reshape(flags, Shape(std::span<const std::int64_t>(dims)));
  return ops::equal(column, ops::zeros_like(column));
}

}  // namespace

TimeRegion::TimeRegion(ops::DecodeContext& context, std::vector<ops::StateDesc> states,
                       std::vector<Tensor> inputs, DType wide, std::int64_t batch,
                       std::int64_t tokens)
    : context_(context),
      states_(std::move(states)),
      inputs_(std::move(inputs)),
      batch_(batch),
      tokens_(tokens) {
  Graph& graph = context_.graph();
  nodes_.first = static_cast<NodeId>(graph.nodes().size());
  for (const Type& type : token_types(states_, inputs_, wide, batch, tokens))
    stand_ins_.push_back(ops::constant(graph, type, 0));
  first_ = static_cast<NodeId>(graph.nodes().size());
}

bool TimeRegion::is_inside(ValueId value) const {
  const NodeId node = context_.graph().value(value).node;
  return (node != kNoNode && node >= first_) ||
         std::ranges::find(stand_ins_, value, &Tensor::id) != stand_ins_.end();
}

std::vector<Tensor> TimeRegion::captured(std::span<const Tensor> wanted) const {
  Graph& graph = context_.graph();
  std::vector<Tensor> out;
  auto add = [&](ValueId value) {
    if (value == kNoValue || is_inside(value)) return;
    if (std::ranges::find(out, value, &Tensor::id) == out.end()) out.push_back(graph.tensor(value));
  };
  for (NodeId n : order_)
    for (ValueId input : graph.node(n).inputs) add(input);
  for (const Tensor& value : wanted) add(value.id);
  return out;
}

// Operands: captured values, the carries, flags per row, the inputs. A flag is 0 if the carries
// start anew before the token or, while decoding, if the token is padding and does not change them.
std::shared_ptr<const Graph> TimeRegion::body(std::span<const Tensor> consts,
                                              std::span<const Tensor> carries,
                                              std::span<const Tensor> results) const {
  const Graph& outer = context_.graph();
  auto out = std::make_shared<Graph>();
  Copier copy(outer, *out);
  for (const Tensor& value : consts) copy.set(value.id, out->add_input("const", value.type()));
  std::vector<Tensor> before;
  for (std::size_t i = 0; i < states_.size(); ++i)
    before.push_back(out->add_input(states_[i].name, stand_ins_[i].type()));
  Tensor flag;
  if (has_flags()) flag = out->add_input("flag", {DType::i32, {batch_}, {}});
  for (std::size_t i = 0; i < stand_ins_.size(); ++i) {
    Tensor value;
    if (i >= states_.size())
      value = out->add_input("token", stand_ins_[i].type());
    else if (begins_documents())
      value = ops::select(is_zero(flag, before[i]), ops::zeros_like(before[i]), before[i]);
    else
      value = before[i];
    copy.set(stand_ins_[i].id, value);
  }
  for (NodeId n : order_) copy.node(outer.node(n));
  for (std::size_t i = 0; i < carries.size(); ++i) {
    Tensor after = copy.get(carries[i].id);
    if (context_.stateful()) after = ops::select(is_zero(flag, after), before[i], after);
    out->add_output(states_[i].name, after);
  }
  for (const Tensor& result : results) out->add_output("result", copy.get(result.id));
  return out;
}

std::vector<Tensor> TimeRegion::end(std::span<const Tensor> carries,
                                    std::span<const Tensor> results) {
  Graph& graph = context_.graph();
  std::vector<Tensor> wanted(carries.begin(), carries.end());
  wanted.insert(wanted.end(), results.begin(), results.end());
  std::vector<ValueId> roots;
  for (const Tensor& value : wanted) roots.push_back(value.id);
  order_ = order_of_use(graph, roots, first_);
  std::vector<Tensor> operands = captured(wanted);
  const std::size_t num_consts = operands.size();
  const std::shared_ptr<const Graph> token = body(operands, carries, results);
  nodes_.end = static_cast<NodeId>(graph.nodes().size());

  Tensor flags, start, count;
  std::vector<Tensor> states;
  if (context_.stateful()) {
    start = context_.host_input(ops::HostInput::start);
    count = context_.host_input(ops::HostInput::count);
    flags = ops::valid_tokens(count, tokens_, DType::i32);
  } else if (begins_documents()) {
    flags = ops::same_document(context_.host_input(ops::HostInput::segments), DType::i32);
  }
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const Type& type = stand_ins_[i].type();
    if (!context_.stateful()) {
      operands.push_back(ops::constant(graph, type, 0));
      continue;
    }
    states.push_back(context_.state_input(states_[i].name, states_[i].kind, type, false));
    operands.push_back(ops::state_before(states.back(), start));
  }
  if (flags) operands.push_back(by_token(flags));
  for (const Tensor& input : inputs_) operands.push_back(by_token(input));
  const std::vector<Tensor> all =
      ops::scan(operands, {.body = token,
                           .times = tokens_,
                           .num_consts = static_cast<std::int64_t>(num_consts),
                           .num_carries = static_cast<std::int64_t>(states_.size())});
  for (std::size_t i = 0; i < states.size(); ++i)
    context_.state_output(states[i], ops::state_after(states[i], all[i], count));
  std::vector<Tensor> out;
  for (std::size_t i = states_.size(); i < all.size(); ++i) out.push_back(by_token(all[i]));
  return out;
}

}  // namespace lamina::decoder
