// Cases of causal_conv1d, its gradient and its decode form.
#include "ops/op.h"
#include "ops/registry.h"
#include "support/expect_error.h"
#include "support/op_cases.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

using Attrs = std::vector<std::pair<std::string, AttrValue>>;
const AttrValue kSilu = std::string("silu");
AttrValue number(std::int64_t n) { return n; }

const In kSegments = ints({2, 7}, {1, 1, 1, 2, 2, 0, 0, 3, 4, 4, 4, 4, 5, 5});

OpCase conv(std::string name, Shape x, std::int64_t width, std::vector<In> optional = {},
            Attrs attrs = {}) {
  OpCase c{.name = std::move(name),
           .inputs = {{.shape = x}, {.shape = {x[2], width}}},
           .attrs = std::move(attrs)};
  c.inputs.insert(c.inputs.end(), optional.begin(), optional.end());
  return c;
}

OpCase several_blocks() {
  OpCase c = conv("several blocks", {1, 300, 261}, 4, {}, {{"activation", kSilu}});
  c.gradient = false;  // too large for finite differences
  return c;
}

const OpCases kCases = {
    .op = "causal_conv1d",
    .cases = {
        conv("plain", {2, 7, 5}, 4),
        conv("silu and bias", {2, 7, 33}, 4, {{.shape = {33}}}, {{"activation", kSilu}}),
        conv("one tap", {1, 3, 17}, 1),
        conv("more taps than tokens", {1, 2, 3}, 4),
        conv("dilation", {1, 9, 4}, 3, {{.shape = {4}}}, {{"dilation", number(2)}}),
        conv("segments", {2, 7, 3}, 4, {kAbsent, kSegments}, {{"activation", kSilu}}),
        conv("segments and dilation", {2, 7, 3}, 2, {kAbsent, kSegments},
             {{"dilation", number(3)}}),
        conv("across segments", {2, 7, 3}, 4, {kAbsent, kSegments}, {{"across", number(1)}}),
        conv("one token", {2, 1, 16}, 4),
        conv("no tokens", {2, 0, 5}, 4),
        conv("no rows", {0, 3, 5}, 4),
        {.name = "weights in f32",
         .inputs = {{.shape = {1, 5, 20}},
                    {.shape = {20, 4}, .dtype = DType::f32},
                    {.shape = {20}, .dtype = DType::f32}},
         .gradient = false},
        several_blocks(),
    }};

OpCases gradient_cases() {
  OpCases out{.op = "causal_conv1d_grad", .cases = kCases.cases};
  for (OpCase& c : out.cases) {
    while (c.inputs.size() < 4) c.inputs.push_back(kAbsent);
    c.inputs.push_back({.shape = c.inputs[0].shape});
    c.gradient = false;
    c.sums_rounded = true;
  }
  return out;
}
const OpCases kGrad = gradient_cases();

OpCases step_cases() {
  auto step = [](std::string name, std::int64_t tokens, std::int64_t width, In start, In count,
                 Attrs attrs = {}, std::int64_t reach = -1) {
    OpCase c = conv(std::move(name), {2, tokens, 18}, width, {}, std::move(attrs));
    c.inputs.insert(c.inputs.end(), {{.shape = {18}},
                                     std::move(start),
                                     std::move(count),
                                     {.shape = {2, reach < 0 ? width - 1 : reach, 18}}});
    c.gradient = false;
    return c;
  };
  const In started = ints({2}, {0, 9}), one = ints({2}, {1, 1});
  return {
      .op = "causal_conv1d_step",
      .cases = {step("one token", 1, 4, started, one, {{"activation", kSilu}}),
                step("nothing new", 1, 4, started, ints({2}, {0, 0})),
                step("two tokens", 2, 4, started, ints({2}, {2, 1})),
                step("nine tokens", 9, 4, started, ints({2}, {9, 2})),
                step("dilation", 3, 3, started, ints({2}, {3, 3}), {{"dilation", number(2)}}, 4),
                step("no window", 3, 1, started, ints({2}, {3, 3}))}};
}
const OpCases kStep = step_cases();

LAMINA_TEST_OP(CausalConv1d, kCases)
LAMINA_TEST_DECODE(CausalConv1d, kCases)
LAMINA_TEST_OP(CausalConv1dGrad, kGrad)
LAMINA_TEST_OP(CausalConv1dStep, kStep)

TEST(CausalConv1d, RefusesWeightsOfOtherChannels) {
  Graph g;
  Tensor x = g.add_input("x", {DType::f32, {1, 3, 4}, {}});
  Tensor w = g.add_input("w", {DType::f32, {5, 2}, {}});
  EXPECT_ERROR_SAYS(ops::call("causal_conv1d", {x, w}), ExitCode::usage,
                    "w must be [4, K] with K at least 1 to match the last dim of x");
}

}  // namespace
}  // namespace lamina::testing
