// Cases of linear_scan, its gradient and its decode form.
#include "ops/registry.h"
#include "ops/tensor.h"
#include "support/expect_error.h"
#include "support/op_cases.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

struct Sizes {
  std::int64_t batch, tokens, channels;
};

// Plain loops, in f64.
std::vector<Doubles> loops(const Sizes& s, const std::vector<Doubles>& in) {
  const Doubles &a = in[0], &b = in[1];
  Doubles y(b.size());
  for (std::int64_t row = 0; row < s.batch; ++row)
    for (std::int64_t t = 0; t < s.tokens; ++t) {
      const auto token = static_cast<std::size_t>(row * s.tokens + t);
      const bool fresh =
          t == 0 || (in.size() > 2 && !in[2].empty() && in[2][token] != in[2][token - 1]);
      for (std::size_t c = 0; c < static_cast<std::size_t>(s.channels); ++c) {
        const std::size_t at = token * static_cast<std::size_t>(s.channels) + c;
        y[at] = b[at] + (fresh ? 0 : a[at] * y[at - static_cast<std::size_t>(s.channels)]);
      }
    }
  return {y};
}

// Decays from a tenth to zero, some of them negative.
OpCase recurrence(std::string name, Sizes s, std::vector<In> optional = {}) {
  const Shape shape{s.batch, s.tokens, s.channels};
  OpCase c{.name = std::move(name),
           .inputs = {{.shape = shape, .low = -0.2, .high = 1}, {.shape = shape}},
           .expect = [s](const std::vector<Doubles>& in) { return loops(s, in); }};
  c.inputs.insert(c.inputs.end(), optional.begin(), optional.end());
  return c;
}

OpCase decay_in_f32() {
  OpCase c = recurrence("decay in f32", {2, 5, 20});
  c.inputs[0].dtype = DType::f32;
  c.inputs[0].widens = true;
  return c;
}
OpCase never_forgets() {
  OpCase c = recurrence("never forgets", {1, 70, 16});
  c.inputs[0].low = 1;
  return c;
}
OpCase several_blocks() {
  OpCase c = recurrence("several blocks", {2, 5, 517});
  c.gradient = false;  // too large for finite differences
  return c;
}

const In kSegments = ints({2, 7}, {1, 1, 1, 2, 2, 0, 0, 3, 4, 4, 4, 4, 5, 5});

const OpCases kCases = {
    .op = "linear_scan",
    .cases = {recurrence("a few tokens", {2, 7, 5}), recurrence("vectors and one", {1, 9, 33}),
              recurrence("documents", {2, 7, 3}, {kSegments}), recurrence("one token", {2, 1, 16}),
              decay_in_f32(), never_forgets(), several_blocks(), recurrence("no tokens", {2, 0, 5}),
              recurrence("no rows", {0, 3, 5})}};

OpCases gradient_cases() {
  OpCases out{.op = "linear_scan_grad", .cases = kCases.cases};
  for (OpCase& c : out.cases) {
    if (c.inputs.size() < 3) c.inputs.push_back(kAbsent);
    c.inputs.push_back({.shape = c.inputs[1].shape});
    c.expect = {};
    c.gradient = false;
  }
  return out;
}
const OpCases kGrad = gradient_cases();

OpCases step_cases() {
  auto step = [](std::string name, std::int64_t tokens, In start, In count) {
    OpCase c = recurrence(std::move(name), {2, tokens, 18});
    c.inputs.insert(c.inputs.end(), {std::move(start),
                                     std::move(count),
                                     {.shape = {2, 18}, .dtype = DType::f32, .widens = true}});
    c.expect = {};
    c.gradient = false;
    c.sums_rounded = true;
    return c;
  };
  const In started = ints({2}, {0, 9});
  return {.op = "linear_scan_step",
          .cases = {step("one token", 1, started, ints({2}, {1, 1})),
                    step("nothing new", 1, started, ints({2}, {0, 0})),
                    step("nine tokens", 9, started, ints({2}, {9, 2})),
                    step("no tokens", 0, started, ints({2}, {0, 0}))}};
}
const OpCases kStep = step_cases();

LAMINA_TEST_OP(LinearScan, kCases)
LAMINA_TEST_DECODE(LinearScan, kCases)
LAMINA_TEST_OP(LinearScanGrad, kGrad)
LAMINA_TEST_OP(LinearScanStep, kStep)

TEST(LinearScan, RefusesDecaysOfAnotherShape) {
  Graph g;
  Tensor a = g.add_input("a", {DType::f32, {1, 3, 1}, {}});
  Tensor b = g.add_input("b", {DType::f32, {1, 3, 4}, {}});
  EXPECT_ERROR_SAYS(ops::call("linear_scan", {a, b}), ExitCode::usage,
                    "a and b must have the same shape, got f32[1, 3, 1] and f32[1, 3, 4]");
}

}  // namespace
}  // namespace lamina::testing
