// Inputs that are stored in blocks, and the widening before ops that need plain values.
#include "passes/store_inputs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "ops/op.h"
#include "passes/count_ops.h"
#include "passes/pipeline.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

using Storages = std::vector<const formats::BlockFormat*>;

const formats::BlockFormat* q8_0() { return formats::find_block_format(8); }

const Type kRows{DType::f32, {2, 32}, {}}, kMatrix{DType::f32, {32, 32}, {}},
    kMatrices{DType::f32, {3, 32, 32}, {}};

// x' = linear(x, w[i]) (+ x exp(w[i])^T) for three layers.
Graph layers(bool also_plain) {
  auto body = std::make_shared<Graph>();
  Tensor x = body->add_input("x", kRows), w = body->add_input("w", kMatrix);
  Tensor y = ops::linear(x, w);
  if (also_plain) y = y + ops::matmul(x, ops::exp(w), false, true);
  body->add_output("x", y);
  Graph g;
  auto made = ops::call_all("scan", {g.add_input("x", kRows), g.add_input("w", kMatrices)},
                            {{"body", std::shared_ptr<const Graph>(body)},
                             {"times", std::int64_t{3}},
                             {"num_carries", std::int64_t{1}}});
  g.add_output("x", made[0]);
  return g;
}

// Blocks of Q8_0 with random values, and the same values as f32.
struct StoredArray {
  Array stored, plain;
};

StoredArray random_blocks(const Type& type, unsigned seed) {
  std::mt19937 random(seed);
  StoredArray out{zeros(type.stored_as(q8_0())), zeros(type)};
  std::byte* block = static_cast<std::byte*>(out.stored.data());
  float* values = static_cast<float*>(out.plain.data());
  for (std::int64_t i = 0; i < type.num_elements(); i += 32) {
    const std::uint16_t scale = 0x2400;  // 2^-6
    std::memcpy(block, &scale, sizeof scale);
    for (int b = 2; b < 34; ++b) block[b] = static_cast<std::byte>(random() % 64);
    q8_0()->widen(block, values + i);
    block += 34;
  }
  return out;
}

TEST(StoreInputs, OnlyUsesThatReadBlocksMakeAnInputStorable) {
  EXPECT_EQ(passes::storable_inputs(layers(false)), (std::vector{false, true}));
  EXPECT_EQ(passes::storable_inputs(layers(true)), (std::vector{false, false}));
}

TEST(StoreInputs, AnOutputIsNotStorable) {
  Graph g;
  g.add_output("w", g.add_input("w", kMatrix));
  EXPECT_EQ(passes::storable_inputs(g), std::vector{false});
}

TEST(StoreInputs, ProductsInBodiesReadBlocks) {
  const Graph g = passes::store_inputs(layers(false), Storages{nullptr, q8_0()});
  verify(g, "storing");
  EXPECT_EQ(count_ops(g, "widen_stored"), 0);
  EXPECT_EQ(g.type(g.inputs()[1].value), kMatrices.stored_as(q8_0()));
  const Graph& body = *g.nodes().back().body();
  EXPECT_EQ(body.type(body.inputs()[1].value), kMatrix.stored_as(q8_0()));
}

TEST(StoreInputs, OtherUsesAreWidenedOnceInTheirBody) {
  const Graph g = passes::store_inputs(layers(true), Storages{nullptr, q8_0()});
  verify(g, "storing");
  EXPECT_EQ(count_ops(g, "widen_stored"), 1);
  EXPECT_EQ(count_ops(*g.nodes().back().body(), "widen_stored"), 1);
}

TEST(StoreInputs, ResultsHaveTheBitsOfPlainInputs) {
  std::mt19937 random(3);
  const Array x = random_array(kRows, random);
  const StoredArray w = random_blocks(kMatrices, 4);
  for (const bool also_plain : {false, true}) {
    const Graph plain = layers(also_plain);
    const Graph stored = passes::store_inputs(plain, Storages{nullptr, q8_0()});
    EXPECT_EQ(run(plain, {x, w.plain})[0].bytes, run(stored, {x, w.stored})[0].bytes);
  }
}

TEST(StoreInputs, GroupsOfLinearsMixStorages) {
  Graph g;
  Tensor x = g.add_input("x", kRows);
  g.add_output("a", ops::linear(x, g.add_input("a", kMatrix)));
  g.add_output("b", ops::linear(x, g.add_input("b", kMatrix)));
  std::mt19937 random(5);
  const Array rows = random_array(kRows, random), plain_a = random_array(kMatrix, random);
  const StoredArray b = random_blocks(kMatrix, 6);
  const Graph stored = passes::store_inputs(g, Storages{nullptr, nullptr, q8_0()});
  const Graph grouped = optimized_for(cpu::cpu_backend(), stored);
  verify(grouped, "optimising");
  EXPECT_EQ(count_ops(grouped, "linear_group"), 1);
  const auto want = run(g, {rows, plain_a, b.plain}), got = run(stored, {rows, plain_a, b.stored});
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(want[i].bytes, got[i].bytes);
}

}  // namespace
}  // namespace lamina::testing
