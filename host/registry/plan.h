// The plan of a model's layers, its embedding, head and norm, as plain values from the family.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/value.h"
#include "graph/op.h"

namespace lamina::registry {

// Maximum number of layers of a config or a plan. Each takes some 50 microseconds before the
// weights are checked, so a damaged config.json is refused within a second.
inline constexpr std::int64_t kMaxLayers = std::int64_t{1} << 13;

// A value of a config key for one position only.
struct Setting {
  std::string key;
  config::Value value;
  friend bool operator==(const Setting&, const Setting&) = default;
};

// One layer of a unit.
struct PositionSpec {
  std::uint32_t block = 0;  // id of a Block of the family
  std::vector<Setting> overrides;
  std::optional<std::int64_t> kv_donor;   // global index of the layer whose kv state is read
  std::optional<std::int64_t> params_of;  // global index of the layer whose parameters are used
  friend bool operator==(const PositionSpec&, const PositionSpec&) = default;
};

// A unit of positions, run `times` times.
struct SegmentSpec {
  std::string name;  // for messages; may be empty
  std::vector<PositionSpec> unit;
  std::int64_t times = 1;
  bool unroll = false;  // never scanned

  std::int64_t num_layers() const { return times * static_cast<std::int64_t>(unit.size()); }
  friend bool operator==(const SegmentSpec&, const SegmentSpec&) = default;
};

// Segments in order; their layers add up to num_hidden_layers (checked).
struct PlanSpec {
  std::vector<SegmentSpec> segments;

  std::int64_t num_layers() const;
  friend bool operator==(const PlanSpec&, const PlanSpec&) = default;
};

// A normalisation by an op that takes (x, w?, bias?).
struct NormSpec {
  const Op* op = nullptr;                                     // null = no norm
  std::vector<std::pair<std::string_view, AttrValue>> attrs;  // set by the family
  bool weight = true;
  bool bias = false;

  // Returns the initial value of its weight, for which weight + offset is 1.
  double initial_weight() const;
};

enum class Positions { none, learned, sinusoidal };

// x = dropout(table[ids] * scale + positions), from which the entry block produces the carries.
struct EmbedSpec {
  double scale = 1;
  Positions positions = Positions::none;
  std::int64_t max_positions = 0;  // rows of the table of learned positions
  double dropout = 0;
  double init_std = 0.02;
  double positions_init_std = 0.02;
  std::uint32_t entry = 0;  // block id; 0 = x is the only carry
  std::size_t num_carries = 1;
  std::size_t num_per_layer = 0;  // tensors with one element per layer
};

// logits = cap(norm(x) w^T * logit_scale + bias)
struct HeadSpec {
  bool tied = false;  // w is the embedding table
  bool bias = false;
  bool no_loss = false;        // training computes no logits
  bool bidirectional = false;  // tokens see later tokens: not decoded
  double logit_scale = 1;
  double soft_cap = 0;  // 0 = none
  double init_std = 0.02;
  NormSpec norm;
  std::uint32_t exit = 0;  // id of the block that computes x from the carries; 0 = x is carry 0
};

// Multi-token prediction: `depth` blocks after the stack; see ext/mtp.h.
struct MtpSpec {
  std::uint32_t block = 0;
  std::int64_t depth = 0;  // 0 = none
  std::vector<Setting> overrides;
  bool normed_hidden = false;
  bool shifted_positions = false;
  bool final_norm = false;
  bool chained = false;
  bool carries = false;    // the hidden state is carry 0 between layers
  std::string weight_key;  // key of a number, or of a list with one per depth; empty = 1
};

struct OptionsSpec {
  EmbedSpec embed;
  HeadSpec head;
  MtpSpec mtp;
  std::string exports_as;  // the family whose published format exports use; empty = this one
};

}  // namespace lamina::registry
