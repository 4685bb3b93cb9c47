// Tests of ops by cases: a file lists shapes, dtypes and attributes; the checks are here.
//
//   const OpCases kCases = {
//       .op = "rms_norm",
//       .cases = {{.name = "one row", .inputs = {{{1, 16}}, {{16}}}, .attrs = {{"eps", 1e-5}}}},
//   };
//   LAMINA_TEST_OP(RmsNorm, kCases);
//
// Checks for every case: the shape rule equals the graph of lower; each kernel that supports the
// node, with each instruction set, in place and with outputs left out, on one thread and on two,
// equals the definition computed in f64; the gradient equals finite differences in f64; the op's
// vjp equals the gradient of lower; two nodes that differ in an attribute are not merged; parts by
// the split rule give the same as the whole; types that the shape rule accepts can be run. For an
// op with decode state LAMINA_TEST_DECODE checks that reading a row call by call equals one call.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/op.h"
#include "support/array.h"

namespace lamina::testing {

// One input of a case. The default dtype is the dtype under test.
struct In {
  Shape shape;
  std::optional<DType> dtype = {};
  double low = -1, high = 1;        // uniform; integers include high
  std::vector<double> values = {};  // instead of random ones
  bool absent = false;              // an optional input that is left out
  bool widens = false;              // its dtype is f64 if everything is computed in f64
};
inline const In kAbsent = {
    .shape = {}, .dtype = {}, .low = 0, .high = 0, .values = {}, .absent = true};

inline In ints(Shape shape, double low, double high) {
  return {.shape = shape, .dtype = DType::i32, .low = low, .high = high, .values = {}};
}
inline In ints(Shape shape, std::vector<double> values) {
  return {.shape = shape, .dtype = DType::i32, .values = std::move(values)};
}

using Doubles = std::vector<double>;

struct OpCase {
  std::string name;
  std::vector<In> inputs;
  std::vector<std::pair<std::string, AttrValue>> attrs = {};
  // The results in plain C++, from the inputs' numbers: for primitives.
  std::function<std::vector<Doubles>(const std::vector<Doubles>&)> expect = {};
  std::vector<DType> dtypes = {};  // instead of the list's dtypes
  double loosen = 1;               // multiplies the table's tolerances
  bool gradient = true;            // differentiable at these inputs
  bool large = false;              // runs with the best instruction set only
  bool sums_rounded = false;       // f32 results are sums of numbers rounded to the dtype
};

struct OpCases {
  std::string op;
  std::vector<DType> dtypes = {DType::f32, DType::bf16, DType::f64};
  std::vector<OpCase> cases;
  std::size_t num_differentiable = 99;  // number of leading results with a gradient
};

// Largest error of a result with this dtype, relative to the largest expected number.
double tolerance(DType dtype);

// The checks, each over all cases.
void check_shape_rule(const OpCases& list);
void check_kernels(const OpCases& list);
void check_gradient(const OpCases& list);
void check_own_gradient(const OpCases& list);
void check_merging(const OpCases& list);
void check_split(const OpCases& list);
void check_types(const OpCases& list);
void check_decode(const OpCases& list);

// The checks on the emulated GPU (tests/cuda).
void check_gpu_kernels(const OpCases& list);
void check_gpu_decode(const OpCases& list);

}  // namespace lamina::testing

// tests/cuda compiles the cases a second time, with LAMINA_TEST_ON_GPU.
#ifdef LAMINA_TEST_ON_GPU
#define LAMINA_TEST_OP(Suite, list) \
  TEST(Suite, KernelsOfTheGpuComputeWhatItMeans) { ::lamina::testing::check_gpu_kernels(list); }
#define LAMINA_TEST_DECODE(Suite, list) \
  TEST(Suite, CallsOfTheGpuGiveWhatOneGoDoes) { ::lamina::testing::check_gpu_decode(list); }
#else
#define LAMINA_TEST_OP(Suite, list)                                                              \
  TEST(Suite, ShapeRuleGivesWhatItsMeaningHas) { ::lamina::testing::check_shape_rule(list); }    \
  TEST(Suite, KernelsComputeWhatItMeans) { ::lamina::testing::check_kernels(list); }             \
  TEST(Suite, GradientEqualsFiniteDifferences) { ::lamina::testing::check_gradient(list); }      \
  TEST(Suite, OwnGradientEqualsItsMeaningsGradient) {                                            \
    ::lamina::testing::check_own_gradient(list);                                                 \
  }                                                                                              \
  TEST(Suite, NodesThatDifferInAnAttributeStayApart) { ::lamina::testing::check_merging(list); } \
  TEST(Suite, PartsOfASplitGiveTheWhole) { ::lamina::testing::check_split(list); }               \
  TEST(Suite, TypesThatItTakesHaveAKernel) { ::lamina::testing::check_types(list); }

// For ops whose rows are [B, T, ...], "bT..." in the split rule.
#define LAMINA_TEST_DECODE(Suite, list) \
  TEST(Suite, CallsGiveWhatOneGoDoes) { ::lamina::testing::check_decode(list); }
#endif
