// The programs that update parameters: of the fused kernels of AdamW, or of a rule's graph.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "config/sections.h"
#include "decoder/stack/parameter.h"
#include "train/optimizer/fused_adamw.h"
#include "train/optimizer/row_gradients.h"
#include "train/optimizer/update_rules.h"

namespace lamina::train {

// Maximum number of elements per update of an elementwise rule with temporaries, or with state in
// host memory.
inline constexpr std::int64_t kMaxPiece = std::int64_t{1} << 22;
// Likewise on a CPU, where a call costs little and small temporaries stay in caches.
inline constexpr std::int64_t kMaxHostPiece = std::int64_t{1} << 18;

// True if a fused kernel computes the rule: for AdamW alone. Beside Muon it has Nesterov's
// momentum, which the kernel lacks.
bool is_fused(UpdateRule rule, const config::OptimizerSection& config);

// Returns the fused update of a parameter. `slots`: of the list of rows of its gradient; 0: the
// gradient is whole. `copy`: graphs read the parameter in another type than it is kept in.
FusedAdamw fused_kind(const decoder::Parameter& parameter, const config::OptimizerSection& config,
                      std::int64_t slots, bool copy);

// A part of a parameter that the fused kernel updates: from element `first` on.
struct FusedPart {
  int parameter = -1;
  std::int64_t first = 0;
  FusedAdamw kind;

  std::int64_t num_elements() const { return kind.rows * kind.width; }
};
// Returns the fused updates of a step, except of gradients that share memory: one group per
// program. With optimizer.offload the parts of a group have up to kMaxPiece elements, because their
// state is copied together; a table whose gradient is a list is whole and alone.
std::vector<std::vector<FusedPart>> fused_groups(const decoder::ParameterTable& parameters,
                                                 const config::OptimizerSection& config,
                                                 const GradientLists& lists,
                                                 const std::function<bool(int)>& has_copy);

// A part of a parameter that a rule's graph updates: from element `first` on.
struct UpdatePiece {
  int parameter = -1;
  UpdateKind kind;
  std::int64_t first = 0;

  std::int64_t num_elements() const { return kind.batch * kind.rows * kind.width; }
};
// Returns the updates by the rule's graph that together change the whole parameter, without its
// number. Elementwise rules with temporaries have pieces of up to `most` elements.
std::vector<UpdatePiece> update_pieces(const decoder::Parameter& parameter,
                                       const config::OptimizerSection& config, bool copy,
                                       std::int64_t most);
// Returns the updates of a step by graphs of rules, except of gradients that share memory: one
// group per program, of graphs with one structure. Groups have up to `most` elements, or one
// larger piece, if their graphs have temporaries or their state is copied together. A piece of a
// table whose gradient is a list is alone.
std::vector<std::vector<UpdatePiece>> rule_groups(const decoder::ParameterTable& parameters,
                                                  const config::OptimizerSection& config,
                                                  const GradientLists& lists,
                                                  const std::function<bool(int)>& has_copy,
                                                  std::int64_t most);

}  // namespace lamina::train
