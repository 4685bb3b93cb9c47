#include "model/same_function.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "graph/rewrite.h"
#include "passes/dead_code.h"

namespace lamina::model {
namespace {

bool has_same_parameters(const decoder::Model& a, const decoder::Model& b) {
  return std::ranges::equal(a.parameters().all(), b.parameters().all(),
                            [](const decoder::Parameter& x, const decoder::Parameter& y) {
                              return x.name == y.name && x.desc.shape == y.desc.shape &&
                                     x.desc.dtype == y.desc.dtype;
                            });
}

// Puts the nodes of graphs and of the bodies of their loops in order of use, and numbers the values
// in that order.
class InOrder {
 public:
  Graph run(const Graph& from) {
    std::vector<ValueId> roots;
    for (const GraphOutput& output : from.outputs()) roots.push_back(output.value);
    Graph out;
    Copier copy(from, out);
    copy.inputs();
    for (const NodeId id : order_of_use(from, roots)) {
      Node node = from.node(id);
      if (node.op->def->facts.loops) node.set_attr("body", body(node.body()));
      copy.node(node);
    }
    copy.outputs();
    return out;
  }

 private:
  const std::shared_ptr<const Graph>& body(const std::shared_ptr<const Graph>& from) {
    const auto [at, fresh] = bodies_.try_emplace(from);
    if (fresh) at->second = std::make_shared<const Graph>(run(*from));
    return at->second;
  }

  std::map<std::shared_ptr<const Graph>, std::shared_ptr<const Graph>> bodies_;
};

// Returns the graph without nodes that only training reads, such as loads of experts. Traces keep
// them or not, and the order of the other nodes and values may depend on them.
Graph comparable(const Graph& graph) { return InOrder().run(passes::remove_dead_code(graph)); }

bool is_same(const decoder::ModelGraph& a, const decoder::ModelGraph& b) {
  return same_graph(comparable(a.graph), comparable(b.graph)) &&
         std::ranges::equal(
             a.inputs, b.inputs, [](const decoder::InputRole& x, const decoder::InputRole& y) {
               return x.role == y.role && x.members == y.members && x.values == y.values;
             });
}

}  // namespace

bool computes_the_same(const decoder::Model& a, const decoder::Model& b) {
  if (!has_same_parameters(a, b) || a.is_autoregressive() != b.is_autoregressive()) return false;
  const decoder::GraphShape rows{.batch = 1, .tokens = 8};
  const decoder::GraphFeatures features{.segments = true, .mtp = a.mtp_depth() > 0};
  if (!is_same(a.forward_graph(rows, features), b.forward_graph(rows, features))) return false;
  if (!a.is_autoregressive()) return true;
  const decoder::GraphShape token{.batch = 1, .tokens = 1};
  const decoder::StateSize state{.capacity = 8, .max_call_tokens = 1};
  return is_same(a.decode_graph(token, state), b.decode_graph(token, state));
}

}  // namespace lamina::model
