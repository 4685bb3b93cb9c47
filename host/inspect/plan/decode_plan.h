// Memory that decoding needs, computed before anything is loaded.
#pragma once

#include <cstddef>

#include "decode/session.h"

namespace lamina::inspect {

struct DecodePlan {
  std::size_t weights = 0;      // of all parameters, in the types that graphs read
  std::size_t states = 0;       // of all sequences, for their whole capacity
  std::size_t temporaries = 0;  // of the largest call
  std::size_t transfers = 0;    // inputs and results of a prompt and of one token, eg logits
};

// The plan of a session, if the device copies all weights into separate memory. Compiles the
// graphs of a prompt and of one token.
DecodePlan plan_decoding(const decoder::Model& model, const decode::SessionOptions& options,
                         const Backend& backend);

}  // namespace lamina::inspect
