// The upper triangle of a symmetric matrix of sums, in blocks of rows: the rows of a block begin at
// the column of its first row. About half of the matrix, in pieces that products can add to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace lamina::weights {

class SymmetricSums {
 public:
  static constexpr std::int64_t kBlockRows = 256;

  SymmetricSums() = default;
  explicit SymmetricSums(std::int64_t width)
      : width_(width), values_(static_cast<std::size_t>(num_values(width))) {}

  // Returns the floats that a matrix [width, width] takes.
  static std::int64_t num_values(std::int64_t width) {
    const std::int64_t blocks = width / kBlockRows, rest = width % kBlockRows;
    return blocks * kBlockRows * width - kBlockRows * kBlockRows * (blocks * (blocks - 1) / 2) +
           rest * rest;
  }

  std::int64_t width() const { return width_; }
  bool is_empty() const { return values_.empty(); }
  std::span<const float> values() const { return values_; }

  // Block b: rows [b * kBlockRows, ..) and columns [b * kBlockRows, width), row-major.
  std::int64_t num_blocks() const { return (width_ + kBlockRows - 1) / kBlockRows; }
  std::int64_t block_rows(std::int64_t b) const {
    return std::min(kBlockRows, width_ - b * kBlockRows);
  }
  std::int64_t block_columns(std::int64_t b) const { return width_ - b * kBlockRows; }
  float* block(std::int64_t b) { return values_.data() + offset(b); }

  // Row i from column i on.
  std::span<const float> row(std::int64_t i) const {
    const std::int64_t b = i / kBlockRows, begin = i % kBlockRows;
    return values()
        .subspan(static_cast<std::size_t>(offset(b) + begin * block_columns(b) + begin))
        .first(static_cast<std::size_t>(width_ - i));
  }
  float diagonal(std::int64_t i) const { return row(i).front(); }

 private:
  std::int64_t offset(std::int64_t b) const {
    return kBlockRows * (b * width_ - kBlockRows * (b * (b - 1) / 2));
  }

  std::int64_t width_ = 0;
  std::vector<float> values_;
};

}  // namespace lamina::weights
