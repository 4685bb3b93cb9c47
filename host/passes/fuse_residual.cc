#include "passes/fuse_residual.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "graph/count_reads.h"
#include "graph/rewrite.h"
#include "graph/written_over.h"
#include "ops/op_code.h"
#include "ops/operands.h"
#include "ops/tensor.h"
#include "passes/levels.h"

namespace lamina::passes {
namespace {

// Index of the accumulator in ops that can add to another tensor.
constexpr int kAcc = operand::matmul::kAcc;
static_assert(int{operand::embedding_grad::kAcc} == kAcc);

class Fusion {
 public:
  explicit Fusion(const Graph& graph)
      : graph_(graph), overwrites_(graph), reads_(count_reads(graph)) {}

  std::optional<Graph> run() {
    find();
    if (norm_of_add_.empty() && term_of_add_.empty()) return std::nullopt;
    Graph out;
    Copier copy(graph_, out);
    copy.inputs();
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.node(n);
      out.set_origin(node.origin);
      if (skipped_.contains(n)) continue;
      if (auto norm = norm_of_add_.find(n); norm != norm_of_add_.end())
        emit_add_rms_norm(node, graph_.node(norm->second), copy);
      else if (auto term = term_of_add_.find(n); term != term_of_add_.end())
        emit_accumulation(node, graph_.node(term->second), copy, out);
      else
        copy.node(node);
    }
    copy.outputs();
    return out;
  }

 private:
  const OpFacts& facts(NodeId n) const { return graph_.node(n).op->def->facts; }

  void find() {
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.node(n);
      if (node.op->code == OpCode::rms_norm) find_norm(n, node);
      if (node.op->def->facts.adds) find_term(n, node);
    }
  }

  void find_norm(NodeId n, const Node& norm) {
    NodeId add = graph_.value(norm.inputs[0]).node;
    if (add == kNoNode || !facts(add).adds) return;
    if (norm_of_add_.contains(add) || term_of_add_.contains(add)) return;
    const Node& sum = graph_.node(add);
    if (graph_.type(sum.inputs[operand::add::kA]) != graph_.type(sum.inputs[operand::add::kB]))
      return;
    // The norm moves up to the sum, so its weight must be defined before it.
    if (const ValueId w = norm.inputs[operand::rms_norm::kW]; w != kNoValue) {
      NodeId weight = graph_.value(w).node;
      if (weight != kNoNode && weight > add) return;
    }
    norm_of_add_.emplace(add, n);
    skipped_.emplace(n, true);
  }

  void find_term(NodeId n, const Node& add) {
    for (int i : {0, 1}) {
      ValueId term = add.inputs[static_cast<std::size_t>(i)];
      ValueId other = add.inputs[static_cast<std::size_t>(1 - i)];
      NodeId made_by = graph_.value(term).node;
      if (made_by == kNoNode || !facts(made_by).accumulates) continue;
      const Node& node = graph_.node(made_by);
      bool free = node.inputs[kAcc] == kNoValue;
      if (!free || reads_[term] != 1 || graph_.type(term) != graph_.type(other)) continue;
      const DType dtype = graph_.type(term).dtype;
      if (dtype != sum_dtype(dtype)) continue;    // would round once instead of twice
      if (overwrites_.forbid(node, n)) continue;  // the term moves down to the sum
      // A sum of rows is added to earlier microbatches after it is complete, as in lists.
      if (node.op->def->sums_rows && graph_.value(other).node == kNoNode) continue;
      term_of_add_.emplace(n, made_by);
      skipped_.emplace(made_by, true);
      return;
    }
  }

  void emit_add_rms_norm(const Node& add, const Node& norm, Copier& copy) {
    auto attr = [&](std::string_view name) {
      return std::get<double>(norm.attrs[static_cast<std::size_t>(norm.op->attr_index(name))]);
    };
    const auto made = ops::add_rms_norm(copy.get(add.inputs[operand::add::kA]),
                                        copy.get(add.inputs[operand::add::kB]),
                                        copy.get(norm.inputs[operand::rms_norm::kW]),
                                        {.eps = attr("eps"), .offset = attr("offset")});
    copy.set(norm.outputs[0], made.y);
    copy.set(add.outputs[0], made.sum);
  }

  void emit_accumulation(const Node& add, const Node& term, Copier& copy, Graph& out) {
    ValueId other = add.inputs[add.inputs[0] == term.outputs[0] ? 1 : 0];
    std::vector<Tensor> operands = copy.operands(term);
    operands[kAcc] = copy.get(other);
    copy.set(add.outputs[0], out.add_node_like(term, operands).front());
  }

  const Graph& graph_;
  const Overwrites overwrites_;
  std::vector<int> reads_;
  std::unordered_map<NodeId, NodeId> norm_of_add_, term_of_add_;
  std::unordered_map<NodeId, bool> skipped_;
};

}  // namespace

Graph fuse_residual(Graph graph) {
  return on_all_levels(std::move(graph), [](const Graph& level) { return Fusion(level).run(); });
}

}  // namespace lamina::passes
