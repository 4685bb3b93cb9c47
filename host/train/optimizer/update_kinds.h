// The programs that update a parameter: one of the fused kernel of AdamW, or of a rule's graph.
#pragma once

#include <cstdint>
#include <vector>

#include "config/sections.h"
#include "decoder/stack/parameter.h"
#include "train/optimizer/fused_adamw.h"
#include "train/optimizer/update_rules.h"

namespace lamina::train {

// Maximum number of elements per update of an elementwise rule, so that temporaries stay small.
inline constexpr std::int64_t kMaxPiece = std::int64_t{1} << 22;

// True if a fused kernel computes the rule: for AdamW alone. Beside Muon it has Nesterov's
// momentum, which the kernel lacks.
bool is_fused(UpdateRule rule, const config::OptimizerSection& config);

// Returns the fused update of a parameter. `slots`: of the list of rows of its gradient; 0: the
// gradient is whole. `copy`: graphs read the parameter in another type than it is kept in.
FusedAdamw fused_kind(const decoder::Parameter& parameter, const config::OptimizerSection& config,
                      std::int64_t slots, bool copy);

// The part of a parameter that one run of a rule's program changes: from element `first` on.
struct UpdatePiece {
  UpdateKind kind;
  std::int64_t first = 0;
};
// Returns the updates by the rule's graph that together change the whole parameter.
std::vector<UpdatePiece> update_pieces(const decoder::Parameter& parameter,
                                       const config::OptimizerSection& config, bool copy);

}  // namespace lamina::train
