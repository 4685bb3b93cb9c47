// The stack plan: the block of each layer, as segments of repeated units.
//
//   repeat(unit(kLocal, 5) + unit(kGlobal)).over(62).remainder_prefix()   // {LLLLLG}x10 {LL}x1
//   prefix("dense", unit(kDense), 3) + repeat(unit(kMoe)).over(58)        // {D}x3 {M}x58
//   layers_of(c.layer_types, unit_of_kind)                                 // one kind per layer
//   each_layer(c.num_hidden_layers, block_of_layer)                        // one block per layer
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lamina/ext/layer_sharing.h"
#include "lamina/sdk/emit.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// The value of a config key in one position of a unit. Borrowed text.
struct Override {
  std::string_view key;
  lamina_value_t value;
  Override(std::string_view k, std::int64_t v) : key(k), value(to_value(v)) {}
  Override(std::string_view k, int v) : key(k), value(to_value(std::int64_t{v})) {}
  Override(std::string_view k, double v) : key(k), value(to_value(v)) {}
  Override(std::string_view k, bool v) : key(k), value(to_value(v)) {}
  Override(std::string_view k, std::string_view v) : key(k), value(to_value(v)) {}
  Override(std::string_view k, const char* v) : key(k), value(to_value(std::string_view(v))) {}
};

struct Position {
  std::uint32_t block = 0;
  std::vector<Override> overrides = {};
  // Index of the earlier layer whose keys and values this one reads.
  std::optional<std::int64_t> kv_donor = {};
  // Index of the earlier layer whose parameters this one shares.
  std::optional<std::int64_t> params_of = {};
};

using Unit = std::vector<Position>;

// `times` layers of one block.
inline Unit unit(std::uint32_t block, std::int64_t times = 1,
                 const std::vector<Override>& overrides = {}) {
  if (times < 0) times = 0;
  return Unit(static_cast<std::size_t>(times), Position{.block = block, .overrides = overrides});
}

struct Segment {
  std::string name = {};
  Unit unit = {};
  std::int64_t times = 0;
  std::uint32_t flags = 0;  // LAMINA_SEGMENT_*
};

using Plan = std::vector<Segment>;

namespace plan_ops {
template <class T>
std::vector<T> joined(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
}  // namespace plan_ops
inline Unit operator+(Unit a, const Unit& b) { return plan_ops::joined(std::move(a), b); }
inline Plan operator+(Plan a, const Plan& b) { return plan_ops::joined(std::move(a), b); }

// A unit repeated over a number of layers. exact() and remainder_prefix() say how to fill layers
// that are not a multiple of the unit.
class Repeated {
 public:
  Repeated(Unit unit, std::string name, std::int64_t layers, At at)
      : unit_(std::move(unit)), name_(std::move(name)), layers_(layers), at_(at) {
    if (unit_.empty()) raise(Error(LAMINA_ERROR_CONFIG, "plan: the repeated unit is empty", at_));
    if (layers_ < 0)
      raise(Error(LAMINA_ERROR_CONFIG, "plan: the number of layers is negative", at_));
  }

  // Refuses a number of layers that is not a multiple of the unit.
  Plan exact() const {
    if (layers_ % length() != 0)
      raise(Error(LAMINA_ERROR_CONFIG,
                  "plan: " + std::to_string(layers_) + " layers are not a multiple of the unit's " +
                      std::to_string(length()),
                  at_));
    return whole();
  }
  // Fills the remaining layers with the first layers of one more unit.
  Plan remainder_prefix() const {
    Plan out = whole();
    const auto rest = static_cast<std::ptrdiff_t>(layers_ % length());
    if (rest > 0)
      out.push_back({.name = name_.empty() ? "remainder" : name_ + " remainder",
                     .unit = Unit(unit_.begin(), unit_.begin() + rest),
                     .times = 1});
    return out;
  }
  operator Plan() const { return exact(); }

 private:
  std::int64_t length() const { return static_cast<std::int64_t>(unit_.size()); }
  Plan whole() const {
    if (layers_ < length()) return {};
    return {{.name = name_, .unit = unit_, .times = layers_ / length()}};
  }

  Unit unit_;
  std::string name_;
  std::int64_t layers_;
  At at_;
};
inline Plan operator+(Plan a, const Repeated& b) { return std::move(a) + Plan(b); }

struct Repeat {
  Unit unit = {};
  std::string name = {};
  Repeated over(std::int64_t layers, At at = At::current()) const {
    return {unit, name, layers, at};
  }
};
inline Repeat repeat(Unit unit, std::string name = {}) {
  return {std::move(unit), std::move(name)};
}

// Segments before the main part; `times` may be 0.
inline Plan prefix(std::string name, Unit unit, std::int64_t times) {
  if (times <= 0) return {};
  return {{.name = std::move(name), .unit = std::move(unit), .times = times}};
}

// One layer for each element of `kinds` (any type with ==), eg: layer_types of config.json; unit_of
// returns the unit of one layer of a kind. Finds repetitions: L L G L L G L is {LLG}x2 {L}x1.
template <class Kind, class UnitOf>
Plan layers_of(const std::vector<Kind>& kinds, UnitOf unit_of) {
  Plan out;
  for (std::size_t start = 0; start < kinds.size();) {
    // The period whose repetitions reach furthest; the shortest one in a tie.
    std::size_t period = 1, covered = 0;
    for (std::size_t p = 1; p <= kinds.size() - start; ++p) {
      std::size_t same = p;
      while (start + same < kinds.size() && kinds[start + same] == kinds[start + same - p]) ++same;
      const std::size_t whole = same / p * p;
      if (p > 1 && whole == p) continue;  // never repeated
      if (whole > covered) {
        period = p;
        covered = whole;
      }
    }
    Segment segment{.times = static_cast<std::int64_t>(covered / period)};
    for (std::size_t i = start; i < start + period; ++i)
      segment.unit = segment.unit + unit_of(kinds[i]);
    out.push_back(std::move(segment));
    start += covered;
  }
  return out;
}

// One layer for each i from 0; its block is block_of(i).
template <class BlockOf>
Plan each_layer(std::int64_t layers, BlockOf block_of) {
  std::vector<std::uint32_t> blocks;
  for (std::int64_t i = 0; i < layers; ++i) blocks.push_back(block_of(i));
  return layers_of(blocks, [](std::uint32_t block) { return unit(block); });
}

// A kind per layer: every `every`-th layer is `nth`, the others are `others`.
inline std::vector<std::string_view> alternating_kinds(std::int64_t layers, std::int64_t every,
                                                       std::string_view nth,
                                                       std::string_view others) {
  std::vector<std::string_view> out;
  for (std::int64_t i = 0; i < layers; ++i) out.push_back((i + 1) % every == 0 ? nth : others);
  return out;
}

inline void send(const Plan& plan, lamina_reply_t* reply) {
  for (const Segment& segment : plan) {
    std::vector<std::vector<lamina_setting_t>> settings;
    std::vector<lamina_position_t> unit;
    for (const Position& position : segment.unit) {
      auto& overrides = settings.emplace_back();
      for (const Override& o : position.overrides) overrides.push_back({to_str(o.key), o.value});
      lamina_position_t out{};
      out.size = sizeof out;
      out.block = position.block;
      out.overrides = to_span(overrides);
      unit.push_back(out);
    }
    lamina_segment_t out{};
    out.size = sizeof out;
    out.flags = segment.flags;
    out.name = to_str(segment.name);
    out.unit = to_span(unit);
    out.times = static_cast<std::uint32_t>(segment.times);
    check(reply->api->segment(reply, &out));
    for (std::uint32_t i = 0; i < unit.size(); ++i) {
      const Position& position = segment.unit[i];
      if (!position.kv_donor && !position.params_of) continue;
      const auto& sharing = extension<lamina_layer_sharing_api_t>(LAMINA_LAYER_SHARING_ID);
      if (position.kv_donor)
        check(sharing.read_from(reply, i, static_cast<std::uint32_t>(*position.kv_donor)));
      if (position.params_of)
        check(sharing.params_of(reply, i, static_cast<std::uint32_t>(*position.params_of)));
    }
  }
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
