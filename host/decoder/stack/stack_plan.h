// The stack of layers as the host runs it: a family's plan, with segments cut, scanned or unrolled.
//
// Does not depend on graphs. Every name outside the device (files, messages, metrics) uses the
// global layer index, so checkpoints do not depend on the segments.
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
  bool scan_layers = true;  // false: every layer is a separate segment
  // Layers after an Engram block, in any order. They run once, like layers whose keys and values,
  // or parameters, others use.
  std::vector<std::int64_t> engram_layers;
  // Layers at which a new segment begins, even if it has the same blocks.
  std::vector<std::int64_t> breaks = {};
};

// A unit of positions that runs `times` times; layer i of position p is
// first_layer + i * unit.size() + p.
struct StackSegment {
  std::string name;  // of the family's segment
  std::vector<registry::PositionSpec> unit;
  std::int64_t times = 1;
  std::int64_t first_layer = 0;
  bool one_shot = false;      // a layer that must be a separate segment
  bool gives_kv = false;      // a layer whose keys and values later layers read
  bool gives_params = false;  // a layer whose parameters later layers use

  std::int64_t num_layers() const { return times * static_cast<std::int64_t>(unit.size()); }
  std::int64_t layer(std::int64_t time, std::size_t position) const {
    return first_layer + time * static_cast<std::int64_t>(unit.size()) +
           static_cast<std::int64_t>(position);
  }
  // Returns the global indices of the layers at one position, in order.
  std::vector<std::int64_t> layers_at(std::size_t position) const;
  // Returns the layer whose parameters the layers at one position use, if they share them.
  std::optional<std::int64_t> params_of(std::size_t position) const;
};

struct StackPlan {
  std::vector<StackSegment> segments;
  std::int64_t num_layers() const;
  // Returns the segment of a layer, and its place in the unit.
  std::pair<std::size_t, std::size_t> find(std::int64_t layer) const;
};

// Cuts and unrolls segments. A cut inside a unit splits it: the rest of that repetition becomes
// segments that run once, and whole repetitions around it stay scanned. Neighbouring segments that
// repeat the same positions are not merged. Throws PluginError for a layer that uses keys and
// values, or parameters, of a layer that is not before it, or that uses another layer's. REQUIRES:
// engram layers are layers of the stack.
StackPlan resolve_stack(const registry::PlanSpec& plan, const StackOptions& options);

// "{local local global} x 10 (layers 0-29), {local local} x 1 (layers 30-31)"; `block_name` gives a
// block's name by id.
std::string to_string(const StackPlan& plan, const std::vector<std::string>& block_names);

}  // namespace lamina::decoder
