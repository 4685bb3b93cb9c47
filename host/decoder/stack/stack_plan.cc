#include "decoder/stack/stack_plan.h"

#include <algorithm>
#include <set>

#include "core/error.h"

namespace lamina::decoder {
namespace {

// Calls visit(layer, position) for every layer.
template <typename Visit>
void for_each_layer(const registry::PlanSpec& plan, Visit visit) {
  std::int64_t layer = 0;
  for (const registry::SegmentSpec& segment : plan.segments)
    for (std::int64_t time = 0; time < segment.times; ++time)
      for (const registry::PositionSpec& position : segment.unit) visit(layer++, position);
}

// Words for messages about a kind of sharing between layers.
struct Sharing {
  std::optional<std::int64_t> registry::PositionSpec::*from;
  std::string_view uses;      // "layer 3 ... layer 2, which is not before it"
  std::string_view uses_too;  // "layer 2 ... of a third one"
};
constexpr Sharing kKv = {
    &registry::PositionSpec::kv_donor, "reads keys and values of",
    "is the donor of another layer and reads the keys and values of a third one; name that one as "
    "the donor"};
constexpr Sharing kParams = {
    &registry::PositionSpec::params_of, "uses the parameters of",
    "owns parameters of another layer and uses a third layer's; name that one as their owner"};

// Layers that others use.
std::set<std::int64_t> checked_givers(const registry::PlanSpec& plan, const Sharing& sharing) {
  std::set<std::int64_t> givers, users;
  for_each_layer(plan, [&](std::int64_t layer, const registry::PositionSpec& position) {
    const std::optional<std::int64_t> from = position.*sharing.from;
    if (!from) return;
    users.insert(layer);
    givers.insert(*from);
    if (*from < 0 || *from >= layer)
      throw PluginError(
          {"plan",
           fmt::format("layer {} {} layer {}, which is not before it", layer, sharing.uses, *from),
           {}});
  });
  for (std::int64_t layer : users)
    if (givers.contains(layer))
      throw PluginError({"plan", fmt::format("layer {} {}", layer, sharing.uses_too), {}});
  return givers;
}

// Layers that others use, by the shared things: keys and values, or parameters.
struct Givers {
  std::set<std::int64_t> kv, params;
};

class Resolver {
 public:
  Resolver(const StackOptions& options, const std::set<std::int64_t>& cuts, const Givers& givers)
      : options_(options),
        cuts_(cuts.begin(), cuts.end()),
        breaks_(options.breaks),
        givers_(givers) {
    std::ranges::sort(breaks_);
  }

  void add(const registry::SegmentSpec& spec) {
    std::int64_t size = static_cast<std::int64_t>(spec.unit.size());
    std::int64_t begin = next_layer_, end = begin + spec.num_layers();
    bool unroll = spec.unroll || !options_.scan_layers;
    std::int64_t layer = begin;
    while (layer < end) {
      std::int64_t offset = (layer - begin) % size;
      const bool alone = std::ranges::binary_search(cuts_, layer);
      const std::int64_t cut = std::min(next_of(cuts_, layer, end), next_of(breaks_, layer, end));
      if (alone) {
        push(spec, static_cast<std::size_t>(offset), 1, 1, true);
        ++layer;
      } else if (unroll) {
        push(spec, static_cast<std::size_t>(offset), 1, 1, false);
        ++layer;
      } else if (offset == 0 && cut - layer >= size) {
        std::int64_t times = (cut - layer) / size;
        push(spec, 0, static_cast<std::size_t>(size), times, false);
        layer += times * size;
      } else {  // part of a repetition, before or after a cut
        std::int64_t part = std::min(cut - layer, size - offset);
        push(spec, static_cast<std::size_t>(offset), static_cast<std::size_t>(part), 1, false);
        layer += part;
      }
    }
  }

  StackPlan take() { return std::move(plan_); }

 private:
  // Returns the first of `layers`, which rise, after `layer`.
  static std::int64_t next_of(const std::vector<std::int64_t>& layers, std::int64_t layer,
                              std::int64_t end) {
    auto next = std::ranges::upper_bound(layers, layer);
    return next == layers.end() ? end : std::min(*next, end);
  }

  void push(const registry::SegmentSpec& spec, std::size_t first, std::size_t count,
            std::int64_t times, bool one_shot) {
    StackSegment segment;
    segment.name = spec.name;
    auto begin = spec.unit.begin() + static_cast<std::ptrdiff_t>(first);
    segment.unit.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
    segment.times = times;
    segment.first_layer = next_layer_;
    segment.one_shot = one_shot;
    segment.gives_kv = one_shot && givers_.kv.contains(next_layer_);
    segment.gives_params = one_shot && givers_.params.contains(next_layer_);
    next_layer_ += segment.num_layers();
    plan_.segments.push_back(std::move(segment));
  }

  const StackOptions& options_;
  std::vector<std::int64_t> cuts_;    // layers that are separate segments, rising
  std::vector<std::int64_t> breaks_;  // layers that begin a segment, rising
  const Givers& givers_;
  std::int64_t next_layer_ = 0;
  StackPlan plan_;
};

}  // namespace

std::vector<std::int64_t> StackSegment::layers_at(std::size_t position) const {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < times; ++i) out.push_back(layer(i, position));
  return out;
}

std::optional<std::int64_t> StackSegment::params_of(std::size_t position) const {
  if (gives_params) return first_layer;
  return unit[position].params_of;
}

std::int64_t StackPlan::num_layers() const {
  std::int64_t n = 0;
  for (const StackSegment& s : segments) n += s.num_layers();
  return n;
}

std::pair<std::size_t, std::size_t> StackPlan::find(std::int64_t layer) const {
  for (std::size_t s = 0; s < segments.size(); ++s) {
    std::int64_t place = layer - segments[s].first_layer;
    if (place >= 0 && place < segments[s].num_layers())
      return {s, static_cast<std::size_t>(place) % segments[s].unit.size()};
  }
  LAMINA_ASSERT(false);
  return {};
}

StackPlan resolve_stack(const registry::PlanSpec& plan, const StackOptions& options) {
  const Givers givers{checked_givers(plan, kKv), checked_givers(plan, kParams)};
  std::set<std::int64_t> cuts = givers.kv;
  cuts.insert(givers.params.begin(), givers.params.end());
  cuts.insert(options.engram_layers.begin(), options.engram_layers.end());
  LAMINA_ASSERT(cuts.empty() || (*cuts.begin() >= 0 && *cuts.rbegin() < plan.num_layers()));
  Resolver resolver(options, cuts, givers);
  for (const registry::SegmentSpec& spec : plan.segments) resolver.add(spec);
  StackPlan out = resolver.take();
  LAMINA_ASSERT(out.num_layers() == plan.num_layers());
  return out;
}

std::string to_string(const StackPlan& plan, const std::vector<std::string>& block_names) {
  std::string out;
  for (const StackSegment& segment : plan.segments) {
    std::vector<std::string> names;
    for (const registry::PositionSpec& position : segment.unit)
      names.push_back(position.block < block_names.size() ? block_names[position.block] : "?");
    std::int64_t last = segment.first_layer + segment.num_layers() - 1;
    out += fmt::format("{}{{{}}} x {} ({} {})", out.empty() ? "" : ", ", fmt::join(names, " "),
                       segment.times, segment.num_layers() == 1 ? "layer" : "layers",
                       segment.num_layers() == 1 ? std::to_string(last)
                                                 : fmt::format("{}-{}", segment.first_layer, last));
  }
  return out;
}

}  // namespace lamina::decoder
