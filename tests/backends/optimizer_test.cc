// Optimizer steps against the recipes in double, sums and checks against loops.
#include "backends/cpu/optimizer/optimizer.h"

#include "vector_support.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kSizes[] = {0, 1, 15, 16, 17, 1000, 40001};

struct State {
  std::vector<float> p, m, v;
  std::vector<std::uint16_t> copy;
  bool operator==(const State&) const = default;
};

State run_adamw(std::int64_t n, int steps) {
  const auto size = static_cast<std::size_t>(n);
  State s = {normal_floats(size, 1), std::vector<float>(size), std::vector<float>(size), {}};
  std::vector<bfloat16> copy(size);
  for (int t = 1; t <= steps; ++t) {
    const std::vector<float> g = normal_floats(size, 10 + static_cast<unsigned>(t), 0.1f);
    adamw_step({.p = s.p.data(),
                .g = g.data(),
                .m = s.m.data(),
                .v = s.v.data(),
                .p_bf16 = copy.data(),
                .n = n,
                .lr = 0.01,
                .beta1 = 0.9,
                .beta2 = 0.95,
                .eps = 1e-8,
                .weight_decay = 0.1,
                .step = t,
                .grad_scale = 0.5f});
  }
  for (bfloat16 x : copy) s.copy.push_back(x.bits);
  return s;
}

TEST(AdamW, FollowsTheRecipe) {
  for_each_isa([] {
    for (std::int64_t n : kSizes) {
      const State s = run_adamw(n, 3);
      const std::vector<float> start = normal_floats(static_cast<std::size_t>(n), 1);
      std::vector<std::vector<float>> g;
      for (unsigned t = 1; t <= 3; ++t)
        g.push_back(normal_floats(static_cast<std::size_t>(n), 10 + t, 0.1f));
      for (std::size_t i = 0; i < start.size(); ++i) {
        double p = number(start[i]), m = 0, v = 0;
        for (int t = 1; t <= 3; ++t) {
          const double gradient = 0.5 * number(g[static_cast<std::size_t>(t - 1)][i]);
          p -= 0.01 * 0.1 * p;
          m = 0.9 * m + 0.1 * gradient;
          v = 0.95 * v + 0.05 * gradient * gradient;
          p -= 0.01 / (1 - std::pow(0.9, t)) * m /
               (std::sqrt(v) / std::sqrt(1 - std::pow(0.95, t)) + 1e-8);
        }
        ASSERT_NEAR(s.p[i], p, 1e-6);
        ASSERT_NEAR(s.m[i], m, 1e-7);
        ASSERT_NEAR(s.v[i], v, 1e-8);
        ASSERT_EQ(s.copy[i], to_bfloat16(s.p[i]).bits);
      }
    }
  });
}

TEST(AdamW, SameBitsForAnyNumberOfThreads) {
  for_each_isa([] { expect_same_for_any_threads([] { return run_adamw(100003, 2); }); });
}

// A table of `rows` whose gradient is that of the rows `ids`, in one step as a list or whole.
State run_rows(std::int64_t rows, std::int64_t width, const std::vector<std::int32_t>& ids,
               bool listed, bool lazy = false) {
  const auto size = static_cast<std::size_t>(rows * width);
  const auto row = static_cast<std::size_t>(width);
  State s = {normal_floats(size, 1), normal_floats(size, 2), normal_floats(size, 3), {}};
  for (float& v : s.v) v *= v;
  std::vector<bfloat16> copy(size);
  const std::vector<float> list = normal_floats(ids.size() * row, 4, 0.1f);
  std::vector<float> whole(size);
  for (std::size_t k = 0; k < ids.size(); ++k)
    if (ids[k] < rows)
      std::copy_n(list.begin() + static_cast<std::ptrdiff_t>(k * row), width,
                  whole.begin() + static_cast<std::ptrdiff_t>(ids[k]) * width);
  const AdamW step = {.p = s.p.data(),
                      .g = listed ? list.data() : whole.data(),
                      .m = s.m.data(),
                      .v = s.v.data(),
                      .p_bf16 = copy.data(),
                      .n = rows * width,
                      .lr = 0.01,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .eps = 1e-8,
                      .weight_decay = 0.1,
                      .step = 3,
                      .grad_scale = 0.5f};
  if (listed)
    adamw_rows_step({.table = step,
                     .ids = ids.data(),
                     .slots = static_cast<std::int64_t>(ids.size()),
                     .width = width,
                     .lazy = lazy});
  else
    adamw_step(step);
  for (bfloat16 x : copy) s.copy.push_back(x.bits);
  return s;
}

TEST(AdamWRows, HaveTheBitsOfTheWholeGradient) {
  for_each_isa([] {
    for (std::int64_t width : {1, 5, 16, 33, 500})
      for (const std::vector<std::int32_t>& ids :
           {std::vector<std::int32_t>{}, {0}, {299}, {0, 1, 17, 298, 299, 300, 300}, {300}}) {
        EXPECT_EQ(run_rows(300, width, ids, true), run_rows(300, width, ids, false));
        expect_same_for_any_threads([&] { return run_rows(300, width, ids, true); });
      }
  });
}

TEST(AdamWRows, LazyOnesTouchNothingElse) {
  for_each_isa([] {
    constexpr std::int64_t kWidth = 37;
    const std::vector<std::int32_t> ids = {2, 17, 18, 300};
    const State lazy = run_rows(300, kWidth, ids, true, true),
                all = run_rows(300, kWidth, ids, true);
    const std::vector<float> start = normal_floats(std::size_t{300} * kWidth, 1);
    for (std::int64_t i = 0; i < 300 * kWidth; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const bool listed = i / kWidth == 2 || i / kWidth == 17 || i / kWidth == 18;
      ASSERT_EQ(lazy.p[at], listed ? all.p[at] : start[at]);
      ASSERT_EQ(lazy.copy[at], listed ? all.copy[at] : 0);
      if (listed) {
        ASSERT_EQ(lazy.m[at], all.m[at]);
      }
    }
    expect_same_for_any_threads([&] { return run_rows(300, kWidth, ids, true, true); });
  });
}

TEST(AdamW, ZeroGradientOnlyDecays) {
  std::vector<float> p(20, 2.0f), g(20, 0.0f), m(20, 0.0f), v(20, 0.0f);
  adamw_step({.p = p.data(),
              .g = g.data(),
              .m = m.data(),
              .v = v.data(),
              .n = 20,
              .lr = 0.5,
              .beta1 = 0.9,
              .beta2 = 0.999,
              .eps = 1e-8,
              .weight_decay = 0.5,
              .step = 1});
  EXPECT_EQ(p, std::vector<float>(20, 1.5f));
}

TEST(Sgd, FollowsTheRecipeWithAndWithoutNesterov) {
  for_each_isa([] {
    for (bool nesterov : {false, true}) {
      std::vector<float> p(19, 1.0f), m(19, 0.0f);
      const std::vector<float> g(19, 4.0f);
      double want = 1, buffer = 0;
      for (int t = 0; t < 3; ++t) {
        sgd_step({.p = p.data(),
                  .g = g.data(),
                  .m = m.data(),
                  .n = 19,
                  .lr = 0.1,
                  .momentum = 0.9,
                  .weight_decay = 0.01,
                  .nesterov = nesterov,
                  .grad_scale = 0.5f});
        const double gradient = 2 + 0.01 * want;
        buffer = 0.9 * buffer + gradient;
        want -= 0.1 * (nesterov ? gradient + 0.9 * buffer : buffer);
      }
      for (float value : p) EXPECT_NEAR(value, want, 1e-6);
    }
  });
}

TEST(Sgd, NeedsNoBufferWithoutMomentum) {
  std::vector<float> p = {1, 2};
  const std::vector<float> g = {1, -1};
  sgd_step({.p = p.data(), .g = g.data(), .n = 2, .lr = 0.5});
  EXPECT_EQ(p, (std::vector<float>{0.5f, 2.5f}));
}

TEST(SumOfSquares, MatchesDoubleAndIsTheSameForAnyThreads) {
  for_each_isa([] {
    for (std::int64_t n : {0, 1, 17, 16384, 16385, 300007}) {
      const std::vector<float> x = normal_floats(static_cast<std::size_t>(n), 2);
      double want = 0;
      for (float v : x) want += number(v) * number(v);
      expect_same_for_any_threads([&] { return sum_of_squares(x.data(), n); });
      EXPECT_NEAR(sum_of_squares(x.data(), n), want, 1e-11 * want);
    }
  });
}

TEST(SumOfSquares, DoesNotOverflowInF32) {
  const std::vector<float> x(4, 3e38f);
  EXPECT_NEAR(sum_of_squares(x.data(), 4) / (4 * number(3e38f) * number(3e38f)), 1, 1e-12);
}

TEST(FirstNonFinite, FindsTheFirstInEveryPosition) {
  for_each_isa([] {
    for (std::size_t at :
         {std::size_t{0}, std::size_t{15}, std::size_t{16}, std::size_t{20000}, std::size_t{49999}})
      for (float bad : {INFINITY, -INFINITY, NAN}) {
        std::vector<float> x(50000, 3e38f);
        EXPECT_EQ(first_non_finite(x.data(), DType::f32, 50000), -1);
        x[at] = bad;
        x.back() = NAN;
        EXPECT_EQ(first_non_finite(x.data(), DType::f32, 50000), static_cast<std::int64_t>(at));
        EXPECT_EQ(first_non_finite(as<bfloat16>(std::vector<float>{1, bad}).data(), DType::bf16, 2),
                  1);
      }
  });
}

TEST(AddScaled, AddsF32AndBf16) {
  for_each_isa([] {
    for (std::int64_t n : kSizes) {
      const auto size = static_cast<std::size_t>(n);
      const std::vector<float> x = normal_floats(size, 3), start = normal_floats(size, 4);
      const auto half = as<bfloat16>(x);
      std::vector<float> y = start, z = start;
      add_scaled(y.data(), x.data(), DType::f32, 0.25f,
                 n);  // exact product: one rounding either way
      add_scaled(z.data(), half.data(), DType::bf16, 0.25f, n);
      for (std::size_t i = 0; i < size; ++i) {
        ASSERT_EQ(y[i], start[i] + 0.25f * x[i]);
        ASSERT_EQ(z[i], start[i] + 0.25f * to_float(half[i]));
      }
    }
  });
}

TEST(FillAndScale, TouchExactlyTheirRange) {
  for_each_isa([] {
    std::vector<float> x(300, 1.0f);
    fill(x.data() + 1, 2.0f, 298);
    scale_in_place(x.data() + 2, 3.0f, 296);
    EXPECT_EQ(x[0], 1.0f);
    EXPECT_EQ(x[1], 2.0f);
    EXPECT_EQ(x[2], 6.0f);
    EXPECT_EQ(x[297], 6.0f);
    EXPECT_EQ(x[298], 2.0f);
    EXPECT_EQ(x[299], 1.0f);
  });
}

}  // namespace
}  // namespace lamina::cpu
