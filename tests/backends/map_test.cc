// Maps: every instruction compared with double arithmetic; fusion, addressing, threads.
#include "backends/cpu/elementwise/map.h"

#include <bit>
#include <cstring>

#include "support/expect_error.h"
#include "vector_support.h"

namespace lamina::cpu {
namespace {

using Strides = std::initializer_list<std::int64_t>;

TEST(Map, Example) {
  MapProgram p;
  p.dims = {2, 3};
  const int gate = p.input(DType::bf16, {3, 1});
  const int up = p.input(DType::bf16, {3, 1});
  const int act = p.unary(MapOp::silu, gate, DType::bf16);
  p.output(p.binary(MapOp::mul, act, up, DType::bf16), DType::bf16, {3, 1});
  const MapPlan plan(p);
  const auto gate_data = as<bfloat16>({0, 1, 2, 3, 4, 5});
  const auto up_data = as<bfloat16>({1, 1, 1, 2, 2, 2});
  std::vector<bfloat16> y(6);
  plan.run({gate_data.data(), up_data.data()}, {y.data()});
  EXPECT_EQ(to_float(y[1]), 0.73046875f);  // 0.731059 in bf16
  EXPECT_EQ(to_float(y[5]), 9.9375f);      // 2 * (4.9665 in bf16)
}

// --- accuracy of f32 functions ---

std::vector<float> all_magnitudes() {
  std::vector<float> x = {0.0f,    -0.0f,   1.0f,     -1.0f,  INFINITY, -INFINITY, NAN,     1e-45f,
                          -1e-45f, 3.4e38f, -3.4e38f, 88.72f, 88.73f,   -103.9f,   -104.0f, -87.3f};
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += 20011)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  // The range of most values.
  for (float v : normal_floats(100000, 1, 3.0f)) x.push_back(v);
  return x;
}

std::vector<float> run_unary(MapOp op, const std::vector<float>& x, double value = 0) {
  MapProgram p;
  p.dims = {static_cast<std::int64_t>(x.size())};
  const int in = p.input(DType::f32, {1});
  p.output(p.unary(op, in, DType::f32, value), DType::f32, {1});
  std::vector<float> y(x.size());
  MapPlan(p).run({x.data()}, {y.data()});
  return y;
}

template <typename Reference>
void expect_ulps(MapOp op, double limit, const Reference& reference, float largest = INFINITY) {
  const std::vector<float> x = all_magnitudes();
  for_each_isa([&] {
    const std::vector<float> y = run_unary(op, x);
    double worst = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::abs(x[i]) > largest && !std::isinf(x[i])) continue;
      const double error = ulps(y[i], reference(static_cast<double>(x[i])));
      if (error > worst) {
        worst = error;
        at = i;
      }
    }
    EXPECT_LE(worst, limit) << name(op) << "(" << x[at] << ") = " << y[at];
  });
}

double logistic(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

TEST(MapAccuracy, ExpIsWithin2Ulp) {
  expect_ulps(MapOp::exp, 2, [](double x) { return std::exp(x); });
}
TEST(MapAccuracy, LogIsWithin2Ulp) {
  expect_ulps(MapOp::log, 2, [](double x) { return std::log(x); });
}
TEST(MapAccuracy, TanhIsWithin2Ulp) {
  expect_ulps(MapOp::tanh, 2, [](double x) { return std::tanh(x); });
}
TEST(MapAccuracy, ErfIsWithin2Ulp) {
  expect_ulps(MapOp::erf, 2, [](double x) { return std::erf(x); });
}
TEST(MapAccuracy, SinIsWithin1Ulp) {
  expect_ulps(MapOp::sin, 1, [](double x) { return std::sin(x); });
}
TEST(MapAccuracy, CosIsWithin1Ulp) {
  expect_ulps(MapOp::cos, 1, [](double x) { return std::cos(x); });
}
TEST(MapAccuracy, SqrtIsRoundedToNearest) {
  expect_ulps(MapOp::sqrt, 0.5, [](double x) { return std::sqrt(x); });
}
TEST(MapAccuracy, FloorIsExact) {
  expect_ulps(MapOp::floor, 0, [](double x) { return std::floor(x); });
}
TEST(MapAccuracy, RsqrtIsWithin2Ulp) {
  expect_ulps(MapOp::rsqrt, 2, [](double x) { return 1 / std::sqrt(x); });
}
TEST(MapAccuracy, SigmoidIsWithin3Ulp) { expect_ulps(MapOp::sigmoid, 3, logistic); }
TEST(MapAccuracy, SiluIsWithin3Ulp) {
  expect_ulps(
      MapOp::silu, 3, [](double x) { return x * logistic(x); }, 87.0f);
}
TEST(MapAccuracy, SoftplusIsWithin3Ulp) {
  expect_ulps(
      MapOp::softplus, 3,
      [](double x) { return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::abs(x))); }, 1e38f);
}

// Near a zero of these functions only the absolute error is small: the error of the factor 1 + erf.
template <typename Reference>
void expect_relative_to_x(MapOp op, double tolerance, const Reference& reference) {
  std::vector<float> x = normal_floats(50001, 2, 3.0f);
  for (float special : {0.0f, 30.0f, -30.0f, 1e30f, -1e30f, 3e38f, -3e38f}) x.push_back(special);
  for_each_isa([&] {
    const std::vector<float> y = run_unary(op, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = reference(static_cast<double>(x[i]));
      const double scale = std::max(1.0, std::abs(static_cast<double>(x[i])));
      ASSERT_NEAR(y[i], want, tolerance * scale) << name(op) << "(" << x[i] << ")";
    }
  });
}

double cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double inner(double x) { return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }

TEST(MapAccuracy, GeluIsWithin2e7OfItsInput) {
  expect_relative_to_x(MapOp::gelu, 2e-7, [](double x) { return x * cdf(x); });
}
TEST(MapAccuracy, GeluTanhIsWithin2e7OfItsInput) {
  expect_relative_to_x(MapOp::gelu_tanh, 2e-7,
                       [](double x) { return 0.5 * x * (1 + std::tanh(inner(x))); });
}
TEST(Map, SimpleFloatInstructions) {
  const std::vector<float> a = {1.5f, -2, 0, 7, NAN, -7, INFINITY};
  const std::vector<float> b = {2, 3, -4, 2, 1, 2, 1};
  const auto run = [&](MapOp op) {
    MapProgram p;
    p.dims = {7};
    const int x = p.input(DType::f32, {1});
    const int y = p.input(DType::f32, {1});
    p.output(p.binary(op, x, y, DType::f32), DType::f32, {1});
    std::vector<float> r(7);
    MapPlan(p).run({a.data(), b.data()}, {r.data()});
    return r;
  };
  for_each_isa([&] {
    EXPECT_EQ(run(MapOp::add)[0], 3.5f);
    EXPECT_EQ(run(MapOp::sub)[1], -5.0f);
    EXPECT_EQ(run(MapOp::mul)[3], 14.0f);
    EXPECT_EQ(run(MapOp::div)[3], 3.5f);
    EXPECT_EQ(run(MapOp::max)[2], 0.0f);
    EXPECT_EQ(run(MapOp::min)[2], -4.0f);
    EXPECT_TRUE(std::isnan(run(MapOp::max)[4]));
    EXPECT_EQ(run_unary(MapOp::neg, a)[0], -1.5f);
    EXPECT_EQ(run_unary(MapOp::abs, a)[1], 2.0f);
    EXPECT_EQ(run_unary(MapOp::square, a)[1], 4.0f);
    EXPECT_EQ(run_unary(MapOp::relu, a)[1], 0.0f);
    EXPECT_EQ(run_unary(MapOp::add_imm, a, 0.25)[0], 1.75f);
    EXPECT_EQ(run_unary(MapOp::mul_imm, a, -2)[0], -3.0f);
  });
}

// --- rounding and fusion ---

// y = (a * b + c) * tanh(a), as one program or as one program per instruction.
std::vector<bfloat16> chain(DType dtype, bool fused, std::size_t n) {
  const auto a = as<bfloat16>(normal_floats(n, 3));
  const auto b = as<bfloat16>(normal_floats(n, 4));
  const auto c = as<bfloat16>(normal_floats(n, 5));
  const auto size = static_cast<std::int64_t>(n);
  std::vector<bfloat16> y(n);
  if (fused) {
    MapProgram p;
    p.dims = {size};
    const int ra = p.input(DType::bf16, {1}), rb = p.input(DType::bf16, {1}),
              rc = p.input(DType::bf16, {1});
    const int ab = p.binary(MapOp::mul, ra, rb, dtype);
    const int abc = p.binary(MapOp::add, ab, rc, dtype);
    const int t = p.unary(MapOp::tanh, ra, dtype);
    p.output(p.binary(MapOp::mul, abc, t, dtype), DType::bf16, {1});
    MapPlan(p).run({a.data(), b.data(), c.data()}, {y.data()});
    return y;
  }
  const auto apply = [&](MapOp op, const std::vector<bfloat16>& u, const std::vector<bfloat16>& v) {
    MapProgram p;
    p.dims = {size};
    const int ru = p.input(DType::bf16, {1}), rv = p.input(DType::bf16, {1});
    p.output(op == MapOp::tanh ? p.unary(op, ru, DType::bf16) : p.binary(op, ru, rv, DType::bf16),
             DType::bf16, {1});
    std::vector<bfloat16> r(n);
    MapPlan(p).run({u.data(), v.data()}, {r.data()});
    return r;
  };
  const auto abc = apply(MapOp::add, apply(MapOp::mul, a, b), c);
  return apply(MapOp::mul, abc, apply(MapOp::tanh, a, a));
}

bool same_bits(const std::vector<bfloat16>& a, const std::vector<bfloat16>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 2) == 0;
}

TEST(Map, FusingBf16InstructionsChangesNoBits) {
  for_each_isa([] {
    EXPECT_TRUE(same_bits(chain(DType::bf16, true, 5003), chain(DType::bf16, false, 5003)));
    EXPECT_FALSE(same_bits(chain(DType::f32, true, 5003), chain(DType::bf16, false, 5003)));
  });
}

TEST(Map, EveryInstructionSetGivesTheSameBitsForPlainArithmetic) {
  const std::vector<float> a = normal_floats(1001, 6), b = normal_floats(1001, 7);
  std::vector<std::vector<float>> results;
  for_each_isa([&] {
    MapProgram p;
    p.dims = {1001};
    const int x = p.input(DType::f32, {1}), y = p.input(DType::f32, {1});
    p.output(p.binary(MapOp::add, p.binary(MapOp::mul, x, y, DType::f32), x, DType::f32),
             DType::f32, {1});
    results.emplace_back(1001);
    MapPlan(p).run({a.data(), b.data()}, {results.back().data()});
    for (std::size_t i = 0; i < a.size(); ++i) {
      const float product = a[i] * b[i];
      ASSERT_EQ(results.back()[i], product + a[i]);
    }
  });
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST(Map, F16ResultsAreRoundedToF16) {
  MapProgram p;
  p.dims = {3};
  const int x = p.input(DType::f16, {1});
  const int third = p.unary(MapOp::mul_imm, x, DType::f16, 1.0 / 3);
  p.output(third, DType::f32, {1});
  p.output(third, DType::f16, {1});
  const std::vector<float16> in = {to_float16(1), to_float16(2), to_float16(-5)};
  for_each_isa([&] {
    std::vector<float> y(3);
    std::vector<float16> z(3);
    MapPlan(p).run({in.data()}, {y.data(), z.data()});
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(y[i], to_float(to_float16(to_float(in[i]) * (1.0f / 3))));
      EXPECT_EQ(z[i].bits, to_float16(y[i]).bits);
    }
  });
}

TEST(Map, Bf16RoundingMatchesTheScalarOneForAllExponents) {
  std::vector<float> x = all_magnitudes();
  MapProgram p;
  p.dims = {static_cast<std::int64_t>(x.size())};
  p.output(p.input(DType::f32, {1}), DType::bf16, {1});
  for_each_isa([&] {
    std::vector<bfloat16> y(x.size());
    MapPlan(p).run({x.data()}, {y.data()});
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i].bits, to_bfloat16(x[i]).bits) << x[i];
  });
}

// --- addressing ---

// out[i] = a + b over 4 dims with the given strides of b, against loops.
void expect_strided_add(Shape dims, Strides a_strides, Strides b_strides, Strides out_strides,
                        std::size_t elements) {
  const auto a = as<bfloat16>(normal_floats(elements, 8));
  const std::vector<float> b = normal_floats(elements, 9);
  MapProgram p;
  p.dims = dims;
  const int ra = p.input(DType::bf16, a_strides), rb = p.input(DType::f32, b_strides);
  p.output(p.binary(MapOp::add, ra, rb, DType::f32), DType::f32, out_strides);
  std::vector<float> want(elements, -1), got(elements, -1);
  const auto offset = [&](Strides strides, const std::array<std::int64_t, 4>& at) {
    std::int64_t o = 0;
    for (std::size_t d = 0; d < 4; ++d) o += strides.begin()[d] * at[d];
    return static_cast<std::size_t>(o);
  };
  std::array<std::int64_t, 4> at;
  for (at[0] = 0; at[0] < dims[0]; ++at[0])
    for (at[1] = 0; at[1] < dims[1]; ++at[1])
      for (at[2] = 0; at[2] < dims[2]; ++at[2])
        for (at[3] = 0; at[3] < dims[3]; ++at[3])
          want[offset(out_strides, at)] =
              to_float(a[offset(a_strides, at)]) + b[offset(b_strides, at)];
  for_each_isa([&] {
    expect_same_for_any_threads([&] {
      std::fill(got.begin(), got.end(), -1.0f);
      MapPlan(p).run({a.data(), b.data()}, {got.data()});
      return got;
    });
    EXPECT_EQ(got, want);
  });
}

TEST(Map, BroadcastsAndTransposesLikeLoops) {
  expect_strided_add({2, 3, 5, 7}, {105, 35, 7, 1}, {105, 35, 7, 1}, {105, 35, 7, 1}, 210);
  expect_strided_add({2, 3, 5, 7}, {105, 35, 7, 1}, {0, 0, 0, 1}, {105, 35, 7, 1}, 210);
  expect_strided_add({2, 3, 5, 7}, {105, 35, 7, 1}, {0, 1, 0, 0}, {105, 35, 7, 1}, 210);
  expect_strided_add({2, 3, 5, 7}, {105, 35, 7, 1}, {0, 0, 0, 0}, {105, 35, 7, 1}, 210);
  expect_strided_add({2, 3, 5, 7}, {1, 2, 6, 30}, {105, 35, 7, 1}, {105, 35, 7, 1}, 210);
  expect_strided_add({2, 3, 5, 7}, {105, 35, 7, 1}, {105, 35, 7, 1}, {1, 2, 6, 30}, 210);
  expect_strided_add({1, 1, 61, 1500}, {0, 0, 1500, 1}, {0, 0, 0, 1}, {0, 0, 1500, 1}, 91500);
  expect_strided_add({1, 61, 3, 500}, {0, 1500, 500, 1}, {0, 500, 0, 1}, {0, 1500, 500, 1}, 91500);
  expect_strided_add({1, 1, 1500, 61}, {0, 0, 61, 1}, {0, 0, 1, 0}, {0, 0, 61, 1}, 91500);
  expect_strided_add({5, 7, 3, 257}, {771 * 7, 771, 257, 1}, {0, 257, 0, 1},
                     {257, 257 * 15, 257 * 5, 1}, 27000);
  expect_strided_add({1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, 1);
  expect_strided_add({3, 0, 2, 2}, {4, 4, 2, 1}, {4, 4, 2, 1}, {4, 4, 2, 1}, 12);
}

TEST(Map, SizesAroundVectorsAndTiles) {
  for (std::int64_t n : {1, 15, 16, 17, 1023, 1024, 1025, 20011})
    expect_strided_add({1, 1, 1, n}, {n, n, n, 1}, {n, n, n, 1}, {n, n, n, 1},
                       static_cast<std::size_t>(n));
}

TEST(Map, OutputMayBeAnInput) {
  // (x, y) <- (y * 2, x + 1): both results need both old values.
  MapProgram p;
  p.dims = {3001};
  const int x = p.input(DType::f32, {1}), y = p.input(DType::f32, {1});
  const int two_y = p.unary(MapOp::mul_imm, y, DType::f32, 2);
  const int x_one = p.unary(MapOp::add_imm, x, DType::f32, 1);
  p.output(two_y, DType::f32, {1});
  p.output(x_one, DType::f32, {1});
  p.output(x, DType::f32, {1});
  for_each_isa([&] {
    std::vector<float> a(3001, 3.0f), b(3001, 5.0f), old(3001);
    MapPlan(p).run({a.data(), b.data()}, {a.data(), b.data(), old.data()});
    EXPECT_EQ(a, std::vector<float>(3001, 10.0f));
    EXPECT_EQ(b, std::vector<float>(3001, 4.0f));
    EXPECT_EQ(old, std::vector<float>(3001, 3.0f));
  });
}

TEST(Map, DoesNotWriteBehindItsOutput) {
  MapProgram p;
  p.dims = {33};
  p.output(p.unary(MapOp::exp, p.input(DType::f32, {1}), DType::f32), DType::f32, {1});
  const std::vector<float> x(33, 0.0f);
  std::vector<float> y(48, 7.0f);
  MapPlan(p).run({x.data()}, {y.data()});
  EXPECT_EQ(y[32], 1.0f);
  for (std::size_t i = 33; i < 48; ++i) EXPECT_EQ(y[i], 7.0f);
}

// --- f64, integers, bools, casts ---

TEST(Map, F64InstructionsComputeInDouble) {
  MapProgram p;
  p.dims = {101};
  const int x = p.input(DType::f64, {1});
  const int e = p.unary(MapOp::gelu, x, DType::f64);
  p.output(p.binary(MapOp::mul, e, x, DType::f64), DType::f64, {1});
  std::vector<double> in(101), out(101);
  for (std::size_t i = 0; i < 101; ++i) in[i] = 0.1 * (static_cast<double>(i) - 50);
  MapPlan(p).run({in.data()}, {out.data()});
  for (std::size_t i = 0; i < 101; ++i) EXPECT_NEAR(out[i], in[i] * in[i] * cdf(in[i]), 1e-14);
}

// Every floating op exists in f64 and agrees with f32.
TEST(Map, DoubleInstructionsAgreeWithFloatOnes) {
  const std::vector<float> x = {0.1f, 0.5f, 0.9f, 1.5f, 2.0f, 3.25f};
  for (int o = static_cast<int>(MapOp::neg); o <= static_cast<int>(MapOp::mul_imm); ++o) {
    const MapOp op = static_cast<MapOp>(o);
    const std::vector<float> y = run_unary(op, x, 1.75);
    MapProgram p;
    p.dims = {6};
    const int in = p.unary(MapOp::cast, p.input(DType::f32, {1}), DType::f64);
    p.output(p.unary(op, in, DType::f64, 1.75), DType::f64, {1});
    std::vector<double> wide(6);
    MapPlan(p).run({x.data()}, {wide.data()});
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_NEAR(y[i], wide[i], 2e-6 * std::max(1.0, std::abs(wide[i]))) << name(op) << x[i];
  }
}

template <typename T>
std::vector<T> integer_result(MapOp op, DType dtype, const std::vector<T>& a,
                              const std::vector<T>& b) {
  MapProgram p;
  p.dims = {static_cast<std::int64_t>(a.size())};
  const int x = p.input(dtype, {1}), y = p.input(dtype, {1});
  p.output(p.binary(op, x, y, dtype), dtype, {1});
  std::vector<T> r(a.size());
  MapPlan(p).run({a.data(), b.data()}, {r.data()});
  return r;
}

TEST(Map, IntegerDivisionRoundsDownAndSurvivesZero) {
  using V = std::vector<std::int64_t>;
  const V a = {7, -7, 7, -7, 5, INT64_MIN}, b = {2, 2, -2, -2, 0, -1};
  EXPECT_EQ(integer_result(MapOp::floordiv, DType::i64, a, b), (V{3, -4, -4, 3, 0, INT64_MIN}));
}

TEST(Map, IntegersWrap) {
  using V = std::vector<std::int64_t>;
  EXPECT_EQ(integer_result(MapOp::mul, DType::i64, V{INT64_MAX, 3}, V{2, -4}), (V{-2, -12}));
  using I = std::vector<std::int32_t>;
  EXPECT_EQ(integer_result(MapOp::add, DType::i32, I{INT32_MAX}, I{1}), I{INT32_MIN});
  using B = std::vector<std::uint8_t>;
  EXPECT_EQ(integer_result(MapOp::add, DType::u8, B{250, 1}, B{10, 1}), (B{4, 2}));
}

TEST(Map, ComparisonsAndSelect) {
  // y = x < 2 ? x : -1
  MapProgram p;
  p.dims = {5};
  const int x = p.input(DType::f32, {1});
  const int two = p.instruction({.op = MapOp::constant, .dtype = DType::f32, .dst = 0, .value = 2});
  const int minus = p.unary(MapOp::add_imm, two, DType::f32, -3);
  const int less = p.binary(MapOp::lt, x, two, DType::boolean);
  p.output(
      p.instruction({.op = MapOp::select, .dtype = DType::f32, .dst = 0, .src = {less, x, minus}}),
      DType::f32, {1});
  p.output(less, DType::boolean, {1});
  const std::vector<float> in = {1, -3, 2, NAN, 5};
  for_each_isa([&] {
    std::vector<float> y(5);
    std::vector<std::uint8_t> mask(5);
    MapPlan(p).run({in.data()}, {y.data(), mask.data()});
    EXPECT_EQ(y, (std::vector<float>{1, -3, -1, -1, -1}));
    EXPECT_EQ(mask, (std::vector<std::uint8_t>{1, 1, 0, 0, 0}));
  });
}

TEST(Map, ComparisonsInAllKinds) {
  const std::vector<double> a = {1, 2, 3}, b = {2, 2, 2};
  const std::vector<std::pair<MapOp, std::vector<std::uint8_t>>> cases = {{MapOp::lt, {1, 0, 0}},
                                                                          {MapOp::eq, {0, 1, 0}}};
  for_each_isa([&] {
    for (DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64})
      for (const auto& [op, want] : cases) {
        MapProgram p;
        p.dims = {3};
        const int x = p.input(DType::f64, {1}), y = p.input(DType::f64, {1});
        const int u = p.unary(MapOp::cast, x, dtype), v = p.unary(MapOp::cast, y, dtype);
        p.output(p.binary(op, u, v, DType::boolean), DType::boolean, {1});
        std::vector<std::uint8_t> r(3);
        MapPlan(p).run({a.data(), b.data()}, {r.data()});
        EXPECT_EQ(r, want) << name(op) << " " << lamina::name(dtype);
      }
  });
}

TEST(Map, CastsToIntegersTruncateAndSaturate) {
  MapProgram p;
  p.dims = {6};
  const int x = p.input(DType::f32, {1});
  p.output(x, DType::i32, {1});
  p.output(x, DType::i64, {1});
  p.output(x, DType::u8, {1});
  p.output(x, DType::boolean, {1});
  const std::vector<float> in = {1.9f, -1.9f, NAN, 1e20f, -1e20f, 300};
  std::vector<std::int32_t> i32(6);
  std::vector<std::int64_t> i64(6);
  std::vector<std::uint8_t> u8(6), boolean(6);
  MapPlan(p).run({in.data()}, {i32.data(), i64.data(), u8.data(), boolean.data()});
  EXPECT_EQ(i32, (std::vector<std::int32_t>{1, -1, 0, INT32_MAX, INT32_MIN, 300}));
  EXPECT_EQ(i64, (std::vector<std::int64_t>{1, -1, 0, INT64_MAX, INT64_MIN, 300}));
  EXPECT_EQ(u8, (std::vector<std::uint8_t>{1, 0, 0, 255, 0, 255}));
  EXPECT_EQ(boolean, (std::vector<std::uint8_t>{1, 1, 1, 1, 1, 1}));
}

TEST(Map, IotaCountsAlongItsDim) {
  MapProgram p;
  p.dims = {3, 4, 5};
  const auto iota = [&](int dim, DType dtype) {
    return p.instruction({.op = MapOp::iota, .dtype = dtype, .dst = 0, .integer = dim});
  };
  p.output(iota(0, DType::i32), DType::i32, {20, 5, 1});
  p.output(iota(1, DType::f32), DType::f32, {20, 5, 1});
  p.output(iota(2, DType::i64), DType::i64, {20, 5, 1});
  std::vector<std::int32_t> a(60);
  std::vector<float> b(60);
  std::vector<std::int64_t> c(60);
  MapPlan(p).run({}, {a.data(), b.data(), c.data()});
  for (std::size_t i = 0; i < 60; ++i) {
    EXPECT_EQ(a[i], static_cast<std::int32_t>(i / 20));
    EXPECT_EQ(b[i], static_cast<float>(i / 5 % 4));
    EXPECT_EQ(c[i], static_cast<std::int64_t>(i % 5));
  }
}

TEST(Map, RegistersMayBeWrittenAgain) {
  MapProgram p;
  p.dims = {100};
  p.inputs = {{DType::f32, {1}}};
  p.instructions = {{.op = MapOp::add_imm, .dtype = DType::f32, .dst = 5, .src = {0}, .value = 1},
                    {.op = MapOp::mul, .dtype = DType::f32, .dst = 5, .src = {5, 5}},
                    {.op = MapOp::add, .dtype = DType::f32, .dst = 0, .src = {5, 0}}};
  p.outputs = {{0, DType::f32, {1}}};
  const std::vector<float> x(100, 2.0f);
  std::vector<float> y(100);
  MapPlan(p).run({x.data()}, {y.data()});
  EXPECT_EQ(y, std::vector<float>(100, 11.0f));
}

TEST(Map, LongChainsRunInSmallTiles) {
  // 40 values alive at once: x + 1, x + 2, ... summed up from the last.
  MapProgram p;
  p.dims = {777};
  const int x = p.input(DType::f64, {1});
  std::vector<int> values;
  for (int i = 1; i <= 40; ++i) values.push_back(p.unary(MapOp::add_imm, x, DType::f64, i));
  int sum = values.back();
  for (int i = 38; i >= 0; --i)
    sum = p.binary(MapOp::add, sum, values[static_cast<std::size_t>(i)], DType::f64);
  p.output(sum, DType::f64, {1});
  const std::vector<double> in(777, 0.5);
  std::vector<double> out(777);
  MapPlan(p).run({in.data()}, {out.data()});
  EXPECT_EQ(out, std::vector<double>(777, 840.0));
}

TEST(Map, RejectsMixedKinds) {
  MapProgram p;
  p.dims = {4};
  const int a = p.input(DType::f32, {1}), b = p.input(DType::f64, {1});
  p.binary(MapOp::add, a, b, DType::f32);
  EXPECT_ERROR_SAYS(MapPlan{p}, ExitCode::unclassified,
                    "map: instruction 0 (add): operand 1 is f64, the result f32");
}

TEST(Map, RejectsReadingAnUnwrittenRegister) {
  MapProgram p;
  p.dims = {4};
  p.output(3, DType::f32, {1});
  EXPECT_ERROR_SAYS(MapPlan{p}, ExitCode::unclassified, "register 3 is read before it is written");
}

}  // namespace
}  // namespace lamina::cpu
