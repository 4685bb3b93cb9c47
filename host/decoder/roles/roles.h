// What each input and output of a model's graph is called, and the types of the host's inputs.
#pragma once

#include <array>
#include <string_view>

#include "decoder/roles/model_graph.h"
#include "decoder/roles/trace_phase.h"

namespace lamina::decoder {

struct InputKind {
  Input role;
  std::string_view name;
  // The type of an input that blocks may ask for; null where the type is that of a parameter, a
  // state or a constant, or of a loss.
  Type (*type)(const TracePhase& phase);
  // It has another value in each layer, and so is an x of the scan over them.
  bool per_layer = false;
};

struct OutputKind {
  Output role;
  std::string_view name;  // empty: each of them has its own
};

const InputKind& kind_of(Input role);
const OutputKind& kind_of(Output role);

inline std::string_view role_name(Input role) { return kind_of(role).name; }
inline std::string_view role_name(Output role) { return kind_of(role).name; }
inline bool is_per_layer(Input role) { return kind_of(role).per_layer; }

// REQUIRES: blocks may ask for it.
Type host_input_type(Input role, const TracePhase& phase);

}  // namespace lamina::decoder
