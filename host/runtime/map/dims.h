// The index space of a strided computation, with as few dims as its operands allow.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "runtime/map/program.h"

namespace lamina {

struct MergedDims {
  int ndim = 1;  // at least 1
  std::array<std::int64_t, kMaxDims> dims = {};
  std::int64_t num_elements = 0;

  // True if operands with these strides are read in the order of memory without gaps.
  bool contiguous(const MapStrides& strides) const;
  // True if operands with these strides are one element.
  bool scalar(const MapStrides& strides) const;
};

// Removes dims of one element, and merges neighbours that are evenly spaced in every operand. The
// strides of the operands become strides over the merged dims.
MergedDims merge_dims(const Shape& dims, std::span<MapStrides* const> operands);

}  // namespace lamina
