#include "train/optimizer/layer_gradients.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "graph/count_reads.h"
#include "graph/scan_shape.h"
#include "ops/op_code.h"

namespace lamina::train {
namespace {

using decoder::Input;
using decoder::Output;

class Finder {
 public:
  Finder(const Graph& graph, std::span<const decoder::InputRole> inputs,
         std::span<const decoder::OutputRole> outputs)
      : graph_(graph),
        inputs_(inputs),
        outputs_(outputs),
        last_reader_(graph.values().size(), -1),
        reads_(count_reads(graph)) {
    for (std::size_t n = graph.nodes().size(); n-- > 0;) {
      const Node& node = graph.nodes()[n];
      auto last = static_cast<std::int64_t>(n);
      // A node that reads a view also reads the tensor behind it.
      if (is_view(node)) last = last_reader_[node.outputs[0]];
      for (ValueId v : node.inputs)
        if (v != kNoValue) last_reader_[v] = std::max(last_reader_[v], last);
    }
    for (const decoder::OutputRole& output : outputs)
      if (output.role == Output::gradient_ids) lists_.insert(output.input);
    for (const decoder::InputRole& input : inputs)
      if (input.role == Input::parameter)
        for (int member : input.members)
          if (!seen_.insert(member).second) twice_.insert(member);
  }

  std::vector<LayerGradient> run() const {
    std::vector<LayerGradient> out;
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      const decoder::OutputRole& output = outputs_[o];
      if (output.role != Output::gradient || lists_.contains(output.input)) continue;
      const auto i = static_cast<std::size_t>(output.input);
      const decoder::InputRole& parameter = inputs_[i];
      const Value made = made_by(graph_.outputs()[o].value, parameter);
      const NodeId scan = made.node;
      if (scan == kNoNode || last_reader_[graph_.inputs()[i].value] > std::int64_t{scan}) continue;
      if (std::ranges::any_of(parameter.members, [&](int m) { return twice_.contains(m); }))
        continue;
      out.push_back({o, scan, made.index, parameter.members});
    }
    return out;
  }

 private:
  static bool is_view(const Node& node) { return node.op->def->view != nullptr; }

  // Returns the result of a scan that is the gradient, one iteration per member, if nothing else
  // reads it; a value of kNoNode if the gradient is made otherwise.
  Value made_by(ValueId v, const decoder::InputRole& parameter) const {
    for (;;) {
      const Value& value = graph_.value(v);
      if (value.node == kNoNode || reads_[v] != 1) return {};
      const Node& node = graph_.node(value.node);
      if (node.op->code == OpCode::reshape && !parameter.stacked) {
        v = node.inputs[0];
        continue;
      }
      const bool is_scan = node.op->def->facts.loops;
      if (!is_scan || !scan_shape(node).is_stacked(value.index) ||
          node.int_attr("times") != static_cast<std::int64_t>(parameter.members.size()))
        return {};
      return value;
    }
  }

  const Graph& graph_;
  std::span<const decoder::InputRole> inputs_;
  std::span<const decoder::OutputRole> outputs_;
  std::vector<std::int64_t> last_reader_;  // by value: a node; -1 for none
  std::vector<int> reads_;                 // by value
  std::set<int> lists_;                    // inputs whose gradients are lists of rows
  std::set<int> seen_, twice_;             // parameters of any input; of several inputs
};

}  // namespace

std::vector<LayerGradient> layer_gradients(const Graph& graph,
                                           std::span<const decoder::InputRole> inputs,
                                           std::span<const decoder::OutputRole> outputs) {
  return Finder(graph, inputs, outputs).run();
}

}  // namespace lamina::train
