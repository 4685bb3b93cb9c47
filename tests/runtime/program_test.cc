// Programs: the placement of values, which never changes results.
#include "runtime/program.h"

#include <gtest/gtest.h>

#include "ops/op.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

const Type kRow{DType::f32, {5}, {}};
Array row(std::initializer_list<double> values) { return array(kRow, values); }

TEST(Program, Example) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  g.add_output("y", ops::shift(ops::scale(x, 2), 1));
  EXPECT_EQ(to_doubles(run(g, {row({0, 1, 2, 3, 4})})[0]), (Doubles{1, 3, 5, 7, 9}));
}

TEST(Program, DeadOperandIsWrittenOver) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  // cumsum cannot be computed in place.
  g.add_output("y", ops::cumsum(ops::neg(ops::exp(ops::neg(x))), {.dim = 0}));
  Program program(g, cpu::cpu_backend());
  // Three temporaries share one place.
  EXPECT_EQ(program.arena_bytes(), 64u);
  EXPECT_EQ(program.unshared_bytes(), 64u);
}

TEST(Program, OperandsOfAnOutputAreMadeInItsPlace) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  g.add_output("y", ops::neg(ops::exp(ops::neg(x))) + x);
  Program program(g, cpu::cpu_backend());
  EXPECT_EQ(program.arena_bytes(), 0u);
  const auto out = run(program, cpu::cpu_backend(), {row({0, 0, 0, 0, 0})});
  EXPECT_EQ(to_doubles(out[0]), (Doubles{-1, -1, -1, -1, -1}));
}

TEST(Program, OperandsOfSeveralOutputsHaveDifferentPlaces) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  Tensor a = ops::scale(x, 2), b = ops::scale(x, 3);
  g.add_output("sum", a + b);
  g.add_output("product", ops::scale(x, 4) * ops::shift(x, 1));
  const auto out = run_unoptimized(g, {row({1, 2, 3, 4, 5})});
  EXPECT_EQ(to_doubles(out[0]), (Doubles{5, 10, 15, 20, 25}));
  EXPECT_EQ(to_doubles(out[1]), (Doubles{8, 24, 48, 80, 120}));
}

// t is read again after the first output exists.
TEST(Program, OperandOfAnOutputThatIsReadLaterHasItsOwnPlace) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  Tensor t = ops::scale(x, 2);
  g.add_output("y", ops::neg(t));
  g.add_output("z", ops::shift(t, 1));
  const auto out = run_unoptimized(g, {row({1, 2, 3, 4, 5})});
  EXPECT_EQ(to_doubles(out[0]), (Doubles{-2, -4, -6, -8, -10}));
  EXPECT_EQ(to_doubles(out[1]), (Doubles{3, 5, 7, 9, 11}));
}

TEST(Program, OperandThatIsReadLaterIsKept) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  Tensor a = ops::scale(x, 2), b = ops::scale(a, 3);
  g.add_output("y", a + b);
  EXPECT_EQ(to_doubles(run_unoptimized(g, {row({1, 2, 3, 4, 5})})[0]),
            (Doubles{8, 16, 24, 32, 40}));
}

// y = t - t[0]: the subtrahend is a view of the memory that must not be overwritten yet.
TEST(Program, OperandWithAViewAsAnotherOperandIsKept) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  Tensor t = ops::scale(x, 2);
  g.add_output("y", ops::scale(t - ops::slice(t, 0, 0, 1), 1.5));
  EXPECT_EQ(to_doubles(run_unoptimized(g, {row({1, 2, 3, 4, 5})})[0]), (Doubles{0, 3, 6, 9, 12}));
}

TEST(Program, InputIsNeverWrittenOver) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  g.add_output("y", ops::neg(x));
  Program program(g, cpu::cpu_backend());
  Array in = row({1, 2, 3, 4, 5}), before = in, out = zeros(kRow);
  const ConstTensorRef input = host_tensor(in.data(), kRow);
  const TensorRef output = host_tensor(out.data(), kRow);
  program.run(std::span(&input, 1), std::span(&output, 1), *cpu::cpu_backend().allocate(0));
  EXPECT_EQ(in.bytes, before.bytes);
}

TEST(Program, InputAndViewAndTwiceTheSameCanBeOutputs) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  Tensor y = ops::neg(x);
  g.add_output("x", x);
  g.add_output("view", ops::reshape(x, {5, 1}));
  g.add_output("y", y);
  g.add_output("again", y);
  g.add_output("part", ops::slice(y, 0, 1, 2));
  auto out = run_unoptimized(g, {row({1, 2, 3, 4, 5})});
  EXPECT_EQ(to_doubles(out[0]), (Doubles{1, 2, 3, 4, 5}));
  EXPECT_EQ(to_doubles(out[1]), (Doubles{1, 2, 3, 4, 5}));
  EXPECT_EQ(to_doubles(out[2]), (Doubles{-1, -2, -3, -4, -5}));
  EXPECT_EQ(out[2].bytes, out[3].bytes);
  EXPECT_EQ(to_doubles(out[4]), (Doubles{-2, -3}));
}

TEST(Program, AliasedOutputIsWrittenOverItsInput) {
  Graph g;
  Tensor state = g.add_input("state", kRow), x = g.add_input("x", kRow);
  g.add_output("state", state + x, 0);
  g.add_output("old plus one", ops::shift(state, 1));
  auto out = run_unoptimized(g, {row({1, 2, 3, 4, 5}), row({10, 10, 10, 10, 10})});
  EXPECT_EQ(to_doubles(out[0]), (Doubles{11, 12, 13, 14, 15}));
  EXPECT_EQ(to_doubles(out[1]), (Doubles{2, 3, 4, 5, 6}));
}

TEST(Program, AliasedOutputNeedsNoSeparateMemory) {
  Graph g;
  Tensor state = g.add_input("state", kRow), x = g.add_input("x", kRow);
  g.add_output("state", state + x, 0);
  EXPECT_EQ(Program(g, cpu::cpu_backend()).arena_bytes(), 0u);
}

TEST(Program, ViewOfTheStateCanBeItsUpdate) {
  Graph g;
  Tensor state = g.add_input("state", kRow), x = g.add_input("x", {DType::f32, {5, 1}, {}});
  g.add_output("state", ops::reshape(ops::neg(x), {5}), 0);
  auto out = run_unoptimized(g, {row({0, 0, 0, 0, 0}), array(x.type(), {1, 2, 3, 4, 5})});
  EXPECT_EQ(to_doubles(out[0]), (Doubles{-1, -2, -3, -4, -5}));
  EXPECT_EQ(state.graph, &g);
}

TEST(Program, InputThatIsReadAfterItsViewIsWrittenOverLater) {
  Graph g;
  Tensor state = g.add_input("state", kRow);
  g.add_output("state", ops::neg(ops::reshape(ops::reshape(state, {5, 1}), {5})), 0);
  g.add_output("old plus one", ops::shift(state, 1));
  auto out = run_unoptimized(g, {row({1, 2, 3, 4, 5})});
  EXPECT_EQ(to_doubles(out[0]), (Doubles{-1, -2, -3, -4, -5}));
  EXPECT_EQ(to_doubles(out[1]), (Doubles{2, 3, 4, 5, 6}));
}

TEST(Program, AliasedOutputsMaySwapTheirInputs) {
  Graph g;
  Tensor a = g.add_input("a", kRow), b = g.add_input("b", kRow);
  g.add_output("a", b, 0);
  g.add_output("b", a, 1);
  auto out = run_unoptimized(g, {row({1, 2, 3, 4, 5}), row({6, 7, 8, 9, 10})});
  EXPECT_EQ(to_doubles(out[0]), (Doubles{6, 7, 8, 9, 10}));
  EXPECT_EQ(to_doubles(out[1]), (Doubles{1, 2, 3, 4, 5}));
}

// x is read through its view after the first update, so it may not be made over that input.
TEST(Program, ValueIsKeptForTheUpdateThatIsAViewOfIt) {
  const Type matrix{DType::f32, {5, 1}, {}};
  Graph g;
  Tensor a = g.add_input("a", kRow);
  g.add_input("b", matrix);
  Tensor x = ops::neg(a);
  Tensor view = ops::reshape(x, matrix.shape);
  g.add_output("a", ops::cumsum(x, {.dim = 0}), 0);
  g.add_output("b", view, 1);
  const std::vector<Array> in{row({1, 2, 3, 4, 5}), array(matrix, {0, 0, 0, 0, 0})};
  for (const std::vector<Array>& out : {run_unoptimized(g, in), run(g, in)}) {
    EXPECT_EQ(to_doubles(out[0]), (Doubles{-1, -3, -6, -10, -15}));
    EXPECT_EQ(to_doubles(out[1]), (Doubles{-1, -2, -3, -4, -5}));
  }
}

TEST(Program, OptimizerStateIsUpdatedInPlace) {
  Graph g;
  Tensor p = g.add_input("p", kRow), grad = g.add_input("g", kRow);
  Tensor m = g.add_input("m", kRow), v = g.add_input("v", kRow);
  Tensor scalars = g.add_input("scalars", {DType::f32, {5}, {}});
  auto made = ops::call_all("adamw", {p, grad, m, v, scalars});
  g.add_output("p", made[0], 0);
  g.add_output("m", made[1], 2);
  g.add_output("v", made[2], 3);
  Program program(g, cpu::cpu_backend());
  EXPECT_EQ(program.arena_bytes(), 0u);
  auto out = run(program, cpu::cpu_backend(),
                 {row({1, 1, 1, 1, 1}), row({2, 0, 0, 0, -2}), row({0, 0, 0, 0, 0}),
                  row({0, 0, 0, 0, 0}), array(scalars.type(), {0.5, 1, 0.1, 0.001, 1})});
  // The first step moves by the learning rate against the sign of the gradient.
  EXPECT_NEAR(get(out[0], 0), 0.5, 1e-6);
  EXPECT_NEAR(get(out[0], 2), 1.0, 1e-6);
  EXPECT_NEAR(get(out[0], 4), 1.5, 1e-6);
  EXPECT_NEAR(get(out[1], 0), 0.2, 1e-6);
  EXPECT_NEAR(get(out[2], 4), 0.004, 1e-6);
}

TEST(Program, ResultForAnUnreadInputIsMadeInItsMemory) {
  Graph g;
  Tensor x = g.add_input("x", kRow);
  g.add_input("state", kRow);
  g.add_output("state", ops::exp(x), 1);
  Program program(g, cpu::cpu_backend());
  EXPECT_EQ(program.arena_bytes(), 0u);
  const auto out = run(program, cpu::cpu_backend(), {row({0, 0, 0, 0, 0}), row({5, 5, 5, 5, 5})});
  EXPECT_EQ(to_doubles(out[0]), (Doubles{1, 1, 1, 1, 1}));
}

// The input is read after the result exists, so the result is copied there at the end.
TEST(Program, ResultForAnInputThatIsReadLaterIsCopiedThere) {
  Graph g;
  Tensor x = g.add_input("x", kRow), state = g.add_input("state", kRow);
  Tensor next = ops::exp(x);
  g.add_output("sum", ops::cumsum(next, {.dim = 0}) + state);
  g.add_output("state", next, 1);
  const auto out = run_unoptimized(g, {row({0, 0, 0, 0, 0}), row({5, 5, 5, 5, 5})});
  EXPECT_EQ(to_doubles(out[0]), (Doubles{6, 7, 8, 9, 10}));
  EXPECT_EQ(to_doubles(out[1]), (Doubles{1, 1, 1, 1, 1}));
}

TEST(Program, CacheIsWrittenInPlaceAndReadAfterwards) {
  const Type cache_type{DType::f32, {1, 4, 1}, {}}, update_type{DType::f32, {1, 1, 1}, {}};
  Graph g;
  Tensor cache = g.add_input("cache", cache_type), update = g.add_input("update", update_type);
  Tensor start = g.add_input("start", {DType::i32, {1}, {}});
  Tensor written = ops::call("cache_write", {cache, update, start});
  g.add_output("cache", written, 0);
  g.add_output("sum", ops::reduce_sum(written, {0, 1, 2}));
  Program program(g, cpu::cpu_backend());
  auto out =
      run(program, cpu::cpu_backend(),
          {array(cache_type, {1, 2, 3, 4}), array(update_type, {30}), array(start.type(), {2})});
  EXPECT_EQ(to_doubles(out[0]), (Doubles{1, 2, 30, 4}));
  EXPECT_EQ(to_doubles(out[1]), (Doubles{37}));
}

// Layers of a scan may have any addresses: state over them is written in place.
TEST(Program, ScanTakesLayersInPieces) {
  auto body = std::make_shared<Graph>();
  Tensor c = body->add_input("c", kRow), w = body->add_input("w", kRow);
  Tensor s = body->add_input("state", kRow);
  body->add_output("c", c * w);
  body->add_output("state", s + c, 2);
  Graph g;
  const Type stacked = kRow.with(Shape{3, 5});
  auto made = ops::call_all(
      "scan", {g.add_input("c", kRow), g.add_input("w", stacked), g.add_input("state", stacked)},
      {{"body", std::shared_ptr<const Graph>(body)},
       {"times", std::int64_t{3}},
       {"num_carries", std::int64_t{1}}});
  g.add_output("c", made[0]);
  g.add_output("state", made[1], 2);
  Program program(g, cpu::cpu_backend());

  Array start = row({1, 1, 1, 1, 1}), end = zeros(kRow);
  std::vector<Array> weights = {row({2, 2, 2, 2, 2}), row({3, 3, 3, 3, 3}), row({1, 2, 3, 4, 5})};
  std::vector<Array> states(3, row({0, 0, 0, 0, 10}));
  std::vector<ConstTensorRef> weight_pieces, state_inputs;
  std::vector<TensorRef> state_pieces;
  for (Array& a : weights) weight_pieces.push_back(host_tensor(a.data(), a.type));
  for (Array& a : states) state_pieces.push_back(host_tensor(a.data(), a.type));
  state_inputs.assign(state_pieces.begin(), state_pieces.end());
  const std::vector<ConstBinding> in = {
      {host_tensor(start.data(), kRow), {}}, {{}, weight_pieces}, {{}, state_inputs}};
  const std::vector<Binding> out = {{host_tensor(end.data(), kRow), {}}, {{}, state_pieces}};
  auto arena = cpu::cpu_backend().allocate(program.arena_bytes());
  program.run(in, out, *arena);
  EXPECT_EQ(to_doubles(end), (Doubles{6, 12, 18, 24, 30}));
  EXPECT_EQ(to_doubles(states[0]), (Doubles{1, 1, 1, 1, 11}));
  EXPECT_EQ(to_doubles(states[2]), (Doubles{6, 6, 6, 6, 16}));
}

TEST(Program, RunsAgainWithTheSameResult) {
  Graph g;
  Tensor x = g.add_input("x", {DType::f32, {7, 9}, {}});
  Tensor y = ops::call("softmax", {ops::matmul(x, x, false, true)});
  g.add_output("y", ops::matmul(y, x));
  std::mt19937 random(4);
  Array in = random_array(x.type(), random);
  Program program(g, cpu::cpu_backend());
  Array first = run(program, cpu::cpu_backend(), {in})[0];
  EXPECT_EQ(first.bytes, run(program, cpu::cpu_backend(), {in})[0].bytes);
}

TEST(Program, ProfileCountsCalls) {
  Graph g;
  g.add_output("y", ops::exp(g.add_input("x", kRow)));
  Program program(g, cpu::cpu_backend());
  EXPECT_EQ(program.profile(), "");
  program.set_profiling(true);
  for (int i = 0; i < 3; ++i) run(program, cpu::cpu_backend(), {row({1, 2, 3, 4, 5})});
  EXPECT_NE(program.profile().find("3 calls  exp"), std::string::npos) << program.profile();
}

TEST(Program, ProfileCountsTheCallsOfABodyThatTwoScansShareOnce) {
  auto body = std::make_shared<Graph>();
  Tensor h = body->add_input("h", kRow), w = body->add_input("w", kRow);
  body->add_output("h", ops::cumsum(h * w, {.dim = 0}));
  Graph g;
  std::vector<Array> in{row({1, 2, 3, 4, 5})};
  Tensor x = g.add_input("x", kRow);
  for (std::int64_t times : {3, 2}) {
    in.push_back(array({DType::f32, {times, 5}, {}}, Doubles(static_cast<std::size_t>(times * 5))));
    x = ops::scan({x, g.add_input("w", in.back().type)},
                  {.body = body, .times = times, .num_carries = 1})[0];
  }
  g.add_output("y", x);
  Program program(g, cpu::cpu_backend());
  program.set_profiling(true);
  run(program, cpu::cpu_backend(), in);
  EXPECT_NE(program.profile().find(" 5 calls  cumsum"), std::string::npos) << program.profile();
}

}  // namespace
}  // namespace lamina::testing
