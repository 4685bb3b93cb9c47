// The factor of the second moments of a matrix's inputs, by which error feedback weights errors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/workers.h"
#include "weights/quantise/subtract_product.h"
#include "weights/quantise/symmetric_sums.h"

namespace lamina::weights {

// The upper triangular U with U^T U = H^-1, where H is a matrix of second moments with a share of
// its mean diagonal added to the diagonal. Memory while it is made: 12 bytes times the square of
// the width; afterwards 4.
class InputFactor {
 public:
  // `moments`: finite sums of x_i x_j. Inputs that are always 0 keep their values. Does not depend
  // on the number of threads.
  explicit InputFactor(const SymmetricSums& moments, const Workers& workers = {});

  std::int64_t width() const { return width_; }
  // Row i of U from column i on.
  std::span<const float> row(std::int64_t i) const {
    return std::span(values_).subspan(static_cast<std::size_t>(i * width_ + i),
                                      static_cast<std::size_t>(width_ - i));
  }
  // The part of U from row i and column j on. REQUIRES: i <= j.
  MatrixPart<const float> part(std::int64_t i, std::int64_t j) const {
    return {values_.data() + i * width_ + j, width_};
  }
  // 1 / U_ii^2: the weight of the squared error of value i, once later values have made up for it.
  std::span<const float> importance() const { return importance_; }

 private:
  std::int64_t width_;
  std::vector<float> values_, importance_;
};

}  // namespace lamina::weights
