#include "inspect/cost/required_work.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "inspect/cost/expert_share.h"
#include "runtime/program.h"

namespace lamina::inspect {
namespace {

using decoder::Input;

double elements(const Type& type) { return static_cast<double>(type.shape.num_elements()); }

// How many keys a query may use at most by its mask; 0 = any number. A mask is known to be small
// where top_k_mask or moba_mask makes it.
std::int64_t selected_keys(const Graph& graph, const Node& node) {
  for (std::size_t i = 0; i < node.op->inputs.size(); ++i) {
    if (node.op->inputs[i].name != "mask" || i >= node.inputs.size()) continue;
    if (node.inputs[i] == kNoValue || graph.value(node.inputs[i]).node == kNoNode) return 0;
    const Node& mask = graph.node(graph.value(node.inputs[i]).node);
    if (mask.op->name == "moba_mask") return mask.int_attr("chunk") * mask.int_attr("k");
    return mask.op->name == "top_k_mask" ? mask.int_attr("k") : 0;
  }
  return 0;
}

// Which keys the queries of a row see.
struct Sight {
  bool causal = true;
  std::int64_t keys = 0;               // that there are, for queries that see all of them
  std::int64_t window = 0, chunk = 0;  // 0 = without
  std::int64_t most = 0;               // keys a query may use; 0 = all it sees
};

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

// The sum of min(i, most) over i from 1 to n.
double ramp(std::int64_t n, std::int64_t most) {
  const auto rising = static_cast<double>(std::min(n, most));
  return rising * (rising + 1) / 2 +
         static_cast<double>(std::max<std::int64_t>(n - most, 0)) * static_cast<double>(most);
}

// The sum of min(i / ratio, most), without remainders, over i from 1 to n.
double stairs(std::int64_t n, std::int64_t ratio, std::int64_t most) {
  const std::int64_t steps = std::min(n / ratio, most);
  return static_cast<double>(ratio) * ramp(steps - 1, kAny) +
         static_cast<double>(n + 1 - steps * ratio) * static_cast<double>(steps);
}

// Pairs (query, key) of one row when queries are at start, start + 1, ...
double pairs_of(const Sight& sight, std::int64_t start, std::int64_t queries) {
  const std::int64_t most = sight.most ? sight.most : kAny;
  if (!sight.causal && !sight.window && !sight.chunk)
    return static_cast<double>(queries) * static_cast<double>(std::min(sight.keys, most));
  const std::int64_t chunk = sight.chunk ? sight.chunk : kAny;
  double pairs = 0;
  if (sight.causal || sight.window) {
    // The i-th query of a chunk sees its i first keys, or the last of them.
    const std::int64_t cap = std::min(most, sight.window ? sight.window : kAny);
    auto before = [&](std::int64_t n) {
      const std::int64_t whole = n / chunk;
      return (whole ? static_cast<double>(whole) * ramp(chunk, cap) : 0) + ramp(n % chunk, cap);
    };
    return before(start + queries) - before(start);
  }
  for (std::int64_t t = start; t < start + queries;) {
    const std::int64_t first = t / chunk * chunk, end = std::min(first + chunk, start + queries);
    const std::int64_t seen = std::min(sight.keys, first + chunk) - first;
    pairs += static_cast<double>(end - t) * static_cast<double>(std::min(seen, most));
    t = end;
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
  const bool causal = node.op().attr_index("causal") < 0 || node.i("causal") != 0;
  double pairs =
      pairs_of({.causal = causal, .keys = latent.dim(1), .most = selected}, start, q.dim(1));
  double expanded =
      weights * (static_cast<double>(start) + tokens) + heads * pairs * (plain + turned + value);
  double absorbed = weights * tokens + heads * pairs * (2 * rank + turned);
  return 2 * static_cast<double>(q.dim(0)) * std::min(expanded, absorbed);
}

// Tokens of the window, and compressed entries of windows that have ended: those that are chosen
// where there are scores to choose by.
double compressed_attention_flops(const NodeView& node, std::int64_t start, bool scores) {
  const Type& q = node.type(0);
  double pairs = pairs_of({.window = node.i("window")}, start, q.dim(1));
  const std::int64_t most = scores ? node.i("k") : kAny, ratio = node.i("ratio");
  pairs += stairs(start + q.dim(1), ratio, most) - stairs(start, ratio, most);
  return 4 * static_cast<double>(q.dim(0) * q.dim(2) * q.dim(3)) * pairs;
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
    if (node.i("moba_chunk") > 0) selected = node.i("moba_chunk") * node.i("moba_top_k");
    double per_pair = 2 * static_cast<double>(q.dim(3) + node.type(2).dim(3));
    Sight sight{node.i("causal") != 0, node.type(1).dim(1), node.i("window"), node.i("chunk"),
                selected};
    return static_cast<double>(q.dim(0) * q.dim(2)) * per_pair * pairs_of(sight, start, q.dim(1));
  }
  if (op == "compressed_attention") return compressed_attention_flops(node, start, node.has(6));
  if (op == "compressed_attention_step")
    return compressed_attention_flops(node, start, node.has(3));
  // Queries times the mean key of each chunk.
  if (op == "moba_mask")
    return 2 * elements(node.type(0)) *
           std::ceil(static_cast<double>(node.type(1).dim(1)) /
                     static_cast<double>(node.i("chunk")));
  // Values times their weights, in every window that a token belongs to.
  if (op == "window_pool") return 2 * elements(node.type(0)) * (node.i("overlap") != 0 ? 2 : 1);
  if (op == "latent_attention" || op == "latent_attention_step")
    return latent_attention_flops(node, start, selected);
  if (op == "index_scores" || op == "index_scores_step") {
    const Type& q = node.type(0);
    double pairs = pairs_of({}, start, q.dim(1));
    if (op == "index_scores_step") pairs /= static_cast<double>(node.i("stride"));
    return 2 * static_cast<double>(q.dim(0) * q.dim(2) * q.dim(3)) * pairs;
  }
  if (op == "attention_mass") {
    const Type& q = node.type(0);
    return 2 * static_cast<double>(q.dim(0) * q.dim(2) * q.dim(3)) * pairs_of({}, start, q.dim(1));
  }
  // A state of H by Hv a head, read twice and written once.
  if (op == "gated_delta_rule" || op == "gated_delta_rule_step")
    return 6 * elements(node.type(2)) * static_cast<double>(node.type(0).dim(3));
  if (op == "causal_conv1d" || op == "causal_conv1d_step")
    return 2 * elements(node.type(0)) * static_cast<double>(node.type(1).dim(1));
  if (op == "scan")
    return static_cast<double>(node.i("times")) * required_flops(*node.body("body"), start);
  return 0;
}

// What is read of a graph input: all of it, or if it is only looked up the rows that are.
double read_bytes(const Graph& graph, ValueId input) {
  const auto all = static_cast<double>(graph.type(input).bytes());
  double looked_up = 0;
  for (const Node& node : graph.nodes())
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != input) continue;
      if (node.op->name == "embedding" && i == 0) {
        looked_up += static_cast<double>(graph.type(node.outputs[0]).bytes());
      } else if (node.op->name == "scan") {
        const Graph& body = *node.body();
        looked_up +=
            static_cast<double>(node.int_attr("times")) * read_bytes(body, body.inputs()[i].value);
      } else {
        return all;
      }
    }
  return std::min(looked_up, all);
}

// Whether a state has a slot for every token; others are read whole.
bool grows(const decoder::StateTensor& state) {
  switch (state.kind) {
    case registry::StateKind::recurrent:
    case registry::StateKind::conv_window:
    case registry::StateKind::token_history:
      return false;
    default:
      return true;
  }
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
    if (graph.inputs[i].role == Input::parameter)
      bytes += shares[i] * read_bytes(graph.graph, graph.graph.inputs()[i].value);
  for (const decoder::StateTensor& state : states) {
    double used = 1;
    if (grows(state)) {
      double slots = static_cast<double>(std::max<std::int64_t>(state.type.dim(1), 1));
      used = std::min(length, slots) / slots;
    }
    bytes += static_cast<double>(state.bytes()) * used;
  }
  return bytes;
}

}  // namespace lamina::inspect
