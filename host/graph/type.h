// Static properties of a value: element type, shape, names of its dims.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "core/shape.h"

namespace lamina {

// A logical axis ("embed", "heads", ...), interned; 0 is "no name". Sharding rules refer to axes.
using AxisId = std::uint16_t;
AxisId intern_axis(std::string_view name);  // [any thread]
std::string_view axis_name(AxisId axis);

struct Type {
  DType dtype = DType::f32;
  Shape shape;
  std::array<AxisId, kMaxDims> axes{};

  int ndim() const { return shape.ndim(); }
  std::int64_t dim(int i) const { return shape[i]; }
  std::int64_t num_elements() const { return shape.num_elements(); }
  std::int64_t bytes() const { return num_elements() * size_bytes(dtype); }

  // Returns the same dims (and names) with another element type, or another shape without names.
  Type with(DType other) const;
  Type with(Shape other) const { return {dtype, other, {}}; }

  // Axis names are annotations and do not affect equality.
  friend bool operator==(const Type& a, const Type& b) {
    return a.dtype == b.dtype && a.shape == b.shape;
  }
};

// "f32[8, 2048]"
std::string to_string(const Type& type);
inline auto format_as(const Type& type) { return to_string(type); }  // for fmt

}  // namespace lamina
