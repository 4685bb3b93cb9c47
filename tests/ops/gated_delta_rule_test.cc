// Cases of gated_delta_rule, its gradient and its decode form; chunks, single tokens and calls of
// every size give equal results.
#include <algorithm>
#include <cmath>

#include "ops/op.h"
#include "ops/registry.h"
#include "support/expect_error.h"
#include "support/op_cases.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

using Attrs = std::vector<std::pair<std::string, AttrValue>>;
AttrValue number(std::int64_t n) { return n; }
const Attrs kNormalize = {{"normalize", number(1)}};

struct Sizes {
  std::int64_t batch = 2, tokens = 7, key_heads = 2, heads = 4, key_width = 6, value_width = 5;
};

// Decays between a few percent and a half per token, so that chunks depend on each other.
OpCase rule(std::string name, Sizes s, Attrs attrs = kNormalize, std::vector<In> optional = {}) {
  const Shape keys{s.batch, s.tokens, s.key_heads, s.key_width};
  const Shape numbers{s.batch, s.tokens, s.heads};
  OpCase c{.name = std::move(name),
           .inputs = {{.shape = keys},
                      {.shape = keys},
                      {.shape = {s.batch, s.tokens, s.heads, s.value_width}},
                      {.shape = numbers, .low = -0.7, .high = -0.01},
                      {.shape = numbers, .low = 0.1, .high = 1}},
           .attrs = std::move(attrs),
           .loosen = 4};
  c.inputs.insert(c.inputs.end(), optional.begin(), optional.end());
  return c;
}

const In kSegments = ints({2, 7}, {1, 1, 1, 2, 2, 0, 0, 3, 4, 4, 4, 4, 5, 5});
In documents(std::int64_t tokens, std::vector<std::int64_t> ends) {
  std::vector<double> ids;
  for (std::int64_t t = 0, id = 1; t < tokens; ++t) {
    for (std::int64_t end : ends) id += end == t;
    ids.push_back(static_cast<double>(id));
  }
  return ints({1, tokens}, ids);
}

OpCase weak_decay() {
  OpCase c = rule("weak decay", {.batch = 1, .tokens = 130, .key_width = 16, .value_width = 17});
  c.inputs[3].low = -0.01;
  return c;
}
OpCase strong_decay() {
  OpCase c = rule("decay to nothing", {.tokens = 20});
  c.inputs[3].low = -300;
  c.inputs[3].high = 0;
  return c;
}
// Two tokens of each head; later tokens depend on each other by their own decays.
OpCase forgetting_tokens() {
  OpCase c = rule("tokens that forget everything", {.tokens = 20});
  for (std::int64_t i = 0; i < c.inputs[3].shape.num_elements(); ++i) {
    const std::int64_t token = i / 4 % 20;
    c.inputs[3].values.push_back(token == 3    ? -1e30
                                 : token == 12 ? -INFINITY
                                               : -0.05 * static_cast<double>(1 + i % 5));
  }
  return c;
}
OpCase wide(const char* name, OpCase c) {
  c.name = name;
  for (std::size_t i : {3, 4}) {
    c.inputs[i].dtype = DType::f32;
    c.inputs[i].widens = true;
  }
  return c;
}

const OpCases kCases = {
    .op = "gated_delta_rule",
    .cases = {
        rule("a few tokens", {}),
        rule("one head", {.key_heads = 1, .heads = 1, .key_width = 16, .value_width = 16}),
        rule("scale, lengths as they are", {.tokens = 5}, {{"scale", 0.5}}),
        wide("numbers in f32", rule("", {})),
        rule("one token", {.tokens = 1}),
        rule("a chunk", {.batch = 1, .tokens = 64}),
        rule("a chunk and one", {.batch = 1, .tokens = 65}),
        rule("chunks", {.batch = 1,
                        .tokens = 150,
                        .key_heads = 1,
                        .heads = 3,
                        .key_width = 33,
                        .value_width = 40}),
        weak_decay(),
        strong_decay(),
        forgetting_tokens(),
        rule("segments", {}, kNormalize, {kSegments}),
        rule("across segments", {}, {{"across", number(1)}, {"normalize", number(1)}}, {kSegments}),
        rule("documents and chunks", {.batch = 1, .tokens = 200, .key_heads = 1, .heads = 2},
             kNormalize, {documents(200, {3, 67, 68, 150})}),
        rule("no tokens", {.tokens = 0}),
        rule("no rows", {.batch = 0}),
    }};

OpCases gradient_cases() {
  OpCases out{.op = "gated_delta_rule_grad", .cases = kCases.cases};
  for (OpCase& c : out.cases) {
    while (c.inputs.size() < 6) c.inputs.push_back(kAbsent);
    c.inputs.push_back({.shape = c.inputs[2].shape});
    c.gradient = false;
  }
  return out;
}
const OpCases kGrad = gradient_cases();

OpCases step_cases() {
  auto step = [](std::string name, std::int64_t tokens, In start, In count,
                 std::int64_t value_width = 5) {
    OpCase c = rule(std::move(name), {.tokens = tokens, .value_width = value_width});
    c.inputs.insert(c.inputs.end(),
                    {std::move(start),
                     std::move(count),
                     {.shape = {2, 4, 6, value_width}, .dtype = DType::f32, .widens = true}});
    c.gradient = false;
    c.sums_rounded = true;
    return c;
  };
  const In started = ints({2}, {0, 9});
  return {.op = "gated_delta_rule_step",
          .cases = {step("one token", 1, started, ints({2}, {1, 1})),
                    step("wide values", 1, started, ints({2}, {1, 1}), 150),
                    step("nothing new", 1, started, ints({2}, {0, 0})),
                    step("three tokens", 3, started, ints({2}, {3, 2})),
                    step("chunks", 70, started, ints({2}, {70, 66})),
                    step("chunks of padding", 70, started, ints({2}, {0, 1}))}};
}
const OpCases kStep = step_cases();

LAMINA_TEST_OP(GatedDeltaRule, kCases)
LAMINA_TEST_DECODE(GatedDeltaRule, kCases)
LAMINA_TEST_OP(GatedDeltaRuleGrad, kGrad)
LAMINA_TEST_OP(GatedDeltaRuleStep, kStep)

// Rows [begin, end) of dim 1.
Array tokens_of(const Array& a, std::int64_t begin, std::int64_t end) {
  Type type = a.type;
  const std::int64_t batch = type.dim(0), tokens = type.dim(1);
  const std::int64_t row = type.bytes() / (batch * tokens);
  type.shape[1] = end - begin;
  Array out = zeros(type);
  for (std::int64_t b = 0; b < batch; ++b)
    std::copy_n(a.bytes.begin() + (b * tokens + begin) * row, (end - begin) * row,
                out.bytes.begin() + b * (end - begin) * row);
  return out;
}

// Compares one row in calls of the given sizes, with the state passed on, with one call without
// state.
void expect_calls_equal_one_go(std::vector<std::int64_t> calls) {
  constexpr std::int64_t kTokens = 150, kHeads = 4, kWidth = 16, kValues = 20;
  const Type keys{DType::f32, {1, kTokens, 2, kWidth}, {}};
  const Type values{DType::f32, {1, kTokens, kHeads, kValues}, {}};
  const Type numbers{DType::f32, {1, kTokens, kHeads}, {}};
  std::mt19937 random(3);
  const std::vector<Array> whole = {
      random_array(keys, random), random_array(keys, random), random_array(values, random),
      random_array(numbers, random, -0.2, -0.01), random_array(numbers, random, 0.1, 1)};
  auto add_inputs = [](Graph& g, const std::vector<Array>& arrays) {
    std::vector<Tensor> out;
    for (const Array& a : arrays) out.push_back(g.add_input("in", a.type));
    return out;
  };
  Graph once;
  once.add_output("y", ops::call_all("gated_delta_rule", add_inputs(once, whole),
                                     std::vector<std::pair<std::string_view, AttrValue>>{
                                         {"normalize", std::int64_t{1}}})[0]);
  const Array want = run(once, whole)[0];
  Array state = zeros({DType::f32, {1, kHeads, kWidth, kValues}, {}});
  for (std::byte& byte : state.bytes) byte = std::byte{0x3f};  // old contents
  std::int64_t done = 0;
  for (std::size_t i = 0; done < kTokens; ++i) {
    const std::int64_t size = std::min(calls[i % calls.size()], kTokens - done);
    std::vector<Array> inputs;
    for (const Array& a : whole) inputs.push_back(tokens_of(a, done, done + size));
    inputs.push_back(array({DType::i32, {1}, {}}, {static_cast<double>(done)}));
    inputs.push_back(array({DType::i32, {1}, {}}, {static_cast<double>(size)}));
    inputs.push_back(state);
    Graph g;
    auto results = ops::call_all(
        "gated_delta_rule_step", add_inputs(g, inputs),
        std::vector<std::pair<std::string_view, AttrValue>>{{"normalize", std::int64_t{1}}});
    for (Tensor t : results) g.add_output("out", t);
    std::vector<Array> got = run(g, inputs);
    const Array expected = tokens_of(want, done, done + size);
    for (std::int64_t e = 0; e < expected.type.num_elements(); ++e)
      ASSERT_NEAR(get(got[0], e), get(expected, e), 1e-5) << "after " << done << " tokens";
    state = got[1];
    done += size;
  }
}

TEST(GatedDeltaRuleCalls, OfOneTokenEqualOneCall) { expect_calls_equal_one_go({1}); }
TEST(GatedDeltaRuleCalls, OfAnySizeEqualOneCall) {
  expect_calls_equal_one_go({7});
  expect_calls_equal_one_go({64});
  expect_calls_equal_one_go({65, 3});
  expect_calls_equal_one_go({100, 1, 5});
}

// The largest difference of the gradients of g in float32 and in double, over the largest gradient.
double error_of_decays(double low, double high) {
  const Shape keys{1, 100, 1, 16}, values{1, 100, 2, 20}, numbers{1, 100, 2};
  std::mt19937 random(5);
  const std::vector<Array> single = {random_array({DType::f32, keys, {}}, random),
                                     random_array({DType::f32, keys, {}}, random),
                                     random_array({DType::f32, values, {}}, random),
                                     random_array({DType::f32, numbers, {}}, random, low, high),
                                     random_array({DType::f32, numbers, {}}, random, 0.1, 1),
                                     random_array({DType::f32, values, {}}, random)};
  const auto gradients = [](const std::vector<Array>& inputs) {
    Graph g;
    std::vector<Tensor> in;
    for (const Array& a : inputs) in.push_back(g.add_input("in", a.type));
    in.insert(in.end() - 1, Tensor());  // segments
    g.add_output("dg", ops::call_all("gated_delta_rule_grad", in,
                                     std::vector<std::pair<std::string_view, AttrValue>>{
                                         {"normalize", std::int64_t{1}}})[3]);
    return run(g, inputs)[0];
  };
  std::vector<Array> wide;
  for (const Array& a : single) {
    wide.push_back(zeros({DType::f64, a.type.shape, {}}));
    for (std::int64_t i = 0; i < a.type.num_elements(); ++i) set(wide.back(), i, get(a, i));
  }
  const Array got = gradients(single), want = gradients(wide);
  double error = 0, largest = 0;
  for (std::int64_t i = 0; i < want.type.num_elements(); ++i) {
    error = std::max(error, std::abs(get(got, i) - get(want, i)));
    largest = std::max(largest, std::abs(get(want, i)));
  }
  return error / largest;
}

// Parts without a decay are far larger than the gradients of strong decays, and must not be among
// their terms.
TEST(GatedDeltaRuleGrad, OfStrongDecaysIsAsExactAsOfWeakOnes) {
  EXPECT_LT(error_of_decays(-0.7, -0.01), 3e-6);
  EXPECT_LT(error_of_decays(-9, -7), 3e-6);
}

TEST(GatedDeltaRule, RefusesHeadsThatDoNotDivide) {
  Graph g;
  Tensor q = g.add_input("q", {DType::f32, {1, 3, 2, 4}, {}});
  Tensor v = g.add_input("v", {DType::f32, {1, 3, 3, 4}, {}});
  Tensor n = g.add_input("n", {DType::f32, {1, 3, 3}, {}});
  EXPECT_ERROR_SAYS(ops::call("gated_delta_rule", {q, q, v, n, n}), ExitCode::usage,
                    "3 value heads are not a multiple of 2 key heads");
}

}  // namespace
}  // namespace lamina::testing
