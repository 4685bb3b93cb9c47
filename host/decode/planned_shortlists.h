// The shortlists that plans of memory contain.
#pragma once

#include "decoder/roles/model_graph.h"
#include "runtime/backend.h"

namespace lamina::decode {

// Most tokens of a list of the likeliest ones.
inline constexpr std::int64_t kLongestShortlist = 256;

// Adds the shortlists that a session on `backend` may need for any options of a sampler: none where
// the host reaches the logits. For programs that are planned and do not run.
void add_possible_shortlists(decoder::ModelGraph& graph, const Backend& backend);

}  // namespace lamina::decode
