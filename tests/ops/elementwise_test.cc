// Elementwise ops, each compared with the function of its name.
#include <algorithm>
#include <cmath>
#include <random>

#include "autodiff/vjp.h"
#include "ops/calls.h"
#include "ops/tensor.h"
#include "support/op_cases.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

const std::vector<Shape> kShapes = {{}, {0}, {1}, {7}, {3, 17}, {2, 1, 65}};

// y = f(x) for several shapes, x within [low, high].
OpCases unary(std::string op, double (*f)(double), double low = -2, double high = 2) {
  OpCases out{.op = std::move(op), .cases = {}};
  for (const Shape& shape : kShapes)
    out.cases.push_back({.name = to_string(shape),
                         .inputs = {{.shape = shape, .low = low, .high = high}},
                         .expect = [f](const std::vector<Doubles>& in) {
                           Doubles y = in[0];
                           for (double& v : y) v = f(v);
                           return std::vector<Doubles>{y};
                         }});
  return out;
}

// y = f(a, b) on equal shapes, and broadcast with a row, a column and a number.
OpCases binary(std::string op, double (*f)(double, double), double low = -2, double high = 2) {
  OpCases out{.op = std::move(op), .cases = {}};
  auto in = [&](Shape shape) { return In{.shape = shape, .low = low, .high = high}; };
  for (const Shape& shape : kShapes)
    out.cases.push_back({.name = to_string(shape),
                         .inputs = {in(shape), in(shape)},
                         .expect = [f](const std::vector<Doubles>& x) {
                           Doubles y = x[0];
                           for (std::size_t i = 0; i < y.size(); ++i) y[i] = f(x[0][i], x[1][i]);
                           return std::vector<Doubles>{y};
                         }});
  constexpr std::size_t kRows = 5, kColumns = 19;
  auto broadcast = [&](std::string name, Shape shape, std::size_t (*place)(std::size_t)) {
    out.cases.push_back({.name = name,
                         .inputs = {in({5, 19}), in(shape)},
                         .expect = [f, place](const std::vector<Doubles>& x) {
                           Doubles y = x[0];
                           for (std::size_t i = 0; i < y.size(); ++i)
                             y[i] = f(x[0][i], x[1][place(i)]);
                           return std::vector<Doubles>{y};
                         }});
  };
  static_assert(kRows * kColumns == 95);
  broadcast("row", {19}, [](std::size_t i) { return i % kColumns; });
  broadcast("column", {5, 1}, [](std::size_t i) { return i / kColumns; });
  broadcast("number", {}, [](std::size_t) { return std::size_t{0}; });
  return out;
}

OpCases with_attr(OpCases list, const std::string& name, AttrValue value) {
  for (OpCase& c : list.cases) c.attrs.emplace_back(name, value);
  return list;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

const OpCases kAdd = binary("add", [](double a, double b) { return a + b; });
const OpCases kSub = binary("sub", [](double a, double b) { return a - b; });
const OpCases kMul = binary("mul", [](double a, double b) { return a * b; });
const OpCases kDiv = binary(
    "div", [](double a, double b) { return a / b; }, 0.5, 2);
const OpCases kMaximum = binary("maximum", [](double a, double b) { return std::max(a, b); });
const OpCases kMinimum = binary("minimum", [](double a, double b) { return std::min(a, b); });
const OpCases kLess = binary("less", [](double a, double b) { return a < b ? 1.0 : 0.0; });
const OpCases kEqual = binary("equal", [](double a, double b) { return a == b ? 1.0 : 0.0; });
const OpCases kNeg = unary("neg", [](double x) { return -x; });
const OpCases kAbs = unary("abs", [](double x) { return std::abs(x); });
const OpCases kSquare = unary("square", [](double x) { return x * x; });
const OpCases kExp = unary("exp", [](double x) { return std::exp(x); });
const OpCases kLog = unary(
    "log", [](double x) { return std::log(x); }, 0.5, 3);
const OpCases kSqrt = unary(
    "sqrt", [](double x) { return std::sqrt(x); }, 0.5, 3);
const OpCases kRsqrt = unary(
    "rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.5, 3);
const OpCases kTanh = unary("tanh", [](double x) { return std::tanh(x); });
const OpCases kSigmoid = unary("sigmoid", sigmoid);
const OpCases kErf = unary("erf", [](double x) { return std::erf(x); });
const OpCases kSin = unary("sin", [](double x) { return std::sin(x); });
const OpCases kCos = unary("cos", [](double x) { return std::cos(x); });
const OpCases kFloor = unary("floor", [](double x) { return std::floor(x); });
const OpCases kSign = unary("sign", [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; });
const OpCases kRelu = unary("relu", [](double x) { return std::max(x, 0.0); });
const OpCases kSilu = unary("silu", [](double x) { return x * sigmoid(x); });
const OpCases kGelu = unary("gelu", gelu);
const OpCases kGeluTanh = unary("gelu_tanh", gelu_tanh);
const OpCases kSoftplus = unary("softplus", [](double x) { return std::log1p(std::exp(x)); });
const OpCases kStopGradient = unary("stop_gradient", [](double x) { return x; });
const OpCases kScale = with_attr(unary("scale", [](double x) { return x * 1.5; }), "by", 1.5);
const OpCases kShift = with_attr(unary("shift", [](double x) { return x - 0.75; }), "by", -0.75);
const OpCases kSoftCap =
    with_attr(unary("soft_cap", [](double x) { return 3 * std::tanh(x / 3); }), "cap", 3.0);
const OpCases kCastWider =
    with_attr(unary("cast", [](double x) { return x; }), "dtype", std::string("f64"));
const OpCases kCopy = unary("copy", [](double x) { return x; });

const OpCases kRound = unary("round", [](double x) { return std::nearbyint(x); });
const OpCases kCeil = unary("ceil", [](double x) { return std::ceil(x); });
const OpCases kLog1p = unary(
    "log1p", [](double x) { return std::log1p(x); }, -0.7, 2);
const OpCases kExpm1 = unary("expm1", [](double x) { return std::expm1(x); });
const OpCases kWiden = unary("widen", [](double x) { return x; });
const OpCases kPow = binary(
    "pow", [](double a, double b) { return std::pow(a, b); }, 0.5, 2);
const OpCases kRemainder = binary(
    "remainder", [](double a, double b) { return a - std::floor(a / b) * b; }, 0.5, 2);
const OpCases kLessEqual =
    binary("less_equal", [](double a, double b) { return a <= b ? 1.0 : 0.0; });
const OpCases kNotEqual =
    binary("not_equal", [](double a, double b) { return a != b ? 1.0 : 0.0; });
// Casts to the dtype of `like`, whose elements are not read.
const OpCases kCastLike = {
    .op = "cast_like",
    .cases = {
        {.name = "of f32",
         .inputs = {{.shape = {3, 5}, .dtype = DType::f32}, {.shape = {2}}},
         .expect = [](const std::vector<Doubles>& in) { return std::vector<Doubles>{in[0]}; }}}};

// Near 0, where computing with 1 + x or exp(x) loses digits.
OpCases near_zero(std::string op, double (*f)(double)) {
  const Doubles x = {1e-7, -1e-7, 1e-4, -1e-4, 0.49, -0.49, 0.51, -0.51, 3, 0};
  return {.op = std::move(op),
          .dtypes = {DType::f32, DType::f64},
          .cases = {{.name = "near zero",
                     .inputs = {{.shape = {1}, .values = {1e-6}}},
                     .expect =
                         [f](const std::vector<Doubles>& in) {
                           return std::vector<Doubles>{{f(in[0][0])}};
                         },
                     .gradient = false},
                    {.name = "many sizes",
                     .inputs = {{.shape = {10}, .values = x}},
                     .expect =
                         [f](const std::vector<Doubles>& in) {
                           Doubles y;
                           for (double v : in[0]) y.push_back(f(v));
                           return std::vector<Doubles>{y};
                         },
                     .gradient = false}}};
}
const OpCases kLog1pNearZero = near_zero("log1p", [](double x) { return std::log1p(x); });
const OpCases kExpm1NearZero = near_zero("expm1", [](double x) { return std::expm1(x); });

// One operation on chosen integers or truth values.
OpCases on_integers(std::string op, std::vector<DType> dtypes, Doubles a, Doubles b, Doubles y) {
  const auto n = static_cast<std::int64_t>(a.size());
  OpCase c{.name = "chosen",
           .inputs = {{.shape = {n}, .values = std::move(a)}},
           .expect = [y](const std::vector<Doubles>&) { return std::vector<Doubles>{y}; }};
  if (!b.empty()) c.inputs.push_back({.shape = {n}, .values = std::move(b)});
  return {.op = std::move(op), .dtypes = std::move(dtypes), .cases = {std::move(c)}};
}
const std::vector<DType> kWhole = {DType::i32, DType::i64}, kTruth = {DType::boolean};
const OpCases kNot = on_integers("logical_not", kTruth, {0, 1}, {}, {1, 0});
const OpCases kAnd = on_integers("logical_and", kTruth, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 0, 1});
const OpCases kOr = on_integers("logical_or", kTruth, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 1, 1});
const OpCases kBitAnd = on_integers("bit_and", kWhole, {12, -1, 5}, {10, 7, 0}, {8, 7, 0});
const OpCases kBitOr = on_integers("bit_or", kWhole, {12, -1, 5}, {10, 7, 0}, {14, -1, 5});
const OpCases kBitXor = on_integers("bit_xor", kWhole, {12, -1, 5}, {10, 7, 5}, {6, -8, 0});
const OpCases kShiftLeft = on_integers("shift_left", kWhole, {1, -3, 5}, {4, 1, 64}, {16, -6, 5});
const OpCases kShiftRight = on_integers("shift_right", kWhole, {16, -5, 5}, {3, 1, 64}, {2, -3, 5});
// Quotients that bfloat16 rounds up to an integer, other signs, and infinite divisors.
const OpCases kRemainderAtTheEnds = {
    .op = "remainder",
    .cases = {
        {.name = "chosen",
         .inputs = {{.shape = {6}, .values = {57.25, 7.53125, -1, 1, 5, -5}},
                    {.shape = {6}, .values = {4.78125, 1.2578125, 3, -3, INFINITY, INFINITY}}},
         .expect =
             [](const std::vector<Doubles>&) {
               return std::vector<Doubles>{{4.65625, 1.2421875, 2, -2, 5, INFINITY}};
             },
         .gradient = false}}};

double exact_remainder(float a, float b) {
  const float y = std::fmod(a, b);
  return y != 0 && (y < 0) != (b < 0) ? y + b : y;
}

// Quotients below 2^57 of numbers of every size.
TEST(Remainder, IsExactForLargeQuotients) {
  std::mt19937 random(7);
  Doubles a{1e9, 1e8, 1000000.5, 76.08061F, -1e-20F, 1e9}, b{7, 3, 0.1F, 0.7315444F, 7, -7};
  const auto number = [&](int most) {
    const float size = std::ldexp(1 + static_cast<float>(random() % (1U << 23)) * 0x1p-23F,
                                  static_cast<int>(random() % static_cast<unsigned>(most)));
    return random() % 2 ? size : -size;
  };
  for (int i = 0; i < 5000; ++i) {
    b.push_back(std::ldexp(number(1), static_cast<int>(random() % 60) - 50));
    a.push_back(b.back() * number(56));
  }
  Graph g;
  const Type type{DType::f32, {static_cast<std::int64_t>(a.size())}, {}};
  g.add_output("y", ops::call("remainder", {g.add_input("a", type), g.add_input("b", type)}));
  const Array y = run(g, {array(type, a), array(type, b)})[0];
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(get(y, static_cast<std::int64_t>(i)),
              exact_remainder(static_cast<float>(a[i]), static_cast<float>(b[i])))
        << a[i] << " and " << b[i];
}

TEST(Remainder, OfHugeQuotientsIsBetween0AndTheDivisor) {
  Graph g;
  const Type type{DType::f32, {4}, {}};
  g.add_output("y", ops::call("remainder", {g.add_input("a", type), g.add_input("b", type)}));
  const Array y = run(
      g, {array(type, {3e38F, 3e38F, -3e38F, INFINITY}), array(type, {1e-38F, 0.7F, 0.7F, 3})})[0];
  for (int i = 0; i < 3; ++i) {
    EXPECT_GE(get(y, i), 0);
    EXPECT_LE(get(y, i), i == 0 ? 1e-38F : 0.7F);
  }
  EXPECT_TRUE(std::isnan(get(y, 3)));
}

// In f32, the quotient of the first numbers is rounded up to 104.
TEST(Remainder, GradientsAre1AndTheWholeQuotient) {
  Graph g;
  const Type type{DType::f32, {3}, {}};
  const Tensor a = g.add_input("a", type), b = g.add_input("b", type);
  const Tensor results[] = {ops::call("remainder", {a, b})}, seeds[] = {ops::constant(g, type, 1)},
               wanted[] = {a, b};
  const auto gradients = autodiff::vjp(g, results, seeds, wanted, autodiff::save_everything());
  g.add_output("da", gradients[0]);
  g.add_output("db", gradients[1]);
  const std::vector<Array> got =
      run(g, {array(type, {76.08061F, 1e9, -5}), array(type, {0.7315444F, 7, INFINITY})});
  EXPECT_EQ(to_doubles(got[0]), (Doubles{1, 1, 1}));
  EXPECT_EQ(to_doubles(got[1]), (Doubles{-103, -142857142.0F, 0}));
}

// Here a / b is rounded up to 140 and 70, and the result is near b: the quotient is one less.
TEST(Remainder, GradientsInF64UseTheQuotientOfTheResult) {
  Graph g;
  const Type type{DType::f64, {3}, {}};
  const Tensor a = g.add_input("a", type), b = g.add_input("b", type);
  const Tensor results[] = {ops::call("remainder", {a, b})}, seeds[] = {ops::constant(g, type, 1)},
               wanted[] = {b};
  const auto gradients = autodiff::vjp(g, results, seeds, wanted, autodiff::save_everything());
  g.add_output("y", results[0]);
  g.add_output("db", gradients[0]);
  const Doubles of_a{49.26796333693667, 201.86929789144205, -5},
      of_b{0.35191402383526194, 2.8838471127348866, INFINITY};
  const std::vector<Array> got = run(g, {array(type, of_a), array(type, of_b)});
  for (int i = 0; i < 2; ++i) EXPECT_GT(get(got[0], i), 0.99 * of_b[static_cast<std::size_t>(i)]);
  EXPECT_EQ(to_doubles(got[1]), (Doubles{-139, -69, 0}));
}

const OpCases kRemainderOfIntegers =
    on_integers("remainder", kWhole, {7, -7, 7, -7, 5}, {3, 3, -3, -3, 0}, {1, 2, -2, -1, 5});

const OpCases kSelect = {
    .op = "select",
    .cases = {{.name = "three of one shape",
               .inputs = {{.shape = {4, 9}, .dtype = DType::boolean, .low = 0, .high = 1},
                          {.shape = {4, 9}},
                          {.shape = {4, 9}}},
               .expect =
                   [](const std::vector<Doubles>& in) {
                     Doubles y = in[1];
                     for (std::size_t i = 0; i < y.size(); ++i)
                       y[i] = in[0][i] != 0 ? in[1][i] : in[2][i];
                     return std::vector<Doubles>{y};
                   }},
              {.name = "a column chooses between a row and a number",
               .inputs = {{.shape = {4, 1}, .dtype = DType::boolean, .low = 0, .high = 1},
                          {.shape = {9}},
                          {.shape = {}}},
               .expect = [](const std::vector<Doubles>& in) {
                 Doubles y(36);
                 for (std::size_t i = 0; i < y.size(); ++i)
                   y[i] = in[0][i / 9] != 0 ? in[1][i % 9] : in[2][0];
                 return std::vector<Doubles>{y};
               }}}};

const OpCases kIntegers = {.op = "div",
                           .dtypes = {DType::i32, DType::i64},
                           .cases = {{.name = "rounds towards minus infinity",
                                      .inputs = {{.shape = {6}, .values = {7, -7, 7, -7, 0, 5}},
                                                 {.shape = {6}, .values = {2, 2, -2, -2, 3, 5}}},
                                      .expect = [](const std::vector<Doubles>&) {
                                        return std::vector<Doubles>{{3, -4, -4, 3, 0, 1}};
                                      }}}};

const OpCases kNarrowing = {
    .op = "cast",
    .dtypes = {DType::f32, DType::f64},
    .cases = {
        {.name = "bf16 rounds ties to even",
         .inputs = {{.shape = {3}, .values = {1.00390625, 1.01171875, -1.00390625}}},
         .attrs = {{"dtype", std::string("bf16")}},
         .expect =
             [](const std::vector<Doubles>&) {
               return std::vector<Doubles>{{1.0, 1.015625, -1.0}};
             },
         .loosen = 0,
         .gradient = false},
        {.name = "integers truncate",
         .inputs = {{.shape = {4}, .values = {1.9, -1.9, 0.5, -0.5}}},
         .attrs = {{"dtype", std::string("i32")}},
         .expect =
             [](const std::vector<Doubles>&) {
               return std::vector<Doubles>{{1, -1, 0, 0}};
             },
         .gradient = false}}};

LAMINA_TEST_OP(Add, kAdd)
LAMINA_TEST_OP(Sub, kSub)
LAMINA_TEST_OP(Mul, kMul)
LAMINA_TEST_OP(Div, kDiv)
LAMINA_TEST_OP(Maximum, kMaximum)
LAMINA_TEST_OP(Minimum, kMinimum)
LAMINA_TEST_OP(Less, kLess)
LAMINA_TEST_OP(Equal, kEqual)
LAMINA_TEST_OP(Select, kSelect)
LAMINA_TEST_OP(Neg, kNeg)
LAMINA_TEST_OP(Abs, kAbs)
LAMINA_TEST_OP(Square, kSquare)
LAMINA_TEST_OP(Exp, kExp)
LAMINA_TEST_OP(Log, kLog)
LAMINA_TEST_OP(Sqrt, kSqrt)
LAMINA_TEST_OP(Rsqrt, kRsqrt)
LAMINA_TEST_OP(Tanh, kTanh)
LAMINA_TEST_OP(Sigmoid, kSigmoid)
LAMINA_TEST_OP(Erf, kErf)
LAMINA_TEST_OP(Sin, kSin)
LAMINA_TEST_OP(Cos, kCos)
LAMINA_TEST_OP(Floor, kFloor)
LAMINA_TEST_OP(Sign, kSign)
LAMINA_TEST_OP(Relu, kRelu)
LAMINA_TEST_OP(Silu, kSilu)
LAMINA_TEST_OP(Gelu, kGelu)
LAMINA_TEST_OP(GeluTanh, kGeluTanh)
LAMINA_TEST_OP(Softplus, kSoftplus)
LAMINA_TEST_OP(StopGradient, kStopGradient)
LAMINA_TEST_OP(Scale, kScale)
LAMINA_TEST_OP(Shift, kShift)
LAMINA_TEST_OP(SoftCap, kSoftCap)
LAMINA_TEST_OP(Cast, kCastWider)
LAMINA_TEST_OP(CastToNarrow, kNarrowing)
LAMINA_TEST_OP(DivOfIntegers, kIntegers)
LAMINA_TEST_OP(Copy, kCopy)
LAMINA_TEST_OP(Round, kRound)
LAMINA_TEST_OP(Ceil, kCeil)
LAMINA_TEST_OP(Log1p, kLog1p)
LAMINA_TEST_OP(Log1pNearZero, kLog1pNearZero)
LAMINA_TEST_OP(Expm1, kExpm1)
LAMINA_TEST_OP(Expm1NearZero, kExpm1NearZero)
LAMINA_TEST_OP(Widen, kWiden)
LAMINA_TEST_OP(Pow, kPow)
LAMINA_TEST_OP(Remainder, kRemainder)
LAMINA_TEST_OP(RemainderAtTheEnds, kRemainderAtTheEnds)
LAMINA_TEST_OP(RemainderOfIntegers, kRemainderOfIntegers)
LAMINA_TEST_OP(LessEqual, kLessEqual)
LAMINA_TEST_OP(NotEqual, kNotEqual)
LAMINA_TEST_OP(CastLike, kCastLike)
LAMINA_TEST_OP(LogicalNot, kNot)
LAMINA_TEST_OP(LogicalAnd, kAnd)
LAMINA_TEST_OP(LogicalOr, kOr)
LAMINA_TEST_OP(BitAnd, kBitAnd)
LAMINA_TEST_OP(BitOr, kBitOr)
LAMINA_TEST_OP(BitXor, kBitXor)
LAMINA_TEST_OP(ShiftLeft, kShiftLeft)
LAMINA_TEST_OP(ShiftRight, kShiftRight)

}  // namespace
}  // namespace lamina::testing
