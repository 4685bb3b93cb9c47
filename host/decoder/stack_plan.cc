#include "decoder/stack_plan.h"

#include <algorithm>

#include "core/error.h"

namespace lamina::decoder {
namespace {

// The one-shot layers in order; refuses layers that are not there.
std::vector<std::int64_t> checked_cuts(const StackOptions& options, std::int64_t num_layers) {
  std::vector<std::int64_t> cuts = options.one_shot_layers;
  std::ranges::sort(cuts);
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    if (cuts[i] < 0 || cuts[i] >= num_layers)
      user_error(ExitCode::usage, "model.engram_layers",
                 "layer {} is outside the stack; use 0 to {}", cuts[i], num_layers - 1);
    if (i > 0 && cuts[i] == cuts[i - 1])
      user_error(ExitCode::usage, "model.engram_layers", "layer {} is named twice", cuts[i]);
  }
  return cuts;
}

class Resolver {
 public:
  Resolver(const StackOptions& options, std::vector<std::int64_t> cuts)
      : options_(options), cuts_(std::move(cuts)) {}

  void add(const registry::SegmentSpec& spec) {
    std::int64_t size = static_cast<std::int64_t>(spec.unit.size());
    std::int64_t begin = next_layer_, end = begin + spec.num_layers();
    bool unroll = spec.unroll || !options_.scan_layers;
    std::int64_t layer = begin;
    while (layer < end) {
      std::int64_t offset = (layer - begin) % size;
      std::int64_t cut = next_cut(layer, end);
      if (cut == layer) {
        push(spec, static_cast<std::size_t>(offset), 1, 1, true);
        ++layer;
      } else if (unroll) {
        push(spec, static_cast<std::size_t>(offset), 1, 1, false);
        ++layer;
      } else if (offset == 0 && cut - layer >= size) {
        std::int64_t times = (cut - layer) / size;
        push(spec, 0, static_cast<std::size_t>(size), times, false);
        layer += times * size;
      } else {  // part of a round, before or after a cut
        std::int64_t part = std::min(cut - layer, size - offset);
        push(spec, static_cast<std::size_t>(offset), static_cast<std::size_t>(part), 1, false);
        layer += part;
      }
    }
  }

  StackPlan take() { return std::move(plan_); }

 private:
  std::int64_t next_cut(std::int64_t layer, std::int64_t end) const {
    auto cut = std::ranges::lower_bound(cuts_, layer);
    return cut == cuts_.end() ? end : std::min(*cut, end);
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
    next_layer_ += segment.num_layers();
    plan_.segments.push_back(std::move(segment));
  }

  const StackOptions& options_;
  std::vector<std::int64_t> cuts_;
  std::int64_t next_layer_ = 0;
  StackPlan plan_;
};

}  // namespace

std::vector<std::int64_t> StackSegment::layers_at(std::size_t position) const {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < times; ++i) out.push_back(layer(i, position));
  return out;
}

std::int64_t StackPlan::num_layers() const {
  std::int64_t n = 0;
  for (const StackSegment& s : segments) n += s.num_layers();
  return n;
}

StackPlan resolve_stack(const registry::PlanSpec& plan, const StackOptions& options) {
  Resolver resolver(options, checked_cuts(options, plan.num_layers()));
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
