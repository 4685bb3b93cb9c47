// Equalities of mixers over time on the emulated GPU: a row gives the same in a batch and alone,
// and the same in one call and read call by call with its decode state.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "cuda/gpu.h"
#include "ops/registry.h"
#include "ops/tensor.h"
#include "support/array.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

using Attrs = std::vector<std::pair<std::string_view, AttrValue>>;

constexpr std::int64_t kRows = 3, kTokens = 40, kHeads = 4, kKeyWidth = 20, kValues = 24;

// An operand of a mixer: of each token of each row, or a parameter.
struct Operand {
  Array numbers;
  bool per_token = true;
};

struct Mixer {
  std::string op;
  std::vector<Operand> operands;
  Attrs attrs;
  Type state;             // of one row
  bool same_bits = true;  // in one call and in several

  friend void PrintTo(const Mixer& m, std::ostream* out) { *out << m.op; }
};

class Mixers : public ::testing::TestWithParam<Mixer> {};

std::vector<Mixer> all_mixers() {
  std::mt19937 random(7);
  const auto numbers = [&](Shape shape, double low, double high) {
    return Operand{random_array({DType::f32, shape, {}}, random, low, high)};
  };
  const auto parameter = [&](Shape shape) {
    return Operand{random_array({DType::f32, shape, {}}, random, -1, 1), false};
  };
  const Shape keys{kRows, kTokens, 2, kKeyWidth}, all_keys{kRows, kTokens, kHeads, kKeyWidth};
  const Shape values{kRows, kTokens, kHeads, kValues}, heads{kRows, kTokens, kHeads};
  const Shape channels{kRows, kTokens, kValues};
  const Type matrix{DType::f32, {1, kHeads, kKeyWidth, kValues}, {}};
  return {
      {.op = "causal_conv1d",
       .operands = {numbers(channels, -1, 1), parameter({kValues, 4}), parameter({kValues})},
       .attrs = {{"activation", std::string("silu")}},
       .state = {DType::f32, {1, 3, kValues}, {}}},
      // The parts of a row depend on the number of tokens in the call.
      {.op = "linear_scan",
       .operands = {numbers(channels, -0.2, 1), numbers(channels, -1, 1)},
       .attrs = {},
       .state = {DType::f32, {1, kValues}, {}},
       .same_bits = false},
      {.op = "matrix_scan",
       .operands = {numbers(keys, -1, 1), numbers(keys, -1, 1), numbers(values, -1, 1),
                    numbers(all_keys, -0.7, 0), numbers(keys, -0.3, 0.3),
                    numbers(all_keys, -0.3, 0.3)},
       .attrs = {{"scale", 0.5}},
       .state = matrix},
      {.op = "gated_delta_rule",
       .operands = {numbers(keys, -1, 1), numbers(keys, -1, 1), numbers(values, -1, 1),
                    numbers(heads, -0.7, 0), numbers(heads, 0, 1)},
       .attrs = {{"normalize", std::int64_t{1}}},
       .state = matrix},
  };
}

// Rows [row, row + rows) and tokens [begin, end) of a [kRows, kTokens, ...] array.
Array part_of(const Array& a, std::int64_t row, std::int64_t rows, std::int64_t begin,
              std::int64_t end) {
  Type type = a.type;
  const std::int64_t token = type.bytes() / (type.dim(0) * type.dim(1));
  type.shape[0] = rows, type.shape[1] = end - begin;
  Array out = zeros(type);
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(a.bytes.begin() + ((row + r) * a.type.dim(1) + begin) * token,
                (end - begin) * token, out.bytes.begin() + r * (end - begin) * token);
  return out;
}

std::vector<Array> operands_of(const Mixer& m, std::int64_t row, std::int64_t rows,
                               std::int64_t begin, std::int64_t end) {
  std::vector<Array> out;
  for (const Operand& x : m.operands)
    out.push_back(x.per_token ? part_of(x.numbers, row, rows, begin, end) : x.numbers);
  return out;
}

// Runs an op of these inputs, in the places given by the names.
std::vector<Array> run_op(const std::string& op, const std::vector<Array>& inputs,
                          const std::vector<std::string>& more_names,
                          const std::vector<Array>& more, const Attrs& attrs) {
  Graph graph;
  const auto& places = ops::get(op).inputs;
  std::vector<Tensor> operands(places.size());
  std::vector<Array> all = inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    operands[i] = graph.add_input("in", inputs[i].type);
  for (std::size_t i = 0; i < more.size(); ++i)
    for (std::size_t place = 0; place < places.size(); ++place)
      if (places[place].name == more_names[i]) {
        operands[place] = graph.add_input("in", more[i].type);
        all.push_back(more[i]);
      }
  for (Tensor t : graph.add_node(ops::get(op), operands, attrs)) graph.add_output("out", t);
  return run(graph, all, test_gpu());
}

Array whole_result(const Mixer& m, std::int64_t row, std::int64_t rows) {
  return run_op(m.op, operands_of(m, row, rows, 0, kTokens), {}, {}, m.attrs)[0];
}

TEST_P(Mixers, RowsOfABatchEqualRowsAlone) {
  const Mixer& m = GetParam();
  const Array batch = whole_result(m, 0, kRows);
  for (std::int64_t row = 0; row < kRows; ++row)
    EXPECT_EQ(part_of(batch, row, 1, 0, kTokens).bytes, whole_result(m, row, 1).bytes)
        << "row " << row;
}

TEST_P(Mixers, CallsOfAnySizeEqualOneCall) {
  const Mixer& m = GetParam();
  const Array want = whole_result(m, 0, 1);
  Array state = zeros(m.state);
  for (std::byte& byte : state.bytes) byte = std::byte{0x3f};  // old contents
  std::int64_t done = 0;
  for (std::int64_t size : {1, 17, 1, 16, 3, 2}) {
    const Array start = array({DType::i32, {1}, {}}, {static_cast<double>(done)});
    const Array count = array({DType::i32, {1}, {}}, {static_cast<double>(size)});
    const char* const state_name = m.op == "causal_conv1d" ? "window" : "state";
    const std::vector<Array> got =
        run_op(m.op + "_step", operands_of(m, 0, 1, done, done + size),
               {"start", "count", state_name}, {start, count, state}, m.attrs);
    const Array expected = part_of(want, 0, 1, done, done + size);
    if (m.same_bits) {
      EXPECT_EQ(got[0].bytes, expected.bytes) << "after " << done << " tokens";
    }
    for (std::int64_t i = 0; i < expected.type.num_elements(); ++i)
      ASSERT_NEAR(get(got[0], i), get(expected, i), 1e-5) << "after " << done << " tokens";
    state = got[1];
    done += size;
  }
  EXPECT_EQ(done, kTokens);
}

// The gradients of operands of tokens; gradients of parameters are sums over rows.
TEST_P(Mixers, GradientsOfABatchEqualGradientsOfRows) {
  const Mixer& m = GetParam();
  std::mt19937 random(9);
  const Array dy = random_array(whole_result(m, 0, kRows).type, random);
  const auto gradients = [&](std::int64_t row, std::int64_t rows) {
    return run_op(m.op + "_grad", operands_of(m, row, rows, 0, kTokens), {"dy"},
                  {part_of(dy, row, rows, 0, kTokens)}, m.attrs);
  };
  const std::vector<Array> batch = gradients(0, kRows);
  for (std::int64_t row = 0; row < kRows; ++row) {
    const std::vector<Array> alone = gradients(row, 1);
    for (std::size_t i = 0; i < m.operands.size(); ++i)
      if (m.operands[i].per_token) {
        EXPECT_EQ(part_of(batch[i], row, 1, 0, kTokens).bytes, alone[i].bytes)
            << "row " << row << ", gradient " << i;
      }
  }
}

// So many that a part of the sums for dw has several tiles.
TEST(ManyTaps, HaveTheGradientsOfTheCpu) {
  constexpr std::int64_t kManyTokens = 900, kChannels = 520, kTaps = 40;
  std::mt19937 random(5);
  const Type x{DType::f32, {1, kManyTokens, kChannels}, {}}, w{DType::f32, {kChannels, kTaps}, {}};
  const std::vector<Array> inputs = {random_array(x, random), random_array(w, random),
                                     random_array(x, random)};
  Graph graph;
  std::vector<Tensor> in;
  for (const Array& a : inputs) in.push_back(graph.add_input("in", a.type));
  const auto grads = ops::causal_conv1d_grad(
      {.x = in[0], .w = in[1], .bias = {}, .segments = {}, .dy = in[2]}, {.activation = "silu"});
  graph.add_output("dx", grads.dx);
  graph.add_output("dw", grads.dw);
  const std::vector<Array> got = run(graph, inputs, test_gpu());
  const std::vector<Array> want = run(graph, inputs);
  for (std::size_t i = 0; i < want.size(); ++i)
    for (std::int64_t e = 0; e < want[i].type.num_elements(); ++e)
      ASSERT_NEAR(get(got[i], e), get(want[i], e), 1e-3) << "gradient " << i << ", element " << e;
}

INSTANTIATE_TEST_SUITE_P(All, Mixers, ::testing::ValuesIn(all_mixers()),
                         [](const auto& mixer) { return mixer.param.op; });

}  // namespace
}  // namespace lamina::testing
