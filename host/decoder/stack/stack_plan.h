// The stack of layers as the host runs it: a family's plan with segments cut, scanned or unrolled.
//
// Data to data; nothing here knows a graph. Every name outside the device (files, messages,
// metrics) uses the global layer index, so however a stack is cut its checkpoints are the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "registry/plan.h"

namespace lamina::decoder {

struct StackOptions {
  bool scan_layers = true;  // false: every layer is a segment of its own
  // Layers with something of the host's before them; any order. They are run once, as are layers
  // whose keys and values, or parameters, others use.
  std::vector<std::int64_t> engram_layers;
  // Layers at which a new segment begins, though it may run the same blocks.
  std::vector<std::int64_t> breaks = {};
};

// A unit of positions that runs `times` times; layer i of position p is
// first_layer + i * unit.size() + p.
struct StackSegment {
  std::string name;  // of the family's segment
  std::vector<registry::PositionSpec> unit;
  std::int64_t times = 1;
  std::int64_t first_layer = 0;
  bool one_shot = false;      // a layer that must be a segment of its own
  bool gives_kv = false;      // one whose keys and values later layers read
  bool gives_params = false;  // one whose parameters later layers use

  std::int64_t num_layers() const { return times * static_cast<std::int64_t>(unit.size()); }
  std::int64_t layer(std::int64_t time, std::size_t position) const {
    return first_layer + time * static_cast<std::int64_t>(unit.size()) +
           static_cast<std::int64_t>(position);
  }
  // The global indices of the layers at one position, in order.
  std::vector<std::int64_t> layers_at(std::size_t position) const;
  // The layer that has the parameters of those at one position, where layers share them.
  std::optional<std::int64_t> params_of(std::size_t position) const;
};

struct StackPlan {
  std::vector<StackSegment> segments;
  std::int64_t num_layers() const;
  // The segment of a layer, and its place in the unit.
  std::pair<std::size_t, std::size_t> find(std::int64_t layer) const;
};

// Cuts and unrolls. A cut inside a unit splits it: what is left of that repetition becomes segments
// that run once, and whole repetitions around it stay scanned. Neighbouring segments that repeat
// the same positions are not merged. Throws PluginError for a layer that uses keys and values, or
// parameters, of none before it, or of one that uses another's. REQUIRES: engram layers are layers
// of the stack.
StackPlan resolve_stack(const registry::PlanSpec& plan, const StackOptions& options);

// "{local local global} x 10 (layers 0-29), {local local} x 1 (layers 30-31)"; `block_name` gives a
// block's name by id.
std::string to_string(const StackPlan& plan, const std::vector<std::string>& block_names);

}  // namespace lamina::decoder
