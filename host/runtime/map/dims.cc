#include "runtime/map/dims.h"

#include <algorithm>

namespace lamina {

bool MergedDims::contiguous(const MapStrides& strides) const {
  std::int64_t linear = 1;
  for (int d = ndim - 1; d >= 0; --d) {
    const auto i = static_cast<std::size_t>(d);
    if (strides[i] != linear && dims[i] > 1) return false;
    linear *= dims[i];
  }
  return true;
}

bool MergedDims::scalar(const MapStrides& strides) const {
  return std::all_of(strides.begin(), strides.begin() + ndim,
                     [](std::int64_t stride) { return stride == 0; });
}

MergedDims merge_dims(const Shape& dims, std::span<MapStrides* const> operands) {
  MergedDims merged;
  merged.num_elements = dims.num_elements();
  int kept = 0;
  for (int d = 0; d < dims.ndim(); ++d) {
    const std::int64_t size = dims[d];
    if (size == 1) continue;
    const auto from = static_cast<std::size_t>(d);
    const bool merges =
        kept > 0 && std::ranges::all_of(operands, [&](const MapStrides* strides) {
          return (*strides)[static_cast<std::size_t>(kept - 1)] == (*strides)[from] * size;
        });
    const auto to = static_cast<std::size_t>(merges ? kept - 1 : kept);
    for (MapStrides* strides : operands) (*strides)[to] = (*strides)[from];
    merged.dims[to] = merges ? merged.dims[to] * size : size;
    if (!merges) ++kept;
  }
  if (kept == 0) {
    merged.dims[0] = merged.num_elements;
    for (MapStrides* strides : operands) (*strides)[0] = 0;
    kept = 1;
  }
  merged.ndim = kept;
  return merged;
}

}  // namespace lamina
