// Optimizer steps are bit-equal for every division of the work, and sums of squares are exact.
// tests/ops tests the values of a step.
#include "backends/cpu/optimizer/optimizer.h"

#include "vector_support.h"

namespace lamina::cpu {
namespace {

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

TEST(AdamW, SameBitsForAnyNumberOfThreads) {
  for_each_isa([] { expect_same_for_any_threads([] { return run_adamw(100003, 2); }); });
}

// One step on a table of `rows` whose gradient has only the rows `ids`, as a list or whole.
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

}  // namespace
}  // namespace lamina::cpu
