// Tests of ops by cases: a file lists shapes, dtypes and attributes, the checks come from here.
//
//   const OpCases kCases = {
//       .op = "rms_norm",
//       .cases = {{.name = "one row", .inputs = {{{1, 16}}, {{16}}}, .attrs = {{"eps", 1e-5}}}},
//   };
//   LAMINA_TEST_OP(RmsNorm, kCases);
//
// For every case: the shape rule gives what lower's graph has; each kernel that takes the node,
// with each instruction set, in place and with outputs left out, on one thread and on two, gives
// what the op means, computed in f64; the gradient is that of finite differences in f64; the op's
// own vjp is what differentiating lower gives; two nodes that differ in an attribute are not
// merged; run in parts by its split rule, it gives the same; what the shape rule takes, of whatever
// types, can be run. Of an op with decode state
// LAMINA_TEST_DECODE checks that reading a row call by call gives what one call does.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/op.h"
#include "support/array.h"

namespace lamina::testing {

// One input of a case. Without a dtype it has the dtype under test.
struct In {
  Shape shape;
  std::optional<DType> dtype = {};
  double low = -1, high = 1;        // uniform; integers include high
  std::vector<double> values = {};  // instead of random ones
  bool absent = false;              // an optional input that is not given
  bool widens = false;              // its dtype is f64 where everything is computed in f64
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
  // The results in plain C++, from the inputs' numbers: for ops that mean nothing smaller.
  std::function<std::vector<Doubles>(const std::vector<Doubles>&)> expect = {};
  std::vector<DType> dtypes = {};  // instead of those of the list
  double loosen = 1;               // times the table's tolerances
  bool gradient = true;            // differentiable at these inputs
  bool large = false;              // runs with the best instruction set only
  bool sums_rounded = false;       // f32 results are sums of numbers rounded to the dtype
};

struct OpCases {
  std::string op;
  std::vector<DType> dtypes = {DType::f32, DType::bf16, DType::f64};
  std::vector<OpCase> cases;
  std::size_t num_differentiable = 99;  // results from the first on that have a gradient
};

// Largest error of a result with this dtype, as a share of the largest expected number.
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

}  // namespace lamina::testing

#define LAMINA_TEST_OP(Suite, list)                                                               \
  TEST(Suite, ShapeRuleGivesWhatItsMeaningHas) { ::lamina::testing::check_shape_rule(list); }     \
  TEST(Suite, KernelsComputeWhatItMeans) { ::lamina::testing::check_kernels(list); }              \
  TEST(Suite, GradientEqualsFiniteDifferences) { ::lamina::testing::check_gradient(list); }       \
  TEST(Suite, OwnGradientEqualsThatOfItsMeaning) { ::lamina::testing::check_own_gradient(list); } \
  TEST(Suite, NodesThatDifferInAnAttributeStayApart) { ::lamina::testing::check_merging(list); }  \
  TEST(Suite, PartsOfASplitGiveTheWhole) { ::lamina::testing::check_split(list); }                \
  TEST(Suite, TypesThatItTakesHaveAKernel) { ::lamina::testing::check_types(list); }

// For ops whose rows are [B, T, ...], "bT..." in the split rule.
#define LAMINA_TEST_DECODE(Suite, list) \
  TEST(Suite, CallsGiveWhatOneGoDoes) { ::lamina::testing::check_decode(list); }
