// Softmax and log-softmax against doubles.
#include "backends/cpu/softmax/softmax.h"

#include "vector_support.h"

namespace lamina::cpu {
namespace {

template <typename T>
DType dtype_of() {
  return std::is_same_v<T, bfloat16> ? DType::bf16 : DType::f32;
}

template <typename T>
std::vector<T> forward(const std::vector<T>& x, std::int64_t rows, std::int64_t width, bool log) {
  std::vector<T> y(x.size());
  softmax_forward({.dtype = dtype_of<T>(),
                   .num_rows = rows,
                   .width = width,
                   .x = x.data(),
                   .x_stride = width,
                   .y = y.data(),
                   .y_stride = width,
                   .log = log});
  return y;
}

template <typename T>
void expect_forward_and_backward(std::int64_t width, bool log, double tolerance) {
  const std::int64_t rows = 4;
  const auto n = static_cast<std::size_t>(rows * width);
  const auto x = as<T>(normal_floats(n, 1, 5.0f)), dy = as<T>(normal_floats(n, 2));
  const auto y = forward(x, rows, width, log);
  std::vector<T> dx(n);
  softmax_backward({.dtype = dtype_of<T>(),
                    .num_rows = rows,
                    .width = width,
                    .y = y.data(),
                    .y_stride = width,
                    .dy = dy.data(),
                    .dy_stride = width,
                    .dx = dx.data(),
                    .dx_stride = width,
                    .log = log});
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(r * width + i); };
    double total = 0, dot = 0;
    for (std::int64_t i = 0; i < width; ++i) total += std::exp(number(x[at(i)]));
    const auto probability = [&](std::int64_t i) { return std::exp(number(x[at(i)])) / total; };
    for (std::int64_t i = 0; i < width; ++i) dot += number(dy[at(i)]) * (log ? 1 : probability(i));
    for (std::int64_t i = 0; i < width; ++i) {
      const double want = log ? std::log(probability(i)) : probability(i);
      ASSERT_NEAR(number(y[at(i)]), want, tolerance * std::max(1.0, std::abs(want)));
      const double slope = log ? number(dy[at(i)]) - probability(i) * dot
                               : probability(i) * (number(dy[at(i)]) - dot);
      ASSERT_NEAR(number(dx[at(i)]), slope, 4 * tolerance * std::max(1.0, std::abs(dot)));
    }
  }
}

TEST(Softmax, MatchesDoublesForwardAndBackward) {
  for_each_isa([] {
    for (std::int64_t width : {1, 15, 16, 17, 33, 257})
      for (bool log : {false, true}) {
        expect_forward_and_backward<float>(width, log, 2e-6);
        expect_forward_and_backward<bfloat16>(width, log, 1.0 / 128);
      }
  });
}

TEST(Softmax, RowOfMinusInfinitiesGivesZeros) {
  for_each_isa([] {
    const std::vector<float> x(20, -INFINITY);
    EXPECT_EQ(forward(x, 1, 20, false), std::vector<float>(20, 0.0f));
    EXPECT_EQ(forward(x, 1, 20, true), x);
  });
}

TEST(Softmax, LargeInputsDoNotOverflow) {
  const std::vector<float> y = forward<float>({1e30f, -1e30f, 1e30f}, 1, 3, false);
  EXPECT_EQ(y, (std::vector<float>{0.5f, 0, 0.5f}));
}

TEST(Softmax, SameBitsForAnyNumberOfThreadsAndInPlace) {
  const std::vector<float> x = normal_floats(500 * 33, 3);
  expect_same_for_any_threads([&] { return forward(x, 500, 33, false); });
  std::vector<float> y = x;
  softmax_forward({.dtype = DType::f32,
                   .num_rows = 500,
                   .width = 33,
                   .x = y.data(),
                   .x_stride = 33,
                   .y = y.data(),
                   .y_stride = 33});
  EXPECT_EQ(y, forward(x, 500, 33, false));
}

}  // namespace
}  // namespace lamina::cpu
