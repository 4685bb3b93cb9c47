#include "inspect/plan/decode_plan.h"

#include <algorithm>

#include "core/round_up.h"
#include "decode/planned_shortlists.h"
#include "decode/state_storage.h"
#include "program/bound_program.h"

namespace lamina::inspect {
namespace {

// Returns the bytes of the inputs that a session copies to the device, and of the results that it
// makes there.
std::size_t transfer_bytes(const decoder::ModelGraph& graph) {
  std::size_t bytes = 0;
  const auto add = [&](ValueId v) {
    bytes += aligned(static_cast<std::size_t>(graph.graph.type(v).bytes()));
  };
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const decoder::Input role = graph.inputs[i].role;
    if (role != decoder::Input::parameter && role != decoder::Input::state)
      add(graph.graph.inputs()[i].value);
  }
  for (const GraphOutput& output : graph.graph.outputs())
    if (output.alias_input < 0) add(output.value);
  return bytes;
}

}  // namespace

DecodePlan plan_decoding(const decoder::Model& model, const decode::SessionOptions& options,
                         const Backend& backend) {
  const auto bytes = [](std::int64_t n) { return aligned(static_cast<std::size_t>(n)); };
  const std::int64_t call_tokens = std::min(options.call_tokens, options.capacity);
  const decoder::StateSize size{options.capacity, call_tokens};
  DecodePlan out;
  for (const decoder::Parameter& parameter : model.parameters().all())
    out.weights += bytes(parameter.used_type(options.dtype).bytes());
  for (const decoder::StateTensor& state : model.states({options.batch, 1, options.dtype}, size))
    out.states += bytes(state.bytes());
  for (const std::int64_t tokens : {std::int64_t{1}, call_tokens}) {
    decoder::ModelGraph graph = model.decode_graph({options.batch, tokens, options.dtype}, size);
    decode::check_state_storage(graph.graph, backend);
    decode::add_possible_shortlists(graph, backend);
    out.transfers += transfer_bytes(graph);
    out.temporaries =
        std::max(out.temporaries, program::BoundProgram(std::move(graph), backend).arena_bytes());
  }
  return out;
}

}  // namespace lamina::inspect
