#include "cli/bench/required_work.h"

#include <algorithm>

#include "cli/plan/expert_share.h"
#include "runtime/program.h"

namespace lamina::cli {
namespace {

using decoder::Role;

double elements(const Type& type) { return static_cast<double>(type.shape.num_elements()); }

// How many keys a query may use at most by its mask; 0 = any number. A mask is known to be small
// where top_k_mask makes it.
std::int64_t selected_keys(const Graph& graph, const Node& node) {
  for (std::size_t i = 0; i < node.op->inputs.size(); ++i) {
    if (node.op->inputs[i].name != "mask" || i >= node.inputs.size()) continue;
    if (node.inputs[i] == kNoValue || graph.value(node.inputs[i]).node == kNoNode) return 0;
    const Node& mask = graph.node(graph.value(node.inputs[i]).node);
    return mask.op->name == "top_k_mask" ? mask.int_attr("k") : 0;
  }
  return 0;
}

// Which keys the queries of a row see.
struct Sight {
  bool causal = true;
  std::int64_t window = 0, chunk = 0;  // 0 = without
  std::int64_t most = 0;               // keys a query may use; 0 = all it sees
};

// Pairs (query, key) of one row when queries are at start, start + 1, ...
double pairs_of(const Sight& sight, std::int64_t start, std::int64_t queries) {
  double pairs = 0;
  for (std::int64_t t = start; t < start + queries; ++t) {
    std::int64_t first = 0, last = sight.causal || sight.window ? t : start + queries - 1;
    if (sight.window) first = std::max(first, t - sight.window + 1);
    if (sight.chunk) {
      first = std::max(first, t / sight.chunk * sight.chunk);
      last = std::min(last, (t / sight.chunk + 1) * sight.chunk - 1);
    }
    std::int64_t seen = last - first + 1;
    pairs += static_cast<double>(sight.most ? std::min(seen, sight.most) : seen);
  }
  return pairs;
}

// Keys and values of a head may be made of the latents once (reading a prompt), or the query and
// the result may be moved into the space of the latents (decoding): what is less.
double latent_attention_flops(const NodeView& node, std::int64_t start, std::int64_t selected) {
  const Type &q = node.type(0), &latent = node.type(1);
  auto tokens = static_cast<double>(q.dim(1)), heads = static_cast<double>(q.dim(2));
  auto rank = static_cast<double>(latent.dim(2));
  auto turned = static_cast<double>(q.dim(3) - node.i("nope_dim"));
  auto weights = static_cast<double>(node.type(3).num_elements());
  auto plain = static_cast<double>(node.i("nope_dim")), value = weights / rank / heads - plain;
  double pairs = pairs_of({.causal = node.i("causal") != 0, .most = selected}, start, q.dim(1));
  double expanded =
      weights * (static_cast<double>(start) + tokens) + heads * pairs * (plain + turned + value);
  double absorbed = weights * tokens + heads * pairs * (2 * rank + turned);
  return 2 * static_cast<double>(q.dim(0)) * std::min(expanded, absorbed);
}

double flops_of(const NodeView& node, std::int64_t start, std::int64_t selected) {
  const std::string& op = node.op().name;
  if (op == "linear" || op == "linear_group" || op == "grouped_linear") {
    double outputs = 0;
    for (int i = 0; i < node.num_outputs(); ++i) outputs += elements(node.out_type(i));
    return 2 * outputs * static_cast<double>(node.type(0).dim(-1));
  }
  if (op == "matmul")
    return 2 * elements(node.out_type()) *
           static_cast<double>(node.type(0).dim(node.i("transpose_a") ? -2 : -1));
  if (op == "cross_entropy")
    return 2 * elements(node.type(0)) * static_cast<double>(node.type(1).dim(0));
  if (op == "attention") {
    const Type& q = node.type(0);
    double per_pair = 2 * static_cast<double>(q.dim(3) + node.type(2).dim(3));
    Sight sight{node.i("causal") != 0, node.i("window"), node.i("chunk"), selected};
    return static_cast<double>(q.dim(0) * q.dim(2)) * per_pair * pairs_of(sight, start, q.dim(1));
  }
  if (op == "latent_attention") return latent_attention_flops(node, start, selected);
  if (op == "index_scores") {
    const Type& q = node.type(0);
    return 2 * static_cast<double>(q.dim(0) * q.dim(2) * q.dim(3)) * pairs_of({}, start, q.dim(1));
  }
  // A state of H by Hv a head, read twice and written once.
  if (op == "gated_delta_rule")
    return 6 * elements(node.type(2)) * static_cast<double>(node.type(0).dim(3));
  if (op == "causal_conv1d")
    return 2 * elements(node.type(0)) * static_cast<double>(node.type(1).dim(1));
  if (op == "scan")
    return static_cast<double>(node.i("times")) * required_flops(*node.body("body"), start);
  return 0;
}

// What is read of a graph input: all of it, or if it is only looked up the rows that are.
double read_bytes(const Graph& graph, ValueId input) {
  double looked_up = 0;
  for (const Node& node : graph.nodes())
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != input) continue;
      if (node.op->name != "embedding" || i != 0)
        return static_cast<double>(graph.type(input).bytes());
      looked_up += static_cast<double>(graph.type(node.outputs[0]).bytes());
    }
  return looked_up;
}

}  // namespace

double required_flops(const Graph& graph, std::int64_t start) {
  double flops = 0;
  for (const Node& node : graph.nodes())
    flops += with_node_view(graph, node, [&](const NodeView& view) {
      return flops_of(view, start, selected_keys(graph, node));
    });
  return flops;
}

double required_read_bytes(const decoder::ModelGraph& graph,
                           const std::vector<decoder::StateTensor>& states, double length) {
  double bytes = 0;
  std::vector<double> shares = used_shares(graph.graph);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    if (graph.inputs[i].role == Role::parameter)
      bytes += shares[i] * read_bytes(graph.graph, graph.graph.inputs()[i].value);
  for (const decoder::StateTensor& state : states) {
    double slots = static_cast<double>(std::max<std::int64_t>(state.type.dim(1), 1));
    bytes += static_cast<double>(state.bytes()) * std::min(length, slots) / slots;
  }
  return bytes;
}

}  // namespace lamina::cli
