// The names of the inputs and outputs of a model's graph, and the types of the host's inputs.
#pragma once

#include <array>
#include <string_view>

#include "decoder/roles/model_graph.h"
#include "decoder/roles/trace_phase.h"

namespace lamina::decoder {

struct InputInfo {
  Input role;
  std::string_view name;
  // Returns the type of an input that blocks may request; null if its type depends on a parameter,
  // a state, a constant or a loss.
  Type (*type)(const TracePhase& phase);
  // True if its value differs in each layer, so that it is an x of the scan over layers.
  bool per_layer = false;
};

struct OutputInfo {
  Output role;
  std::string_view name;  // empty: each of them has its own
};

const InputInfo& kind_of(Input role);
const OutputInfo& kind_of(Output role);

inline std::string_view role_name(Input role) { return kind_of(role).name; }
inline std::string_view role_name(Output role) { return kind_of(role).name; }
inline bool is_per_layer(Input role) { return kind_of(role).per_layer; }

// REQUIRES: blocks may request it.
Type host_input_type(Input role, const TracePhase& phase);

}  // namespace lamina::decoder
