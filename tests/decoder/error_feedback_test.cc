// Rounding with error feedback, against its definition and against rounding to nearest.
#include "weights/quantise/error_feedback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "formats/encode.h"
#include "formats/lookup.h"
#include "support/expect_error.h"
#include "weights/quantise/budget.h"

namespace lamina::weights {
namespace {

using Values = std::vector<float>;

// Inputs with few directions and noise, as activations have them; [count, width].
Values inputs(std::int64_t count, std::int64_t width, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  constexpr std::int64_t kDirections = 6;
  Values directions(static_cast<std::size_t>(kDirections * width));
  for (float& v : directions) v = normal(random);
  Values out;
  for (std::int64_t row = 0; row < count; ++row) {
    float amounts[kDirections];
    for (float& a : amounts) a = normal(random);
    for (std::int64_t i = 0; i < width; ++i) {
      float v = .3f * normal(random);
      for (std::int64_t d = 0; d < kDirections; ++d)
        v += amounts[d] * directions[static_cast<std::size_t>(d * width + i)];
      out.push_back(v);
    }
  }
  return out;
}

Values moments_of(const Values& x, std::int64_t width) {
  const auto w = static_cast<std::size_t>(width);
  std::vector<double> sums(w * w);
  for (std::size_t row = 0; row < x.size(); row += w)
    for (std::size_t i = 0; i < w; ++i)
      for (std::size_t j = 0; j < w; ++j)
        sums[i * w + j] += static_cast<double>(x[row + i]) * static_cast<double>(x[row + j]);
  return {sums.begin(), sums.end()};
}

Values weights_of(std::int64_t rows, std::int64_t width) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, .02f);
  Values out(static_cast<std::size_t>(rows * width));
  for (float& v : out) v = normal(random);
  return out;
}

RowSource source_of(const Values& values) {
  return [&values](std::int64_t first, std::span<float> out) {
    std::copy_n(values.begin() + first, out.size(), out.begin());
  };
}

struct Matrix {
  const formats::BlockFormat& format;
  std::int64_t rows, width;
  Values values = weights_of(rows, width);

  RowsToEncode rows_to_encode() const { return {"w", &format, rows, width}; }
  std::vector<std::byte> room() const {
    return std::vector<std::byte>(static_cast<std::size_t>(format.bytes_of(rows * width)));
  }
  std::vector<std::byte> nearest() const {
    std::vector<std::byte> out = room();
    encode_rows(rows_to_encode(), "test", source_of(values), {}, out.data());
    return out;
  }
  std::vector<std::byte> with_feedback(const InputFactor& factor,
                                       const Workers& workers = {}) const {
    std::vector<std::byte> out = room();
    encode_rows_with_feedback(rows_to_encode(), "test", source_of(values), factor, workers,
                              out.data());
    return out;
  }
  // The sum of squares of the change of all outputs.
  double output_error(const std::vector<std::byte>& blocks, const Values& x) const {
    Values widened(values.size());
    for (std::size_t i = 0; i < widened.size(); i += static_cast<std::size_t>(format.num_values))
      format.widen(blocks.data() + format.bytes_of(static_cast<std::int64_t>(i)),
                   widened.data() + i);
    const auto w = static_cast<std::size_t>(width);
    double sum = 0;
    for (std::size_t row = 0; row < values.size(); row += w)
      for (std::size_t at = 0; at < x.size(); at += w) {
        double change = 0;
        for (std::size_t i = 0; i < w; ++i)
          change += static_cast<double>(x[at + i]) *
                    static_cast<double>(widened[row + i] - values[row + i]);
        sum += change * change;
      }
    return sum;
  }
};

const formats::BlockFormat& format(const char* name) { return *formats::block_format_named(name); }

Workers two_threads() {
  return [](std::int64_t count, const std::function<void(std::int64_t)>& work) {
    std::thread other([&] {
      for (std::int64_t i = 1; i < count; i += 2) work(i);
    });
    for (std::int64_t i = 0; i < count; i += 2) work(i);
    other.join();
  };
}

TEST(InputFactor, SquaredIsTheInverseOfTheDampedMoments) {
  constexpr std::int64_t kWidth = 70;
  const Values h = moments_of(inputs(300, kWidth, 1), kWidth);
  const InputFactor factor(h, kWidth);
  double mean = 0;
  for (std::int64_t i = 0; i < kWidth; ++i)
    mean += static_cast<double>(h[static_cast<std::size_t>(i * (kWidth + 1))]) / kWidth;
  for (std::int64_t i = 0; i < kWidth; ++i)
    for (std::int64_t j = 0; j < kWidth; ++j) {
      // (U^T U H)_ij
      double got = 0;
      for (std::int64_t m = 0; m < kWidth; ++m) {
        double inverse = 0;
        for (std::int64_t n = 0; n <= std::min(i, m); ++n)
          inverse += static_cast<double>(factor.row(n)[static_cast<std::size_t>(i - n)]) *
                     static_cast<double>(factor.row(n)[static_cast<std::size_t>(m - n)]);
        double damped = h[static_cast<std::size_t>(m * kWidth + j)];
        if (m == j) damped += .01 * mean;
        got += inverse * damped;
      }
      ASSERT_NEAR(got, i == j ? 1 : 0, 2e-3) << i << ' ' << j;
    }
}

TEST(ErrorFeedback, OutputsChangeLessThanWithNearestNumbers) {
  constexpr std::int64_t kWidth = 256;
  const Values x = inputs(400, kWidth, 2);
  const InputFactor factor(moments_of(x, kWidth), kWidth);
  for (const char* name : {"INT4_32", "INT4_128", "MXFP4", "INT8_128"}) {
    const Matrix m{format(name), 24, kWidth};
    EXPECT_LT(m.output_error(m.with_feedback(factor), x), .5 * m.output_error(m.nearest(), x))
        << name;
  }
}

TEST(ErrorFeedback, ARowDependsOnItselfAlone) {
  constexpr std::int64_t kWidth = 192;
  const InputFactor factor(moments_of(inputs(100, kWidth, 3), kWidth), kWidth);
  const Matrix all{format("INT4_64"), 37, kWidth};
  const std::vector<std::byte> want = all.with_feedback(factor);
  EXPECT_EQ(all.with_feedback(factor, two_threads()), want);
  Matrix last{format("INT4_64"), 1, kWidth};
  last.values.assign(all.values.end() - kWidth, all.values.end());
  const std::vector<std::byte> got = last.with_feedback(factor);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), want.end() - std::ssize(got)));
}

TEST(InputFactor, DoesNotDependOnThreads) {
  const Values h = moments_of(inputs(400, 300, 4), 300);
  const InputFactor one(h, 300), two(h, 300, two_threads());
  for (std::int64_t i = 0; i < 300; ++i)
    EXPECT_TRUE(std::ranges::equal(one.row(i), two.row(i))) << i;
}

// Inputs that are always 0, fewer inputs than columns, and a single one.
TEST(ErrorFeedback, PoorMomentsGiveFiniteBlocks) {
  constexpr std::int64_t kWidth = 64;
  Values x = inputs(5, kWidth, 5);
  for (std::size_t i = 0; i < x.size(); i += kWidth)
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(i), 20, 0.f);
  const Matrix m{format("INT4_32"), 8, kWidth};
  for (const Values& some : {x, Values(x.begin(), x.begin() + kWidth), Values(kWidth)}) {
    const InputFactor factor(moments_of(some, kWidth), kWidth);
    const double error = m.output_error(m.with_feedback(factor), x);
    EXPECT_TRUE(std::isfinite(error));
    EXPECT_LT(error, 4 * m.output_error(m.nearest(), x));
  }
}

TEST(ErrorFeedback, ValuesThatAreNotFiniteAreRefused) {
  const InputFactor factor(moments_of(inputs(10, 32, 6), 32), 32);
  Matrix m{format("INT4_32"), 3, 32};
  m.values[70] = NAN;
  EXPECT_ERROR_SAYS(m.with_feedback(factor), ExitCode::checkpoint,
                    "'w' has values in row 2 that are not finite");
}

TEST(RoundingError, IsRelativeAndWeightedByTheInputs) {
  const Matrix m{format("INT4_32"), 20, 64};
  const auto error = [&](std::span<const float> importance, const Workers& workers = {}) {
    return rounding_error(m.rows_to_encode(), "test", source_of(m.values), importance, workers);
  };
  const double plain = error({});
  EXPECT_GT(plain, 1e-3);
  EXPECT_LT(plain, 1e-2);  // 4 bits: about 8 % of each value
  EXPECT_EQ(error({}, two_threads()), plain);
  EXPECT_NEAR(error(Values(64, 3.f)), plain, 1e-9);
  EXPECT_NE(error([&] {
              Values v(64);
              v[5] = 1;
              return v;
            }()),
            plain);
  const Matrix zeros{format("INT4_32"), 2, 32, Values(64)};
  EXPECT_EQ(rounding_error(zeros.rows_to_encode(), "test", source_of(zeros.values), {}, {}), 0);
}

}  // namespace
}  // namespace lamina::weights
