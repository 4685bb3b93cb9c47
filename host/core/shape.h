// The sizes of a tensor's dims, held inline: at most kMaxDims of them.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace lamina {

// Tensors of plugins have at most LAMINA_MAX_DIMS = 8 dims. Stacking by layer, and by token of a
// time region or by group of layers below that, adds dims.
inline constexpr int kMaxDims = 10;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  // REQUIRES: dims.size() <= kMaxDims.
  explicit Shape(std::span<const std::int64_t> dims);

  int ndim() const { return ndim_; }

  // Negative indices count from the last dim. REQUIRES: -ndim() <= i < ndim().
  std::int64_t operator[](int i) const { return dims_[i < 0 ? i + ndim_ : i]; }
  std::int64_t& operator[](int i) { return dims_[i < 0 ? i + ndim_ : i]; }

  std::span<const std::int64_t> dims() const {
    return {dims_.data(), static_cast<std::size_t>(ndim_)};
  }

  // Product of all dims; 1 for a scalar. DeviceError (exit 7) if it is above 2^50.
  std::int64_t num_elements() const;

  // Returns the shape with `size` prepended, or with the first dim dropped.
  Shape with_leading(std::int64_t size) const;
  Shape without_leading() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<std::int64_t, kMaxDims> dims_{};
  int ndim_ = 0;
};

// "[8, 2048]"
std::string to_string(const Shape& shape);

}  // namespace lamina
