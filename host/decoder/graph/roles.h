// What inputs and outputs of a model's graph are called and what type the host's inputs have.
// Private to decoder.
#pragma once

#include <string_view>

#include "decoder/model.h"
#include "decoder/trace/trace_phase.h"

namespace lamina::decoder {

std::string_view role_name(Role role);

// The type of an input that blocks may ask for.
Type host_input_type(Role role, const TracePhase& phase);

// Whether the input has another value in each layer, and so is an x of the scan over them.
constexpr bool is_per_layer(Role role) {
  return role == Role::layer_index || role == Role::layer_constant;
}

}  // namespace lamina::decoder
