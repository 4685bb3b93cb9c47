#include "decode/state_storage.h"

#include <algorithm>

#include "core/error.h"
#include "core/round_up.h"
#include "graph/call.h"

namespace lamina::decode {
namespace {

std::size_t bytes_of(const decoder::StateTensor& state) {
  return aligned(static_cast<std::size_t>(state.bytes()));
}

}  // namespace

void check_state_storage(const Graph& graph, const Backend& backend) {
  for (const Node& node : graph.nodes()) {
    if (node.op->def->facts.loops) check_state_storage(*node.body(), backend);
    if (node.op->def->in_place == 0 || !graph.type(node.inputs[0]).storage) continue;
    const Type& state = graph.type(node.inputs[0]);
    const bool is_known = with_node_view(graph, node, [&](const NodeView& view) {
      return std::ranges::any_of(backend.kernels(*node.op), [&](const KernelChoice& kernel) {
        return static_cast<bool>(kernel.supports(view));
      });
    });
    if (!is_known)
      throw UserError(ExitCode::usage,
                      {fmt::format("device '{}'", backend.name()),
                       fmt::format("cannot write keys and values as {}", to_string(state)),
                       {"remove --kv-dtype and model.kv_dtype"}});
  }
}

StateTensors allocate_states(std::span<const decoder::StateTensor> states, const Backend& backend) {
  StateTensors out{.memory = backend.allocate(bytes_of_states(states)), .tensors = {}};
  std::size_t next = 0;
  for (const decoder::StateTensor& state : states) {
    out.tensors.emplace_back(*out.memory, next, state.type);
    next += bytes_of(state);
  }
  return out;
}

std::size_t bytes_of_states(std::span<const decoder::StateTensor> states) {
  std::size_t out = 0;
  for (const decoder::StateTensor& state : states) out += bytes_of(state);
  return out;
}

}  // namespace lamina::decode
