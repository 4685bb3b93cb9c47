// Rounds rows so that their products with typical inputs change little: the error of each value is
// passed on to the values after it (GPTQ; Frantar et al. 2022).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/workers.h"
#include "weights/quantise/quantise.h"

namespace lamina::weights {

// The factor of a matrix of second moments of inputs: the upper triangular U with U^T U = H^-1,
// where H is the matrix with a share of its mean diagonal added to the diagonal.
class InputFactor {
 public:
  // `moments`: finite sums of x_i x_j, [width, width]. Inputs that are always 0 keep their values.
  InputFactor(std::span<const float> moments, std::int64_t width, const Workers& workers = {});

  std::int64_t width() const { return width_; }
  // Row i of U from column i on.
  std::span<const float> row(std::int64_t i) const {
    return std::span(values_).subspan(static_cast<std::size_t>(i * width_ + i),
                                      static_cast<std::size_t>(width_ - i));
  }
  // 1 / U_ii^2: the weight of the squared error of value i, once later values have made up for it.
  std::span<const float> importance() const { return importance_; }

 private:
  std::int64_t width_;
  std::vector<float> values_, importance_;
};

// Like encode_rows(), for formats that formats::ValueRounder rounds. A row depends on its own
// values and the factor alone. `values` is called from all threads. REQUIRES: matrix.width ==
// factor.width().
void encode_rows_with_feedback(const RowsToEncode& matrix, const std::string& where,
                               const RowSource& values, const InputFactor& factor,
                               const Workers& workers, std::byte* out);

}  // namespace lamina::weights
