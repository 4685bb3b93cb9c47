#include "weights/quantise/input_factor.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/round_up.h"
#include "weights/quantise/subtract_product.h"

namespace lamina::weights {
namespace {

// The share of the mean diagonal that is added to the diagonal; the paper uses it.
constexpr double kDamping = 0.01;
constexpr std::int64_t kBlock = 128;  // columns that are factorised together
constexpr std::int64_t kStrip = 64;   // rows that a thread updates together

// A square matrix in double, row-major.
struct Square {
  std::int64_t width;
  std::vector<double> values;
  double* row(std::int64_t i) { return values.data() + i * width; }
  const double* row(std::int64_t i) const { return values.data() + i * width; }
};

// Writes the upper triangle of H with damping. An input without values gets a diagonal of 1.
void fill_damped(Square& out, const SymmetricSums& moments, double damping) {
  double sum = 0;
  for (std::int64_t i = 0; i < out.width; ++i) {
    std::ranges::copy(moments.row(i), out.row(i) + i);
    sum += out.row(i)[i];
  }
  const double more = sum > 0 ? damping * sum / static_cast<double>(out.width) : 1;
  for (std::int64_t i = 0; i < out.width; ++i) {
    double& diagonal = out.row(i)[i];
    diagonal = diagonal > 0 ? diagonal + more : 1;
  }
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

// Factorises the columns [begin, past) within their rows [begin, past). Returns false if they are
// not positive definite.
bool factorise_corner(Square& h, std::int64_t begin, std::int64_t past) {
  for (std::int64_t j = past; j-- > begin;) {
    double* of_j = h.row(j);
    const std::int64_t after = j + 1, count = past - after;
    const double square = of_j[j] - dot(of_j + after, of_j + after, count);
    if (!(square > 0) || !std::isfinite(square)) return false;
    of_j[j] = std::sqrt(square);
    for (std::int64_t i = begin; i < j; ++i) {
      double* of_i = h.row(i);
      of_i[j] = (of_i[j] - dot(of_i + after, of_j + after, count)) / of_j[j];
    }
  }
  return true;
}

// Factorises the columns [begin, past) of the rows above them.
void factorise_above(Square& h, std::int64_t begin, std::int64_t past, const Workers& workers) {
  work_on_all(workers, divide_up(begin, kStrip), [&](std::int64_t strip) {
    const std::int64_t end = std::min(begin, (strip + 1) * kStrip);
    for (std::int64_t i = strip * kStrip; i < end; ++i) {
      double* of_i = h.row(i);
      for (std::int64_t j = past; j-- > begin;) {
        const double* of_j = h.row(j);
        of_i[j] = (of_i[j] - dot(of_i + j + 1, of_j + j + 1, past - j - 1)) / of_j[j];
      }
    }
  });
}

// Replaces the upper triangle of H by the one of R with R R^T = H, a block of columns after the
// other, the last one first. Returns false if H is not positive definite.
bool factorise(Square& h, const Workers& workers) {
  for (std::int64_t past = h.width; past > 0;) {
    const std::int64_t begin = (past - 1) / kBlock * kBlock;
    if (!factorise_corner(h, begin, past)) return false;
    factorise_above(h, begin, past, workers);
    // All columns before them lose the products of these.
    work_on_all(workers, divide_up(begin, kStrip), [&](std::int64_t strip) {
      const std::int64_t top = strip * kStrip;
      subtract_product<double>(std::min(kStrip, begin - top), begin - top, past - begin,
                               {h.row(top) + top, h.width}, {h.row(top) + begin, h.width},
                               {h.row(top) + begin, 1, h.width});
    });
    past = begin;
  }
  return true;
}

// Columns [first, past) of the inverse of R, in rows [0, past).
std::vector<double> inverse_columns(const Square& r, std::int64_t first, std::int64_t past) {
  const std::int64_t columns = past - first;
  std::vector<double> out(static_cast<std::size_t>(past * columns));
  const auto at = [&](std::int64_t i) { return out.data() + i * columns; };
  for (std::int64_t i = first; i < past; ++i) at(i)[i - first] = 1;
  for (std::int64_t end = past; end > 0;) {
    const std::int64_t begin = (end - 1) / kBlock * kBlock;
    subtract_product<double>(end - begin, columns, past - end, {at(begin), columns},
                             {r.row(begin) + end, r.width}, {at(end), columns});
    for (std::int64_t i = end; i-- > begin;) {
      const double* of_i = r.row(i);
      double* to = at(i);
      for (std::int64_t m = i + 1; m < end; ++m)
        for (std::int64_t c = 0; c < columns; ++c) to[c] -= of_i[m] * at(m)[c];
      for (std::int64_t c = 0; c < columns; ++c) to[c] /= of_i[i];
    }
    end = begin;
  }
  return out;
}

}  // namespace

InputFactor::InputFactor(const SymmetricSums& moments, const Workers& workers)
    : width_(moments.width()),
      values_(static_cast<std::size_t>(width_ * width_)),
      importance_(static_cast<std::size_t>(width_)) {
  Square r{width_, std::vector<double>(values_.size())};
  // More damping makes any matrix of moments positive definite.
  for (double damping = kDamping;; damping *= 10) {
    fill_damped(r, moments, damping);
    if (factorise(r, workers)) break;
    LAMINA_ASSERT(damping < 1e6);
  }
  for (std::int64_t i = 0; i < width_; ++i)
    importance_[static_cast<std::size_t>(i)] = static_cast<float>(r.row(i)[i] * r.row(i)[i]);
  // The last columns take longest.
  const std::int64_t parts = divide_up(width_, kBlock);
  work_on_all(workers, parts, [&](std::int64_t part) {
    const std::int64_t first = (parts - 1 - part) * kBlock, past = std::min(width_, first + kBlock);
    const std::vector<double> columns = inverse_columns(r, first, past);
    for (std::int64_t i = 0; i < past; ++i)
      for (std::int64_t c = std::max(i, first); c < past; ++c)
        values_[static_cast<std::size_t>(i * width_ + c)] =
            static_cast<float>(columns[static_cast<std::size_t>(i * (past - first) + c - first)]);
  });
}

}  // namespace lamina::weights
