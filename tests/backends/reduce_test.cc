// Reductions over any dims, compared with loops in double.
#include "backends/cpu/reduce/reduce.h"

#include <cstring>

#include "vector_support.h"

namespace lamina::cpu {
namespace {

template <typename T>
DType dtype_of() {
  if constexpr (std::is_same_v<T, bfloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else
    return DType::i64;
}

template <typename T, typename Y>
std::vector<Y> run(ReduceOp op, const std::vector<T>& x, Shape dims,
                   std::array<std::int64_t, kMaxDims> strides, std::array<bool, kMaxDims> reduced,
                   double scale = 1) {
  std::int64_t outputs = 1;
  for (int d = 0; d < dims.ndim(); ++d)
    if (!reduced[static_cast<std::size_t>(d)]) outputs *= dims[d];
  std::vector<Y> y(static_cast<std::size_t>(outputs));
  Reduce r = {.op = op,
              .dtype = dtype_of<T>(),
              .dims = dims,
              .strides = strides,
              .reduced = reduced,
              .x = x.data(),
              .y = y.data(),
              .y_dtype = dtype_of<Y>(),
              .scale = scale};
  std::vector<std::byte> workspace(reduce_workspace_bytes(r));
  r.workspace = workspace.data();
  reduce(r);
  return y;
}

// Three dims with the given sizes and strides, all eight choices of reduced dims, both ops.
template <typename T, typename Y>
void expect_matches_loops(std::array<std::int64_t, 3> n, std::array<std::int64_t, 3> strides,
                          std::size_t elements, double tolerance) {
  const auto x = as<T>(normal_floats(elements, 1, 10.0f));
  for (unsigned mask = 0; mask < 8; ++mask)
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
      std::array<bool, kMaxDims> reduced = {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0};
      std::vector<double> want, magnitude;
      std::array<std::int64_t, 3> keep;
      for (std::size_t d = 0; d < 3; ++d) keep[d] = reduced[d] ? 1 : n[d];
      for (std::int64_t a = 0; a < keep[0]; ++a)
        for (std::int64_t b = 0; b < keep[1]; ++b)
          for (std::int64_t c = 0; c < keep[2]; ++c) {
            double total = op == ReduceOp::sum ? 0 : -INFINITY, size = 0;
            for (std::int64_t i = a; i < (reduced[0] ? n[0] : a + 1); ++i)
              for (std::int64_t j = b; j < (reduced[1] ? n[1] : b + 1); ++j)
                for (std::int64_t k = c; k < (reduced[2] ? n[2] : c + 1); ++k) {
                  const double v = static_cast<double>(number(x[static_cast<std::size_t>(
                      i * strides[0] + j * strides[1] + k * strides[2])]));
                  total = op == ReduceOp::sum ? total + v : std::max(total, v);
                  size += std::abs(v);
                }
            want.push_back(total);
            magnitude.push_back(size);
          }
      const std::array<std::int64_t, kMaxDims> all = {strides[0], strides[1], strides[2]};
      const auto got = run<T, Y>(op, x, {n[0], n[1], n[2]}, all, reduced);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(static_cast<double>(got[i]), want[i],
                    op == ReduceOp::max ? 0 : tolerance * magnitude[i])
            << "mask " << mask << " output " << i;
      expect_same_for_any_threads([&] {
        return run<T, Y>(op, x, {n[0], n[1], n[2]}, all, reduced);
      });
    }
}

TEST(Reduce, SumsAndMaximaOverAllChoicesOfDims) {
  for_each_isa([] {
    expect_matches_loops<float, float>({3, 5, 17}, {85, 17, 1}, 255, 3e-7);
    expect_matches_loops<bfloat16, float>({7, 64, 33}, {2112, 33, 1}, 14784, 3e-7);
    expect_matches_loops<float, float>({700, 2, 67}, {134, 67, 1}, 93800, 3e-7);
    expect_matches_loops<float, float>({2, 1, 40000}, {40000, 40000, 1}, 80000, 3e-7);
    expect_matches_loops<float, float>({3, 5, 17}, {1, 3, 15}, 255, 3e-7);          // transposed
    expect_matches_loops<float, float>({2, 3, 1100}, {4000, 1200, 1}, 8000, 3e-7);  // with gaps
    expect_matches_loops<float, double>({1, 1, 1}, {1, 1, 1}, 1, 3e-7);
  });
}

TEST(Reduce, DoublesAndIntegersAreExact) {
  expect_matches_loops<double, double>({3, 70, 33}, {2310, 33, 1}, 6930, 1e-15);
  const std::vector<std::int32_t> x = {INT32_MAX, 1, -5, INT32_MAX, 2, 9};
  EXPECT_EQ((run<std::int32_t, std::int64_t>(ReduceOp::sum, x, {2, 3}, {3, 1}, {true, false})),
            (std::vector<std::int64_t>{2LL * INT32_MAX, 3, 4}));
  EXPECT_EQ((run<std::int32_t, std::int32_t>(ReduceOp::max, x, {2, 3}, {3, 1}, {false, true})),
            (std::vector<std::int32_t>{INT32_MAX, INT32_MAX}));
}

TEST(Reduce, LongSumsOfF32LoseNothing) {
  const std::vector<float> x(3000001, 0.1f);
  for_each_isa([&] {
    const auto rows = run<float, float>(ReduceOp::sum, x, {3000000, 1}, {1, 1}, {true, true});
    EXPECT_NEAR(rows[0] / (3e6 * number(0.1f)), 1, 1e-6);
    const auto columns = run<float, float>(ReduceOp::sum, x, {1000000, 3}, {3, 1}, {true, false});
    EXPECT_NEAR(columns[0] / (1e6 * number(0.1f)), 1, 1e-6);
  });
}

TEST(Reduce, ScaleMakesAMean) {
  const auto y =
      run<float, bfloat16>(ReduceOp::sum, std::vector<float>{1, 2, 3, 6}, {4}, {1}, {true}, 0.25);
  EXPECT_EQ(to_float(y[0]), 3.0f);
}

TEST(Reduce, NothingSumsToZero) {
  const std::vector<float> none(1);
  EXPECT_EQ((run<float, float>(ReduceOp::sum, none, {3, 0}, {1, 1}, {false, true})),
            (std::vector<float>{0, 0, 0}));
  EXPECT_EQ((run<float, float>(ReduceOp::max, none, {0}, {1}, {true})),
            (std::vector<float>{-INFINITY}));
  EXPECT_TRUE((run<float, float>(ReduceOp::sum, none, {0, 3}, {3, 1}, {false, true}).empty()));
}

TEST(Reduce, MaxOfNanIsNan) {
  for_each_isa([] {
    for (std::size_t at : {std::size_t{0}, std::size_t{20}, std::size_t{99}}) {
      std::vector<float> x(100, 1.0f);
      x[at] = NAN;
      EXPECT_TRUE(std::isnan(run<float, float>(ReduceOp::max, x, {100}, {1}, {true})[0]));
      EXPECT_TRUE(std::isnan(
          run<float, float>(ReduceOp::max, x, {5, 20}, {20, 1}, {true, false})[at % 20]));
    }
  });
}

}  // namespace
}  // namespace lamina::cpu
