#include "backends/cuda/elementwise/group.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/chunks.h"

namespace lamina::cuda {
namespace {

// Returns the dims along which an operand of these strides extends, if it repeats its elements
// along all others and has no gaps.
std::optional<std::uint16_t> dims_of(const MapParams& p, const std::int64_t* strides) {
  std::int64_t stride = 1;
  unsigned dims = 0;
  for (int d = p.ndim - 1; d >= 0; --d) {
    if (strides[d] == 0) continue;
    if (strides[d] != stride) return std::nullopt;
    dims |= 1u << d;
    stride *= p.dims[d].by;
  }
  return static_cast<std::uint16_t>(dims);
}

}  // namespace

int MapForm::most_tensors() const {
  const int words = kGroupWords - static_cast<int>(steps.size()) * kWordsOfStep;
  return std::min(kMostGroupTensors,
                  words / words_of_tensor(static_cast<int>(operands.size()), ndim));
}

std::optional<MapForm> form_of(const EncodedMap& map) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 30;
  const MapParams& p = map.params;
  if (p.num_elements > kMostElements) return std::nullopt;
  MapForm form{.wide = map.wide, .num_slots = map.num_slots, .ndim = p.ndim};
  std::size_t num_operands = 0;
  for (int s = 0; s < p.num_steps; ++s) {
    const GpuMapStep& step = p.steps[s];
    if (step.action == MapAction::iota) return std::nullopt;
    if (step.action == MapAction::load || step.action == MapAction::store)
      num_operands = std::max(num_operands, std::size_t{step.operand} + 1);
    form.steps.push_back(step);
  }
  if (num_operands > kMostGroupOperands) return std::nullopt;
  for (std::size_t i = 0; i < num_operands; ++i) {
    const MapPlace& place = p.operands[i];
    MapGroupOperand operand{.dtype = place.dtype};
    if (place.pattern != kContiguous) {
      const auto dims = dims_of(p, p.strides[place.pattern]);
      if (!dims) return std::nullopt;
      operand.is_contiguous = false;
      operand.dims = *dims;
    }
    form.operands.push_back(operand);
  }
  if (form.most_tensors() < 2) return std::nullopt;
  return form;
}

MapGroupLaunch::MapGroupLaunch(const MapForm& form) {
  params_.num_steps = static_cast<int>(form.steps.size());
  params_.num_operands = static_cast<int>(form.operands.size());
  params_.ndim = form.ndim;
  params_.words_per_tensor = words_of_tensor(params_.num_operands, form.ndim);
  std::ranges::copy(form.operands, params_.operands);
  std::memcpy(params_.words, form.steps.data(), form.steps.size() * sizeof(GpuMapStep));
}

std::uint64_t* MapGroupLaunch::words_of(int tensor) {
  return params_.words + params_.num_steps * kWordsOfStep + tensor * params_.words_per_tensor;
}

void MapGroupLaunch::add(const EncodedMap& map, std::int64_t elements_per_chunk) {
  const MapParams& p = map.params;
  std::uint64_t* const words = words_of(params_.num_tensors);
  words[0] = static_cast<std::uint64_t>(p.num_elements);
  if (p.ndim > 1)
    std::memcpy(words + 1 + params_.num_operands, p.dims,
                static_cast<std::size_t>(p.ndim) * sizeof(gpu::Divisor));
  add_chunks(params_, divide_up(p.num_elements, elements_per_chunk));
}

void MapGroupLaunch::set_address(int tensor, std::size_t operand, gpu::Address at) {
  words_of(tensor)[1 + operand] = at.value;
}

void MapGroupLaunch::run(const KernelArgs& args, Function function, LaunchShape shape) {
  shape.blocks = share_chunks(params_);
  launch(args, function, shape, params_);
}

}  // namespace lamina::cuda
