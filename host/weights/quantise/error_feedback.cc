#include "weights/quantise/error_feedback.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/round_up.h"
#include "formats/value_rounder.h"

namespace lamina::weights {
namespace {

// The share of the mean diagonal that is added to the diagonal; the paper uses it.
constexpr double kDamping = 0.01;
constexpr std::int64_t kColumns = 64;  // whose errors are passed on together
constexpr std::int64_t kRows = 16;     // that a thread rounds together

// A square matrix in double, row-major.
struct Square {
  std::int64_t width;
  std::vector<double> values;
  double* row(std::int64_t i) { return values.data() + i * width; }
};

// Returns H with damping. An input without values gets a diagonal of 1.
Square damped(std::span<const float> moments, std::int64_t width, double damping) {
  Square out{width, {moments.begin(), moments.end()}};
  double sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += out.row(i)[i];
  const double more = sum > 0 ? damping * sum / static_cast<double>(width) : 1;
  for (std::int64_t i = 0; i < width; ++i) {
    double& diagonal = out.row(i)[i];
    diagonal = diagonal > 0 ? diagonal + more : 1;
  }
  return out;
}

double dot(const double* a, const double* b, std::int64_t count) {
  constexpr int kLanes = 8;  // partial sums, so that the loop can be vectorised
  double sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int j = 0; j < kLanes; ++j) sums[j] += a[i + j] * b[i + j];
  double out = 0;
  for (; i < count; ++i) out += a[i] * b[i];
  for (const double sum : sums) out += sum;
  return out;
}

// Replaces H by the upper triangular R with R R^T = H. Returns false if H is not positive definite.
bool factorise(Square& h, const Workers& workers) {
  constexpr std::int64_t kPart = 64;  // rows
  for (std::int64_t j = h.width; j-- > 0;) {
    double* of_j = h.row(j);
    const std::int64_t after = j + 1, count = h.width - after;
    const double square = of_j[j] - dot(of_j + after, of_j + after, count);
    if (!(square > 0) || !std::isfinite(square)) return false;
    of_j[j] = std::sqrt(square);
    work_on_all(workers, divide_up(j, kPart), [&](std::int64_t part) {
      const std::int64_t past = std::min(j, (part + 1) * kPart);
      for (std::int64_t i = part * kPart; i < past; ++i) {
        double* of_i = h.row(i);
        of_i[j] = (of_i[j] - dot(of_i + after, of_j + after, count)) / of_j[j];
      }
    });
  }
  return true;
}

// Replaces the upper triangular R by its inverse.
void invert(Square& r, const Workers& workers) {
  constexpr std::int64_t kPart = 256;  // columns
  work_on_all(workers, divide_up(r.width, kPart), [&](std::int64_t part) {
    const std::int64_t first = part * kPart, past = std::min(r.width, first + kPart);
    // Column by column of the inverse; the parts of a thread read R on and above their columns
    // only, so the inverse is collected beside it.
    std::vector<double> made(static_cast<std::size_t>(past * (past - first)));
    const auto at = [&](std::int64_t i) { return made.data() + i * (past - first); };
    for (std::int64_t i = past; i-- > 0;) {
      double* out = at(i);
      if (i >= first) out[i - first] = 1;
      const double* of_i = r.row(i);
      for (std::int64_t m = i + 1; m < past; ++m) {
        const double* from = at(m);
        for (std::int64_t c = 0; c < past - first; ++c) out[c] -= of_i[m] * from[c];
      }
      for (std::int64_t c = 0; c < past - first; ++c) out[c] /= of_i[i];
    }
    // The lower triangle is free: the transposed columns are kept there until all parts are made.
    for (std::int64_t c = first; c < past; ++c)
      for (std::int64_t i = 0; i < c; ++i) r.row(c)[i] = at(i)[c - first];
  });
  for (std::int64_t i = 0; i < r.width; ++i) {
    r.row(i)[i] = 1 / r.row(i)[i];
    for (std::int64_t c = i + 1; c < r.width; ++c) r.row(i)[c] = r.row(c)[i];
  }
}

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
    errors_.resize(static_cast<std::size_t>(rows * kColumns));
    for (std::int64_t begin = 0; begin < width_; begin += kColumns) {
      const std::int64_t past = std::min(width_, begin + kColumns);
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
    errors_[static_cast<std::size_t>(row * kColumns + i - begin)] = error;
    for (std::int64_t j = i + 1; j < past; ++j) w[j] -= error * u[static_cast<std::size_t>(j - i)];
  }

  void pass_on(std::span<float> values, std::int64_t rows, std::int64_t begin, std::int64_t past) {
    for (std::int64_t i = begin; i < past; ++i) {
      const std::span<const float> u = factor_.row(i).subspan(static_cast<std::size_t>(past - i));
      for (std::int64_t row = 0; row < rows; ++row) {
        const float error = errors_[static_cast<std::size_t>(row * kColumns + i - begin)];
        float* w = values.data() + row * width_ + past;
        for (std::size_t j = 0; j < u.size(); ++j) w[j] -= error * u[j];
      }
    }
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

InputFactor::InputFactor(std::span<const float> moments, std::int64_t width, const Workers& workers)
    : width_(width) {
  LAMINA_ASSERT(std::ssize(moments) == width * width);
  Square h;
  // More damping makes any matrix of moments positive definite.
  for (double damping = kDamping;; damping *= 10) {
    h = damped(moments, width, damping);
    if (factorise(h, workers)) break;
    LAMINA_ASSERT(damping < 1e6);
  }
  invert(h, workers);
  values_.resize(moments.size());
  importance_.resize(static_cast<std::size_t>(width));
  for (std::int64_t i = 0; i < width; ++i) {
    for (std::int64_t j = i; j < width; ++j)
      values_[static_cast<std::size_t>(i * width + j)] = static_cast<float>(h.row(i)[j]);
    importance_[static_cast<std::size_t>(i)] = static_cast<float>(1 / (h.row(i)[i] * h.row(i)[i]));
  }
}

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
