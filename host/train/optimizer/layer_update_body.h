// The body of a scan that computes gradients of layers and then updates the layers. Private to
// layer_updates.cc.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/sections.h"
#include "decoder/stack/parameter.h"
#include "graph/graph.h"
#include "train/optimizer/update_kinds.h"

namespace lamina::train {

// The update of one parameter: a fused kernel, or a rule's graph for each of `pieces` equal parts.
struct LayerUpdate {
  std::optional<FusedAdamw> fused;
  UpdateKind kind;
  std::int64_t pieces = 1;
  bool copy = false;
  friend auto operator<=>(const LayerUpdate&, const LayerUpdate&) = default;
};

// Returns the update that all members have in common. Returns nothing if there is none, or if it
// needs parts of different kinds: of 8-bit moments whose last block is not full. `copy`: graphs
// read the parameter in another type than it is kept in.
std::optional<LayerUpdate> common_update(const std::vector<int>& members,
                                         const decoder::ParameterTable& parameters,
                                         const config::OptimizerSection& config, bool copy);

// Returns the graph of the update of one piece.
Graph graph_of(const LayerUpdate& update, const config::OptimizerSection& config);

// The part of an update that a body depends on.
struct BodyUpdate {
  std::uint32_t result;
  int operand;
  LayerUpdate update;
  friend auto operator<=>(const BodyUpdate&, const BodyUpdate&) = default;
};
// Returns the body of `scan` with updates. It takes, after the carries, `updating`, and after all
// other operands for each update: numbers f64[6], the parameter if the scan has no such operand,
// the master if there is a copy, and the states. Its results are the carries, `updating`, the
// former results, and for each update: the check f64[3], the master, the states and the copy.
std::shared_ptr<const Graph> body_with_updates(const Node& scan,
                                               std::span<const BodyUpdate> updates,
                                               const config::OptimizerSection& config,
                                               double clip_norm);

}  // namespace lamina::train
