// Norms against double references, finite differences, and the unfused computation.
#include "backends/cpu/norm/norm.h"

#include <cstring>
#include <functional>

#include "vector_support.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kWidths[] = {1, 15, 16, 17, 63, 64, 65, 130, 1000};
constexpr float kEps = 1e-5f;

RowStrides packed(std::int64_t width) { return {width, 0}; }

using Row = std::vector<double>;

Row rms_reference(const Row& x, const Row& weight, double eps, double offset, bool sum) {
  double squares = 0;
  for (double v : x) squares += v * v;
  const double scale =
      1 / std::sqrt((sum ? squares : squares / static_cast<double>(x.size())) + eps);
  Row y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(x[i] * scale * (offset + weight[i]));
  return y;
}

Row layer_reference(const Row& x, const Row& weight, const Row& bias, double eps, double offset) {
  const double n = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (double v : x) mean += v / n;
  for (double v : x) variance += (v - mean) * (v - mean) / n;
  Row y;
  for (std::size_t i = 0; i < x.size(); ++i)
    y.push_back((x[i] - mean) / std::sqrt(variance + eps) * (offset + weight[i]) + bias[i]);
  return y;
}

// d sum(dy * f(x)) / dx by central differences in double.
Row gradient(const std::function<Row(const Row&)>& f, Row x, const Row& dy) {
  Row result;
  const auto value = [&] {
    const Row y = f(x);
    double total = 0;
    for (std::size_t i = 0; i < y.size(); ++i) total += y[i] * dy[i];
    return total;
  };
  for (double& v : x) {
    const double h = 1e-5, old = v;
    v = old + h;
    const double up = value();
    v = old - h;
    const double down = value();
    v = old;
    result.push_back((up - down) / (2 * h));
  }
  return result;
}

template <typename T>
Row row_of(const std::vector<T>& values, std::int64_t row, std::int64_t width) {
  Row r;
  for (std::int64_t i = 0; i < width; ++i)
    r.push_back(number(values[static_cast<std::size_t>(row * width + i)]));
  return r;
}

template <typename T>
double tolerance() {
  return std::is_same_v<T, bfloat16> ? 1.0 / 200 : 2e-6;
}
template <typename T>
DType dtype_of() {
  return std::is_same_v<T, bfloat16> ? DType::bf16 : DType::f32;
}

template <typename T>
void expect_row_near(const std::vector<T>& got, std::int64_t row, const Row& want, double tol) {
  double scale = 1;
  for (double v : want) scale = std::max(scale, std::abs(v));
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(number(got[static_cast<std::size_t>(row) * want.size() + i]), want[i], tol * scale)
        << "row " << row << " element " << i << " of " << want.size();
}

template <typename T, typename W>
void expect_rms_forward_near_reference(std::int64_t width, float offset, bool sum) {
  const std::int64_t rows = 5;
  const auto n = static_cast<std::size_t>(rows * width);
  const auto x = as<T>(normal_floats(n, 1));
  const auto w = as<W>(normal_floats(static_cast<std::size_t>(width), 2));
  std::vector<T> y(n);
  rms_norm_forward({.dtype = dtype_of<T>(),
                    .size = {rows, 1, width},
                    .x = {x.data(), packed(width)},
                    .y = {y.data(), packed(width)},
                    .weight = w.data(),
                    .weight_dtype = dtype_of<W>(),
                    .eps = kEps,
                    .offset = offset,
                    .sum_of_squares = sum});
  for (std::int64_t r = 0; r < rows; ++r)
    expect_row_near(y, r,
                    rms_reference(row_of(x, r, width), row_of(w, 0, width), kEps, offset, sum),
                    tolerance<T>());
}

TEST(RmsNorm, MatchesDoubleForAllDtypesAndWidths) {
  for_each_isa([] {
    for (std::int64_t width : kWidths) {
      expect_rms_forward_near_reference<float, float>(width, 0, false);
      expect_rms_forward_near_reference<float, bfloat16>(width, 1, false);
      expect_rms_forward_near_reference<bfloat16, float>(width, 1, true);
      expect_rms_forward_near_reference<bfloat16, bfloat16>(width, 0, false);
    }
  });
}

TEST(RmsNorm, WithoutWeightOnlyScales) {
  const std::vector<float> x = {3, 4};
  std::vector<float> y(2);
  rms_norm_forward({.dtype = DType::f32,
                    .size = {1, 1, 2},
                    .x = {x.data(), {2, 0}},
                    .y = {y.data(), {2, 0}},
                    .eps = 0});
  EXPECT_NEAR(y[0], 3 / std::sqrt(12.5), 1e-6);
  EXPECT_NEAR(y[1], 4 / std::sqrt(12.5), 1e-6);
}

template <typename T>
void expect_residual_equals_add_then_norm() {
  const std::int64_t rows = 3, width = 77;
  const auto x = as<T>(normal_floats(231, 3)), r = as<T>(normal_floats(231, 4));
  const std::vector<float> w = normal_floats(77, 5);
  std::vector<T> sum(231), y(231), added(231), want(231);
  RmsNormForward p = {.dtype = dtype_of<T>(),
                      .size = {rows, 1, width},
                      .x = {x.data(), packed(width)},
                      .residual = {r.data(), packed(width)},
                      .sum = {sum.data(), packed(width)},
                      .y = {y.data(), packed(width)},
                      .weight = w.data(),
                      .eps = kEps};
  rms_norm_forward(p);
  for (std::size_t i = 0; i < added.size(); ++i) added[i] = rounded<T>(number(x[i]) + number(r[i]));
  p.x.data = added.data();
  p.residual = {};
  p.sum = {};
  p.y.data = want.data();
  rms_norm_forward(p);
  EXPECT_EQ(std::memcmp(sum.data(), added.data(), sum.size() * sizeof(T)), 0);
  EXPECT_EQ(std::memcmp(y.data(), want.data(), y.size() * sizeof(T)), 0);
}

TEST(RmsNorm, FusedResidualEqualsAddThenNormBitwise) {
  for_each_isa([] {
    expect_residual_equals_add_then_norm<float>();
    expect_residual_equals_add_then_norm<bfloat16>();
  });
}

TEST(RmsNorm, RoundsBeforeTheWeightWhereAsked) {
  const auto x = as<bfloat16>(normal_floats(64, 6)), w = as<bfloat16>(normal_floats(64, 7));
  std::vector<bfloat16> y(64), plain(64);
  RmsNormForward p = {.dtype = DType::bf16,
                      .size = {1, 1, 64},
                      .x = {x.data(), {64, 0}},
                      .y = {plain.data(), {64, 0}},
                      .eps = kEps};
  rms_norm_forward(p);
  p.y.data = y.data();
  p.weight = w.data();
  p.weight_dtype = DType::bf16;
  p.round_before_weight = true;
  for_each_isa([&] {
    rms_norm_forward(p);
    for (std::size_t i = 0; i < 64; ++i)
      EXPECT_EQ(y[i].bits, to_bfloat16(to_float(plain[i]) * to_float(w[i])).bits);
  });
}

TEST(RmsNorm, NormalisesStridedHeads) {
  // q heads inside a fused [tokens, q | k | v] buffer, to a packed result.
  const std::int64_t tokens = 4, heads = 3, width = 20, token_stride = 100;
  const std::vector<float> x = normal_floats(400, 8);
  std::vector<float> y(static_cast<std::size_t>(tokens * heads * width));
  rms_norm_forward({.dtype = DType::f32,
                    .size = {tokens, heads, width},
                    .x = {x.data(), {token_stride, width}},
                    .y = {y.data(), {heads * width, width}},
                    .eps = kEps});
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t h = 0; h < heads; ++h) {
      const float* row = x.data() + t * token_stride + h * width;
      expect_row_near(y, t * heads + h,
                      rms_reference(Row(row, row + width), Row(20, 1.0), kEps, 0, false), 2e-6);
    }
}

struct Gradients {
  std::vector<float> dx, dweight, dbias;
  bool operator==(const Gradients&) const = default;
};

Gradients rms_gradients(const std::vector<float>& x, const std::vector<float>& dy,
                        const std::vector<float>& w, std::int64_t rows, std::int64_t width,
                        float offset, bool sum, const float* dresidual = nullptr) {
  Gradients g = {std::vector<float>(x.size()), std::vector<float>(w.size(), 99.0f), {}};
  const NormSize size = {rows, 1, width};
  std::vector<float> workspace(norm_workspace_bytes(size, 1) / sizeof(float));
  rms_norm_backward({.dtype = DType::f32,
                     .size = size,
                     .x = {x.data(), packed(width)},
                     .dy = {dy.data(), packed(width)},
                     .dresidual = {dresidual, packed(width)},
                     .dx = {g.dx.data(), packed(width)},
                     .weight = w.data(),
                     .dweight = g.dweight.data(),
                     .eps = kEps,
                     .offset = offset,
                     .sum_of_squares = sum,
                     .workspace = workspace.data()});
  return g;
}

TEST(RmsNorm, BackwardMatchesFiniteDifferences) {
  for_each_isa([] {
    for (std::int64_t width : {1, 17, 70})
      for (bool sum : {false, true}) {
        const std::int64_t rows = 3;
        const auto n = static_cast<std::size_t>(rows * width);
        const auto x = normal_floats(n, 9), dy = normal_floats(n, 10);
        const auto w = normal_floats(static_cast<std::size_t>(width), 11);
        const Gradients g = rms_gradients(x, dy, w, rows, width, 1, sum);
        Row dweight(w.size(), 0.0);
        for (std::int64_t r = 0; r < rows; ++r) {
          const Row xr = row_of(x, r, width), dr = row_of(dy, r, width), wr = row_of(w, 0, width);
          expect_row_near(
              g.dx, r,
              gradient([&](const Row& v) { return rms_reference(v, wr, kEps, 1, sum); }, xr, dr),
              1e-5);
          const Row one =
              gradient([&](const Row& v) { return rms_reference(xr, v, kEps, 1, sum); }, wr, dr);
          for (std::size_t i = 0; i < one.size(); ++i) dweight[i] += one[i];
        }
        expect_row_near(g.dweight, 0, dweight, 1e-5);
      }
  });
}

TEST(RmsNorm, BackwardAddsTheResidualGradientBeforeRounding) {
  const auto x = normal_floats(50, 12), dy = normal_floats(50, 13), w = normal_floats(50, 14);
  const auto extra = normal_floats(50, 15);
  const Gradients plain = rms_gradients(x, dy, w, 1, 50, 0, false);
  const Gradients with = rms_gradients(x, dy, w, 1, 50, 0, false, extra.data());
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(with.dx[i], plain.dx[i] + extra[i]);
}

TEST(RmsNorm, SameBitsForAnyNumberOfThreads) {
  const std::int64_t rows = 203, width = 130;
  const auto x = normal_floats(static_cast<std::size_t>(rows * width), 16);
  const auto dy = normal_floats(static_cast<std::size_t>(rows * width), 17);
  const auto w = normal_floats(static_cast<std::size_t>(width), 18);
  for_each_isa([&] {
    expect_same_for_any_threads([&] { return rms_gradients(x, dy, w, rows, width, 0, false); });
  });
}

TEST(RmsNorm, NoRowsGiveNoGradient) {
  const Gradients g = rms_gradients({}, {}, std::vector<float>(8, 1.0f), 0, 8, 0, false);
  EXPECT_EQ(g.dweight, std::vector<float>(8, 0.0f));
}

TEST(LayerNorm, ForwardMatchesDouble) {
  for_each_isa([] {
    for (std::int64_t width : kWidths) {
      const auto n = static_cast<std::size_t>(3 * width);
      std::vector<float> x = normal_floats(n, 19);
      for (float& v : x) v += 10;  // a mean that a one-pass variance would suffer from
      const auto w = normal_floats(static_cast<std::size_t>(width), 20);
      const auto b = normal_floats(static_cast<std::size_t>(width), 21);
      std::vector<float> y(n);
      layer_norm_forward({.dtype = DType::f32,
                          .size = {3, 1, width},
                          .x = {x.data(), packed(width)},
                          .y = {y.data(), packed(width)},
                          .weight = w.data(),
                          .bias = b.data(),
                          .eps = kEps,
                          .offset = 1});
      for (std::int64_t r = 0; r < 3; ++r)
        expect_row_near(
            y, r,
            layer_reference(row_of(x, r, width), row_of(w, 0, width), row_of(b, 0, width), kEps, 1),
            1e-5);
    }
  });
}

TEST(LayerNorm, Bf16MatchesDouble) {
  const auto x = as<bfloat16>(normal_floats(99, 22)), w = as<bfloat16>(normal_floats(33, 23));
  std::vector<bfloat16> y(99);
  layer_norm_forward({.dtype = DType::bf16,
                      .size = {3, 1, 33},
                      .x = {x.data(), packed(33)},
                      .y = {y.data(), packed(33)},
                      .weight = w.data(),
                      .weight_dtype = DType::bf16,
                      .eps = kEps});
  for (std::int64_t r = 0; r < 3; ++r)
    expect_row_near(y, r,
                    layer_reference(row_of(x, r, 33), row_of(w, 0, 33), Row(33, 0.0), kEps, 0),
                    tolerance<bfloat16>());
}

Gradients layer_gradients(const std::vector<float>& x, const std::vector<float>& dy,
                          const std::vector<float>& w, std::int64_t rows, std::int64_t width) {
  Gradients g = {std::vector<float>(x.size()), std::vector<float>(w.size()),
                 std::vector<float>(w.size())};
  const NormSize size = {rows, 1, width};
  std::vector<float> workspace(norm_workspace_bytes(size, 2) / sizeof(float));
  layer_norm_backward({.dtype = DType::f32,
                       .size = size,
                       .x = {x.data(), packed(width)},
                       .dy = {dy.data(), packed(width)},
                       .dx = {g.dx.data(), packed(width)},
                       .weight = w.data(),
                       .dweight = g.dweight.data(),
                       .dbias = g.dbias.data(),
                       .eps = kEps,
                       .offset = 0,
                       .workspace = workspace.data()});
  return g;
}

TEST(LayerNorm, BackwardMatchesFiniteDifferences) {
  for_each_isa([] {
    for (std::int64_t width : {2, 17, 70}) {
      const std::int64_t rows = 3;
      const auto n = static_cast<std::size_t>(rows * width);
      const auto x = normal_floats(n, 24), dy = normal_floats(n, 25);
      const auto w = normal_floats(static_cast<std::size_t>(width), 26);
      const Gradients g = layer_gradients(x, dy, w, rows, width);
      const Row zero(w.size(), 0.0);
      Row dweight = zero, dbias = zero;
      for (std::int64_t r = 0; r < rows; ++r) {
        const Row xr = row_of(x, r, width), dr = row_of(dy, r, width), wr = row_of(w, 0, width);
        // A width of 2 has slopes up to 1/sqrt(eps).
        expect_row_near(
            g.dx, r,
            gradient([&](const Row& v) { return layer_reference(v, wr, zero, kEps, 0); }, xr, dr),
            width == 2 ? 1e-3 : 1e-5);
        const Row one =
            gradient([&](const Row& v) { return layer_reference(xr, v, zero, kEps, 0); }, wr, dr);
        for (std::size_t i = 0; i < one.size(); ++i) {
          dweight[i] += one[i];
          dbias[i] += dr[i];
        }
      }
      expect_row_near(g.dweight, 0, dweight, 1e-5);
      expect_row_near(g.dbias, 0, dbias, 1e-5);
    }
  });
}

TEST(LayerNorm, SameBitsForAnyNumberOfThreads) {
  const auto x = normal_floats(203 * 50, 27), dy = normal_floats(203 * 50, 28);
  const auto w = normal_floats(50, 29);
  expect_same_for_any_threads([&] { return layer_gradients(x, dy, w, 203, 50); });
}

}  // namespace
}  // namespace lamina::cpu
