#include "weights/quantise/error_feedback.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/round_up.h"
#include "formats/value_rounder.h"
#include "weights/quantise/subtract_product.h"

namespace lamina::weights {
namespace {

constexpr std::int64_t kColumnsTogether = 64;  // whose errors are passed on at once
constexpr std::int64_t kRows = 64;             // that a thread rounds together

// Rounds some rows together.
class RowRounder {
 public:
  RowRounder(const RowsToEncode& matrix, const InputFactor& factor)
      : rounder_(*matrix.format),
        format_(*matrix.format),
        width_(matrix.width),
        factor_(factor),
        importance_(factor.importance()) {}

  // `values`: [rows, width], which become the values after all errors before them.
  void run(std::span<float> values, std::int64_t rows, std::byte* out) {
    const std::int64_t group = format_.num_values;
    codes_.resize(static_cast<std::size_t>(rows * width_));
    scales_.resize(static_cast<std::size_t>(rows));
    block_scales_.resize(static_cast<std::size_t>(rows * (width_ / group)));
    errors_.resize(static_cast<std::size_t>(rows * kColumnsTogether));
    for (std::int64_t begin = 0; begin < width_; begin += kColumnsTogether) {
      const std::int64_t past = std::min(width_, begin + kColumnsTogether);
      for (std::int64_t row = 0; row < rows; ++row) {
        float* w = values.data() + row * width_;
        for (std::int64_t i = begin; i < past; ++i) {
          if (i % group == 0) scales_[static_cast<std::size_t>(row)] = scale_at(w, i, row);
          round(w, row, i, begin, past);
        }
      }
      pass_on(values, rows, begin, past);
    }
    for (std::int64_t row = 0; row < rows; ++row) write(row, out + row * format_.bytes_of(width_));
  }

 private:
  // Blocks may be larger than the columns whose errors are passed on: then the scale is chosen with
  // the values that are not corrected yet.
  float scale_at(const float* w, std::int64_t i, std::int64_t row) {
    const auto count = static_cast<std::size_t>(format_.num_values);
    const std::int64_t blocks = width_ / format_.num_values;
    float& scale = block_scales_[static_cast<std::size_t>(row * blocks + i / format_.num_values)];
    scale = rounder_.choose_scale({w + i, count},
                                  importance_.subspan(static_cast<std::size_t>(i), count));
    return scale;
  }

  void round(float* w, std::int64_t row, std::int64_t i, std::int64_t begin, std::int64_t past) {
    const auto r = rounder_.round(scales_[static_cast<std::size_t>(row)], w[i]);
    codes_[static_cast<std::size_t>(row * width_ + i)] = r.code;
    const std::span<const float> u = factor_.row(i);
    const float error = (w[i] - r.value) / u[0];
    errors_[static_cast<std::size_t>(row * kColumnsTogether + i - begin)] = error;
    for (std::int64_t j = i + 1; j < past; ++j) w[j] -= error * u[static_cast<std::size_t>(j - i)];
  }

  // Corrects all values after the columns [begin, past).
  void pass_on(std::span<float> values, std::int64_t rows, std::int64_t begin, std::int64_t past) {
    subtract_product<float>(rows, width_ - past, past - begin, {values.data() + past, width_},
                            {errors_.data(), kColumnsTogether}, factor_.part(begin, past));
  }

  void write(std::int64_t row, std::byte* out) const {
    const std::int64_t blocks = width_ / format_.num_values;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const auto first = static_cast<std::size_t>(row * width_ + b * format_.num_values);
      rounder_.write(block_scales_[static_cast<std::size_t>(row * blocks + b)],
                     std::span(codes_).subspan(first, static_cast<std::size_t>(format_.num_values)),
                     out + b * format_.num_bytes);
    }
  }

  formats::ValueRounder rounder_;
  const formats::BlockFormat& format_;
  std::int64_t width_;
  const InputFactor& factor_;
  std::span<const float> importance_;
  std::vector<std::uint8_t> codes_;
  std::vector<float> scales_, errors_, block_scales_;
};

}  // namespace

void encode_rows_with_feedback(const RowsToEncode& matrix, const std::string& where,
                               const RowSource& values, const InputFactor& factor,
                               const Workers& workers, std::byte* out) {
  LAMINA_ASSERT(matrix.width == factor.width());
  work_on_all(workers, divide_up(matrix.rows, kRows), [&](std::int64_t part) {
    const std::int64_t begin = part * kRows, count = std::min(kRows, matrix.rows - begin);
    std::vector<float> rows(static_cast<std::size_t>(count * matrix.width));
    values(begin * matrix.width, rows);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (!std::isfinite(rows[i]))
        refuse_row(matrix, where, begin + static_cast<std::int64_t>(i) / matrix.width);
    RowRounder(matrix, factor)
        .run(rows, count, out + matrix.format->bytes_of(begin * matrix.width));
  });
}

}  // namespace lamina::weights
