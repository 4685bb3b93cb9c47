#include "inspect/plan/transfers.h"

#include <algorithm>

#include "core/round_up.h"

namespace lamina::inspect {
namespace {

using decoder::Input;
using decoder::Output;

// True for values that stay in the memory of the device.
bool stays(Input role) {
  switch (role) {
    case Input::parameter:
    case Input::state:
    case Input::gradient_sum:
    case Input::teacher_logp:
    case Input::teacher_ids:
    case Input::teacher_hidden:
      return true;
    default:
      return false;
  }
}

bool stays(Output role) {
  return role == Output::gradient || role == Output::gradient_ids || role == Output::teacher_logp ||
         role == Output::teacher_ids || role == Output::teacher_hidden;
}

}  // namespace

std::size_t transfer_bytes(const decoder::ModelGraph& graph, const Backend& backend) {
  if (backend.reaches(MemoryKind::host)) return 0;
  std::size_t bytes = 0;
  // A stacked value is copied in one piece per layer.
  const auto add = [&](ValueId v, bool stacked) {
    const Type& type = graph.graph.type(v);
    const std::int64_t pieces = stacked ? std::max<std::int64_t>(type.dim(0), 1) : 1;
    bytes +=
        static_cast<std::size_t>(pieces) * aligned(static_cast<std::size_t>(type.bytes() / pieces));
  };
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    if (!stays(graph.inputs[i].role)) add(graph.graph.inputs()[i].value, graph.inputs[i].stacked);
  for (std::size_t o = 0; o < graph.outputs.size(); ++o) {
    const GraphOutput& output = graph.graph.outputs()[o];
    if (output.alias_input < 0 && !stays(graph.outputs[o].role))
      add(output.value, graph.outputs[o].stacked);
  }
  return bytes;
}

}  // namespace lamina::inspect
