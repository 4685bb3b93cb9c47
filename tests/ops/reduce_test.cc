// Cases of the reductions, of cumsum and argsort.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "ops/calls.h"
#include "ops/tensor.h"
#include "support/expect_error.h"
#include "support/op_cases.h"

namespace lamina::testing {
namespace {

using Dims = std::vector<std::int64_t>;

// Folds x over dims with `fold`, in plain loops over all elements.
OpCase reduction(Shape shape, Dims dims, bool keep, double start, double (*fold)(double, double)) {
  return {.name = to_string(shape) + " over " + std::to_string(dims.empty() ? -9 : dims[0]),
          .inputs = {{.shape = shape}},
          .attrs = {{"dims", dims}, {"keep", std::int64_t{keep}}},
          .expect = [=](const std::vector<Doubles>& in) {
            auto reduced = [&](int d) {
              return std::ranges::any_of(
                  dims, [&](std::int64_t x) { return x == d || x + shape.ndim() == d; });
            };
            std::int64_t outputs = 1;
            for (int d = 0; d < shape.ndim(); ++d) outputs *= reduced(d) ? 1 : shape[d];
            Doubles y(static_cast<std::size_t>(outputs), start);
            for (std::size_t i = 0; i < in[0].size(); ++i) {
              auto rest = static_cast<std::int64_t>(i);
              std::int64_t at = 0, stride = 1;
              for (int d = shape.ndim() - 1; d >= 0; --d) {
                if (!reduced(d)) at += rest % shape[d] * stride, stride *= shape[d];
                rest /= shape[d];
              }
              double& out = y[static_cast<std::size_t>(at)];
              out = fold(out, in[0][i]);
            }
            return std::vector<Doubles>{y};
          }};
}

OpCases reductions(std::string op, double start, double (*fold)(double, double)) {
  OpCases out{.op = std::move(op), .cases = {}};
  for (bool keep : {false, true}) {
    out.cases.push_back(reduction({7, 33}, {1}, keep, start, fold));
    out.cases.push_back(reduction({40, 17}, {0}, keep, start, fold));
    out.cases.push_back(reduction({2, 3, 5, 4}, {0, 2}, keep, start, fold));
    out.cases.push_back(reduction({2, 3, 5}, {0, 1, 2}, keep, start, fold));
    out.cases.push_back(reduction({2, 3, 5}, {-1, 1}, keep, start, fold));
  }
  out.cases.push_back(reduction({3, 4}, {}, false, start, fold));
  out.cases.push_back(reduction({0, 4}, {1}, false, start, fold));
  out.cases.push_back(reduction({0, 4}, {0}, false, start, fold));
  const std::pair<Shape, Dims> large[] = {{{3, 100003}, {1}},
                                          {{2000, 6}, {0}},
                                          {{90, 64}, {0}},
                                          {{9, 256}, {1}},
                                          {{5, 3, 128}, {0, 2}}};
  for (const auto& [shape, dims] : large) {
    out.cases.push_back(reduction(shape, dims, false, start, fold));
    out.cases.back().gradient = false;  // slow in finite differences
  }
  return out;
}

const OpCases kSum = reductions("reduce_sum", 0, [](double a, double b) { return a + b; });
const OpCases kMax = reductions("reduce_max", -std::numeric_limits<double>::infinity(),
                                [](double a, double b) { return std::max(a, b); });

const OpCases kSumWide = {.op = "reduce_sum",
                          .dtypes = {DType::bf16},
                          .cases = {{.name = "bf16 into f32",
                                     .inputs = {{.shape = {300, 9}}},
                                     .attrs = {{"dims", Dims{0}}, {"dtype", std::string("f32")}}}}};

// Rows and columns, with whole vectors and without.
OpCases of_integers(std::string op) {
  const auto over = [](std::int64_t dim, Shape shape) -> OpCase {
    return {.name = to_string(shape),
            .inputs = {{.shape = shape, .low = -50, .high = 50}},
            .attrs = {{"dims", Dims{dim}}}};
  };
  return {.op = std::move(op),
          .dtypes = {DType::i32, DType::i64},
          .cases = {over(1, {3, 4}), over(0, {5, 8}), over(1, {3, 7}), over(0, {7, 3})}};
}
// Sums beyond 2^31, over rows and columns, with whole vectors and without.
OpCases large_integers() {
  OpCases out{.op = "reduce_sum", .dtypes = {DType::i32}, .cases = {}};
  for (const auto& [dim, shape] :
       {std::pair{1, Shape{2, 8}}, {0, {8, 4}}, {1, {2, 7}}, {0, {7, 3}}})
    out.cases.push_back(
        {.name = to_string(shape),
         .inputs = {{.shape = shape, .low = 0x1p30, .high = 0x1p30}},
         .attrs = {{"dims", Dims{dim}}, {"dtype", std::string("i64")}},
         .expect = [count = shape[dim], sums = shape[1 - dim]](const std::vector<Doubles>&) {
           return std::vector<Doubles>{
               Doubles(static_cast<std::size_t>(sums), 0x1p30 * static_cast<double>(count))};
         }});
  return out;
}
const OpCases kSumIntegers = of_integers("reduce_sum");
const OpCases kSumLargeIntegers = large_integers();
const OpCases kMaxIntegers = of_integers("reduce_max");
// The least integer has no negative.
OpCases min_of_integers() {
  OpCases out = of_integers("reduce_min");
  out.dtypes = {DType::i32};
  const auto chosen = [&](std::string name, Shape shape, Doubles x, Doubles y) {
    out.cases.push_back(
        {.name = std::move(name),
         .inputs = {{.shape = shape, .values = std::move(x)}},
         .attrs = {{"dims", Dims{1}}},
         .expect = [y](const std::vector<Doubles>&) { return std::vector<Doubles>{y}; }});
  };
  constexpr double kLeast = -0x1p31, kMost = 0x1p31 - 1;
  chosen("the ends of i32", {3, 4}, {kLeast, 5, 6, 7, kMost, 5, kLeast, 7, kMost, 9, 8, kMost},
         {kLeast, kLeast, 8});
  return out;
}
const OpCases kMinIntegers = min_of_integers();

const OpCases kSquares = {
    .op = "sum_of_squares",
    .dtypes = {DType::f32, DType::bf16, DType::f64},
    .cases = {{.name = "one", .inputs = {{.shape = {1}}}, .loosen = 1e6},
              {.name = "two chunks and a bit", .inputs = {{.shape = {3, 11003}}}, .loosen = 1e3},
              {.name = "none", .inputs = {{.shape = {0}}}}}};

const OpCases kMin = reductions("reduce_min", std::numeric_limits<double>::infinity(),
                                [](double a, double b) { return std::min(a, b); });

// Over dim 1 of [3, n, 4].
OpCase over_the_middle(std::int64_t n, bool keep, double (*of)(const Doubles&)) {
  return {.name = std::to_string(n),
          .inputs = {{.shape = {3, n, 4}, .low = -3, .high = 3}},
          .attrs = {{"dims", Dims{1}}, {"keep", std::int64_t{keep}}},
          .expect = [=](const std::vector<Doubles>& in) {
            const auto size = static_cast<std::size_t>(n);
            Doubles y;
            for (std::size_t a = 0; a < 3; ++a)
              for (std::size_t c = 0; c < 4; ++c) {
                Doubles x;
                for (std::size_t b = 0; b < size; ++b) x.push_back(in[0][(a * size + b) * 4 + c]);
                y.push_back(of(x));
              }
            return std::vector<Doubles>{y};
          }};
}
double mean(const Doubles& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}
double log_sum_exp(const Doubles& x) {
  double sum = 0;
  for (double v : x) sum += std::exp(v);
  return std::log(sum);
}
OpCase logsumexp_of_infinities() {
  return {.name = "infinities",
          .inputs = {{.shape = {5, 2},
                      .values = {-INFINITY, -INFINITY, 0, -INFINITY, INFINITY, 1, -INFINITY,
                                 INFINITY, NAN, INFINITY}}},
          .attrs = {{"dims", Dims{1}}},
          .expect =
              [](const std::vector<Doubles>&) {
                return std::vector<Doubles>{{-INFINITY, 0, INFINITY, INFINITY, NAN}};
              },
          .gradient = false};
}
const OpCases kMean = {.op = "reduce_mean",
                       .cases = {over_the_middle(7, false, mean), over_the_middle(1, true, mean)}};
const OpCases kLogsumexp = {.op = "logsumexp",
                            .cases = {
                                over_the_middle(7, false, log_sum_exp),
                                over_the_middle(1, true, log_sum_exp),
                                logsumexp_of_infinities(),
                                {.name = "rows",
                                 .inputs = {{.shape = {3, 2, 17}, .low = -9, .high = 9}},
                                 .attrs = {{"dims", Dims{-1, 1}}}},
                                {.name = "rows of vectors",
                                 .inputs = {{.shape = {5, 1024}, .low = -9, .high = 9}},
                                 .attrs = {{"dims", Dims{1}}},
                                 .gradient = false},
                                {.name = "large numbers",
                                 .inputs = {{.shape = {2}, .values = {1000, 1000}}},
                                 .attrs = {{"dims", Dims{0}}},
                                 .expect =
                                     [](const std::vector<Doubles>&) {
                                       return std::vector<Doubles>{{1000 + std::log(2.0)}};
                                     },
                                 .gradient = false}}};

OpCase sums_along(std::string name, Dims attrs, Doubles y) {
  return {.name = std::move(name),
          .inputs = {{.shape = {2, 3}, .values = {1, 2, 4, 8, 16, 32}}},
          .attrs = {{"dim", attrs[0]}, {"exclusive", attrs[1]}, {"reverse", attrs[2]}},
          .expect = [y](const std::vector<Doubles>&) { return std::vector<Doubles>{y}; }};
}
// Exact in every dtype: sums of zeros and at most a few hundred ones.
OpCase long_sums(std::string name, Shape shape, std::int64_t dim) {
  std::int64_t stride = 1;
  for (int d = static_cast<int>(dim) + 1; d < shape.ndim(); ++d) stride *= shape[d];
  const std::int64_t length = shape[static_cast<int>(dim)];
  Doubles x(static_cast<std::size_t>(shape.num_elements())), y = x;
  for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    x[at] = i % 17 == 3;
    const bool is_first = i / stride % length == 0;
    y[at] = is_first
                ? 0
                : y[static_cast<std::size_t>(i - stride)] + x[static_cast<std::size_t>(i - stride)];
  }
  return {.name = std::move(name),
          .inputs = {{.shape = shape, .values = std::move(x)}},
          .attrs = {{"dim", dim}, {"exclusive", std::int64_t{1}}},
          .expect = [y](const std::vector<Doubles>&) { return std::vector<Doubles>{y}; },
          .gradient = false};
}
const OpCases kCumsum = {
    .op = "cumsum",
    .dtypes = {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64},
    .cases = {
        sums_along("rows", {1, 0, 0}, {1, 3, 7, 8, 24, 56}),
        sums_along("columns", {0, 0, 0}, {1, 2, 4, 9, 18, 36}),
        sums_along("exclusive", {-1, 1, 0}, {0, 1, 3, 0, 8, 24}),
        sums_along("from the end", {1, 0, 1}, {7, 6, 4, 56, 48, 32}),
        sums_along("exclusive from the end", {1, 1, 1}, {6, 4, 0, 48, 32, 0}),
        {.name = "side by side",
         .inputs = {{.shape = {2, 5, 70}}},
         .attrs = {{"dim", std::int64_t{1}}},
         .expect =
             [](const std::vector<Doubles>& in) {
               Doubles y = in[0];
               for (std::size_t i = 0; i < y.size(); ++i)
                 if (i / 70 % 5 > 0) y[i] += y[i - 70];
               return std::vector<Doubles>{y};
             }},
        long_sums("a long row", {2, 3000}, 1),
        long_sums("long columns", {2, 300, 5}, 1),
        {.name = "nothing", .inputs = {{.shape = {2, 0}}}, .attrs = {{"dim", std::int64_t{1}}}}}};

OpCase order(std::string name, bool descending, Doubles x, Doubles y) {
  return {.name = std::move(name),
          .inputs = {{.shape = {2, 3}, .values = std::move(x)}},
          .attrs = {{"descending", std::int64_t{descending}}},
          .expect = [y](const std::vector<Doubles>&) { return std::vector<Doubles>{y}; },
          .gradient = false};
}
const OpCases kArgsort = {
    .op = "argsort",
    .cases = {order("rising", false, {3, 1, 2, 5, 5, 4}, {1, 2, 0, 2, 0, 1}),
              order("falling", true, {3, 1, 2, 5, 5, 4}, {0, 2, 1, 0, 1, 2}),
              order("rising after NaN", false, {NAN, 1, 2, NAN, NAN, NAN}, {0, 1, 2, 0, 1, 2}),
              order("falling after NaN", true, {NAN, 1, 2, 5, NAN, 4}, {0, 2, 1, 1, 0, 2})}};

const OpCases kCountedMean = {
    .op = "counted_mean",
    .cases = {
        {.name = "padding does not count",
         .inputs = {{.shape = {2, 3, 2}}, ints({2, 3}, {1, 1, 0, 0, 2, 0})},
         .expect =
             [](const std::vector<Doubles>& in) {
               const Doubles& x = in[0];
               return std::vector<Doubles>{{(x[0] + x[2] + x[8]) / 3, (x[1] + x[3] + x[9]) / 3}};
             }},
        {.name = "padding that is not finite",
         .inputs = {{.shape = {1, 4}, .values = {1, INFINITY, 3, NAN}}, ints({1, 4}, {1, 0, 1, 0})},
         .expect = [](const std::vector<Doubles>&) { return std::vector<Doubles>{{2}}; },
         .gradient = false},
        {.name = "no documents are told apart",
         .inputs = {{.shape = {2, 2}}},
         .expect =
             [](const std::vector<Doubles>& in) { return std::vector<Doubles>{{mean(in[0])}}; }},
        {.name = "padding only",
         .inputs = {{.shape = {1, 2}}, ints({1, 2}, {0, 0})},
         .expect = [](const std::vector<Doubles>&) { return std::vector<Doubles>{{0}}; }}}};

TEST(Reductions, TakeNoNarrowIntegers) {
  const std::string_view narrow[] = {"u8", "i8", "u16", "i16", "u32", "bool"};
  for (const std::string_view dtype : narrow) {
    Graph g;
    const Tensor x = g.add_input("x", {*parse_dtype(dtype), {3}, {}});
    const Tensor ids = g.add_input("ids", {DType::i32, {3}, {}});
    const std::string words = fmt::format("x must be floating-point, i32 or i64, got {}[3]", dtype);
    EXPECT_ERROR_SAYS(ops::cumsum(x, {.dim = 0}), ExitCode::usage, words);
    EXPECT_ERROR_SAYS(ops::reduce_max(x, {0}), ExitCode::usage, words);
    EXPECT_ERROR_SAYS(ops::reduce_min(x, {.dims = {0}}), ExitCode::usage, words);
    EXPECT_ERROR_SAYS(ops::scatter(x, ids, {.dim = 0, .size = 2}), ExitCode::usage, words);
    EXPECT_ERROR_SAYS(ops::scatter_along(x, ids, {.size = 2}), ExitCode::usage, words);
    EXPECT_ERROR_SAYS(ops::reduce_sum(x, {0}), ExitCode::usage, "cannot be summed as");
    const Tensor i32 = ops::cast(x, DType::i32);
    EXPECT_ERROR_SAYS(ops::plain::reduce_sum(i32, {.dims = {0}, .dtype = std::string(dtype)}),
                      ExitCode::usage, "both must be floating-point, or each i32 or i64");
  }
}

TEST(Reductions, OfNoIntegersHaveNoExtreme) {
  Graph g;
  const Tensor x = g.add_input("x", {DType::i32, {2, 0}, {}});
  const char* words = "i32[2, 0] has no elements over the dims 1";
  EXPECT_ERROR_SAYS(ops::reduce_max(x, {1}), ExitCode::usage, words);
  EXPECT_ERROR_SAYS(ops::reduce_min(x, {.dims = {1}}), ExitCode::usage, words);
  EXPECT_NO_THROW(ops::reduce_max(x, {0}));
}

LAMINA_TEST_OP(ReduceMean, kMean)
LAMINA_TEST_OP(ReduceMin, kMin)
LAMINA_TEST_OP(ReduceMinOfIntegers, kMinIntegers)
LAMINA_TEST_OP(Logsumexp, kLogsumexp)
LAMINA_TEST_OP(Cumsum, kCumsum)
LAMINA_TEST_OP(Argsort, kArgsort)
LAMINA_TEST_OP(CountedMean, kCountedMean)
LAMINA_TEST_OP(ReduceSum, kSum)
LAMINA_TEST_OP(ReduceSumIntoF32, kSumWide)
LAMINA_TEST_OP(ReduceSumOfIntegers, kSumIntegers)
LAMINA_TEST_OP(ReduceSumOfLargeIntegers, kSumLargeIntegers)
LAMINA_TEST_OP(ReduceMax, kMax)
LAMINA_TEST_OP(ReduceMaxOfIntegers, kMaxIntegers)
LAMINA_TEST_OP(SumOfSquares, kSquares)

}  // namespace
}  // namespace lamina::testing
