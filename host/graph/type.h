// Static properties of a value: element type, shape, names of its dims, storage.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "core/shape.h"
#include "formats/block_formats.h"

namespace lamina {

// A logical axis ("embed", "heads", ...), interned; 0 is "no name". Sharding rules refer to axes.
using AxisId = std::uint16_t;
AxisId intern_axis(std::string_view name);  // [any thread]
std::string_view axis_name(AxisId axis);

struct Type {
  DType dtype = DType::f32;
  Shape shape;
  std::array<AxisId, kMaxDims> axes{};
  // The format of the values in memory, in blocks along the last dim; null: plain elements. `dtype`
  // is the type in which ops use the values: each is rounded to it once. For parameters and states.
  const formats::BlockFormat* storage = nullptr;

  int ndim() const { return shape.ndim(); }
  std::int64_t dim(int i) const { return shape[i]; }
  std::int64_t num_elements() const { return shape.num_elements(); }
  std::int64_t bytes() const {
    return storage ? storage->bytes_of(num_elements()) : num_elements() * size_bytes(dtype);
  }

  // Return plain types: the same dims (and names) with another element type, or another shape
  // without names.
  Type with(DType other) const;
  Type with(Shape other) const { return {dtype, other, {}, nullptr}; }
  // Returns the type with another storage. REQUIRES: the last dim has whole blocks.
  Type stored_as(const formats::BlockFormat* format) const;

  // Axis names are annotations and do not affect equality.
  friend bool operator==(const Type& a, const Type& b) {
    return a.dtype == b.dtype && a.shape == b.shape && a.storage == b.storage;
  }
};

// "f32[8, 2048]", "bf16[8, 2048] in Q4_K"
std::string to_string(const Type& type);
inline auto format_as(const Type& type) { return to_string(type); }  // for fmt

}  // namespace lamina
