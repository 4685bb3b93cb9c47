#include "train/optimizer/gradient_sums.h"

#include <compare>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "graph/count_reads.h"
#include "graph/rewrite.h"
#include "graph/scan_shape.h"
#include "ops/op_code.h"
#include "ops/operands.h"
#include "ops/tensor.h"

namespace lamina::train {
namespace {

// A result to add up, and the type of its sum.
struct Summed {
  std::size_t output = 0;
  DType dtype = DType::f32;
  friend auto operator<=>(const Summed&, const Summed&) = default;
};

struct BodyKey {
  std::shared_ptr<const Graph> body;
  std::vector<Summed> summed;
  friend auto operator<=>(const BodyKey&, const BodyKey&) = default;
};
// Unrolled layers share one body.
using Bodies = std::map<BodyKey, std::shared_ptr<const Graph>>;

// Copies a graph. Some of its results are added to new inputs, the last ones, and overwrite these.
class Copy {
 public:
  Copy(const Graph& from, const std::vector<Summed>& summed, Bodies& bodies)
      : from_(from),
        copy_(from_, out_),
        bodies_(bodies),
        reads_(count_reads(from)),
        alias_(from.outputs().size(), -1) {
    for (std::size_t o = 0; o < alias_.size(); ++o) alias_[o] = from_.outputs()[o].alias_input;
    copy_.inputs();
    for (const Summed& s : summed) add_sum(s);
  }

  Graph run() {
    for (NodeId n = 0; n < from_.nodes().size(); ++n) emit(n);
    for (std::size_t o = 0; o < alias_.size(); ++o) {
      const GraphOutput& output = from_.outputs()[o];
      const auto late = at_end_.find(o);
      const Tensor value = copy_.get(output.value);
      out_.add_output(output.name,
                      late == at_end_.end()
                          ? value
                          : ops::add(late->second, ops::cast(value, late->second.dtype())),
                      alias_[o]);
    }
    return std::move(out_);
  }

 private:
  // A result of a scan, and the tensor that is added to it.
  struct Addition {
    Summed result;
    Tensor sum;
  };

  void add_sum(const Summed& s) {
    const GraphOutput& output = from_.outputs()[s.output];
    const Type type{s.dtype, from_.type(output.value).shape, {}};
    const Tensor sum = out_.add_input("sum of " + output.name, type);
    alias_[s.output] = static_cast<int>(out_.inputs().size()) - 1;
    if (reads_[output.value] == 1 && from_.type(output.value).dtype == s.dtype)
      add_below(output.value, sum);
    else
      at_end_.emplace(s.output, sum);
  }

  // Adds `sum` to `v`, which is read once, as far down as possible in the nodes that compute `v`.
  // If these add several terms, it is added to the first: the others are added to the sum in turn,
  // and nothing waits for them.
  void add_below(ValueId v, Tensor sum) {
    const ValueId whole = v;
    const Tensor whole_sum = sum;
    for (;;) {
      const Value& value = from_.value(v);
      if (value.node == kNoNode) break;
      const Node& node = from_.node(value.node);
      const ValueId inner = node.inputs.empty() ? kNoValue : node.inputs[0];
      const bool leads_on = inner != kNoValue && reads_[inner] == 1;
      if (node.op->def->facts.loops) {
        if (add_in_scan(v, sum)) return;
        break;
      }
      if (leads_on && node.op->def->facts.adds && from_.type(inner) == value.type) {
        v = inner;
      } else if (leads_on && node.op->code == OpCode::reshape) {
        v = inner;
        sum = ops::reshape(sum, from_.type(v).shape);
      } else if (leads_on && converts(node) && add_in_scan(inner, sum)) {
        done_in_scan_.insert(value.node);
        return;
      } else {
        break;
      }
    }
    const Value& value = from_.value(v);
    const Op* op = value.node == kNoNode ? nullptr : from_.node(value.node).op;
    if (op && op->code == OpCode::cross_entropy_grad && value.index == kHeadGradient)
      head_sums_.emplace(value.node, sum);
    else if (op && op->def->sums_rows)  // a microbatch's rows are summed first, as in lists
      sums_.emplace(whole, whole_sum);
    else
      sums_.emplace(v, sum);
  }

  // True if the node only converts to another type.
  static bool converts(const Node& node) {
    return node.op->def->elementwise && node.op->def->facts.moves_data;
  }

  // Adds `sum` inside the scan whose result of each round is `v`; returns false if there is none.
  bool add_in_scan(ValueId v, Tensor sum) {
    const Value& value = from_.value(v);
    if (value.node == kNoNode) return false;
    const Node& node = from_.node(value.node);
    if (!node.op->def->facts.loops || !scan_shape(node).is_stacked(value.index)) return false;
    scans_[value.node].push_back({{value.index, sum.dtype()}, sum});
    return true;
  }

  void emit(NodeId n) {
    const Node& node = from_.node(n);
    if (done_in_scan_.contains(n))
      copy_.set(node.outputs[0], copy_.get(node.inputs[0]));
    else if (auto added = scans_.find(n); added != scans_.end())
      emit_scan(node, added->second);
    else if (auto sum = head_sums_.find(n); sum != head_sums_.end())
      emit_head(node, sum->second);
    else
      copy_.node(node);
    for (ValueId v : node.outputs)
      if (auto sum = sums_.find(v); sum != sums_.end())
        copy_.set(v, ops::add(sum->second, copy_.get(v)));
  }

  void emit_scan(const Node& node, const std::vector<Addition>& additions) {
    BodyKey key{node.body(), {}};
    std::vector<Tensor> operands = copy_.operands(node);
    for (const Addition& addition : additions) {
      key.summed.push_back(addition.result);
      operands.push_back(addition.sum);
    }
    std::shared_ptr<const Graph>& body = bodies_[key];
    if (!body) body = std::make_shared<const Graph>(Copy(*node.body(), key.summed, bodies_).run());
    Node changed = node;
    changed.set_attr("body", body);
    set_results(node, out_.add_node_like(changed, operands));
  }

  void emit_head(const Node& node, Tensor sum) {
    std::vector<Tensor> operands = copy_.operands(node);
    operands[operand::cross_entropy_grad::kAcc] = sum;
    set_results(node, out_.add_node_like(node, operands));
  }

  void set_results(const Node& node, const std::vector<Tensor>& results) {
    for (std::size_t i = 0; i < results.size(); ++i) copy_.set(node.outputs[i], results[i]);
  }

  static constexpr std::uint32_t kHeadGradient = 4;  // the result dw of cross_entropy_grad

  const Graph& from_;
  Graph out_;
  Copier copy_;
  Bodies& bodies_;
  std::vector<int> reads_;                // by value
  std::vector<int> alias_;                // by output
  std::map<std::size_t, Tensor> at_end_;  // by output: the sum it is added to
  std::map<ValueId, Tensor> sums_;        // by value: the sum it is added to once it exists
  std::map<NodeId, Tensor> head_sums_;
  std::map<NodeId, std::vector<Addition>> scans_;
  std::set<NodeId> done_in_scan_;  // casts whose input a scan adds up in their type
};

}  // namespace

decoder::ModelGraph carry_gradient_sums(decoder::ModelGraph graph) {
  using decoder::Output;
  std::set<int> lists;
  for (const decoder::OutputRole& output : graph.outputs)
    if (output.role == Output::gradient_ids) lists.insert(output.input);
  std::vector<Summed> summed;
  for (std::size_t o = 0; o < graph.outputs.size(); ++o) {
    const decoder::OutputRole& output = graph.outputs[o];
    if (output.role != Output::gradient || lists.contains(output.input)) continue;
    const decoder::InputRole& of = graph.inputs[static_cast<std::size_t>(output.input)];
    graph.inputs.push_back({decoder::Input::gradient_sum, of.members, of.stacked, {}});
    summed.push_back({o, graph.graph.type(graph.graph.outputs()[o].value).dtype});
  }
  Bodies bodies;
  graph.graph = Copy(graph.graph, summed, bodies).run();
  return graph;
}

}  // namespace lamina::train
