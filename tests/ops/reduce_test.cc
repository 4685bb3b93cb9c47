// Cases of reduce_sum, reduce_max and sum_of_squares.
#include <algorithm>
#include <limits>

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
  out.cases.push_back(reduction({3, 100003}, {1}, false, start, fold));
  out.cases.back().gradient = false;  // slow in finite differences
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

const OpCases kSumIntegers = {.op = "reduce_sum",
                              .dtypes = {DType::i32, DType::i64},
                              .cases = {{.name = "integers",
                                         .inputs = {{.shape = {3, 4}, .low = -50, .high = 50}},
                                         .attrs = {{"dims", Dims{1}}}}}};

const OpCases kSquares = {
    .op = "sum_of_squares",
    .dtypes = {DType::f32, DType::bf16, DType::f64},
    .cases = {{.name = "one", .inputs = {{.shape = {1}}}, .loosen = 1e6},
              {.name = "two chunks and a bit", .inputs = {{.shape = {3, 11003}}}, .loosen = 1e3},
              {.name = "none", .inputs = {{.shape = {0}}}}}};

LAMINA_TEST_OP(ReduceSum, kSum)
LAMINA_TEST_OP(ReduceSumIntoF32, kSumWide)
LAMINA_TEST_OP(ReduceSumOfIntegers, kSumIntegers)
LAMINA_TEST_OP(ReduceMax, kMax)
LAMINA_TEST_OP(SumOfSquares, kSquares)

}  // namespace
}  // namespace lamina::testing
