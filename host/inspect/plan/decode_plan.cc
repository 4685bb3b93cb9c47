#include "inspect/plan/decode_plan.h"

#include <algorithm>

#include "core/round_up.h"
#include "decode/planned_shortlists.h"
#include "decode/state_storage.h"
#include "inspect/plan/transfers.h"
#include "program/bound_program.h"

namespace lamina::inspect {

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
    out.transfers += transfer_bytes(graph, backend);
    out.temporaries =
        std::max(out.temporaries, program::BoundProgram(std::move(graph), backend).arena_bytes());
  }
  return out;
}

}  // namespace lamina::inspect
