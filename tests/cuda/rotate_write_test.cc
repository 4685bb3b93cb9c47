// Rotations fused with writes to caches, on the emulated GPU: the bits of one op at a time.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "cuda/gpu.h"
#include "formats/row_formats.h"
#include "ops/op.h"
#include "passes/count_ops.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64};

class RandomWrites {
 public:
  explicit RandomWrites(unsigned seed) : random_(seed) {}

  // Adds rotations and writes of random shapes. Values or queries are sometimes missing; keys
  // sometimes do not rotate.
  void build() {
    const std::int64_t batch = any({1, 2, 3}), tokens = any({1, 1, 2, 5});
    const std::int64_t width = any({4, 6, 8, 13, 32, 64});
    const std::int64_t half = any({1, width / 4, width / 2});
    const std::int64_t heads = any({1, 2, 3}), slots = any({7, 8, 12});
    const DType dtype = kTypes[random_() % 4];
    const bool may_be_rounded = dtype == DType::f32 || dtype == DType::bf16;
    const bool is_rounded = may_be_rounded && one_of(2);
    const formats::RowNumbers numbers =
        one_of(2) ? formats::RowNumbers::int8 : formats::RowNumbers::e4m3;
    const bool interleaved = one_of(2);
    const Tensor table = input({DType::f32, {2, batch, tokens, half}, {}});
    const Tensor start = input({DType::i32, {batch}, {}});
    ops::CacheWriteAttrs attrs{.ring = one_of(2)};
    if (one_of(3)) attrs.first = 1, attrs.slots = slots - 2;
    const auto rotated = [&](Tensor x) {
      return ops::rotate(x, table, {.interleaved = interleaved});
    };
    const auto write = [&](Tensor rows, Shape slot) {
      Type type{dtype, slot, {}};
      if (is_rounded) type = type.stored_as(formats::row_format(numbers, type.dim(-1)));
      const Tensor cache = input(type);
      graph.add_output("cache", ops::cache_write(cache, rows, start, attrs),
                       static_cast<int>(graph.inputs().size()) - 1);
    };
    const Tensor k = input({dtype, {batch, tokens, heads, width}, {}});
    const bool rotates = !one_of(4), has_values = !one_of(4), has_queries = !one_of(4);
    if (has_queries)
      graph.add_output("q", rotated(input({dtype, {batch, tokens, 2 * heads, width}, {}})));
    write(rotates || !has_values ? rotated(k) : k, {batch, slots, heads, width});
    if (has_values) {
      const std::int64_t values = any({1, 3, 16});
      write(input({dtype, {batch, tokens, heads, values}, {}}), {batch, slots, heads, values});
    }
  }

  // Any bits, so also numbers that are not finite; slots are sometimes outside of the cache.
  std::vector<Array> inputs() {
    std::vector<Array> out;
    for (const GraphInput& input : graph.inputs()) {
      const Type& type = graph.type(input.value);
      Array x = type.storage ? zeros(type) : random_array(type, random_, -2, 9);
      if (type.dtype != DType::i32)
        for (std::byte& byte : x.bytes)
          if (one_of(8)) byte = static_cast<std::byte>(random_());
      out.push_back(std::move(x));
    }
    return out;
  }

  Graph graph;

 private:
  std::int64_t any(std::initializer_list<std::int64_t> values) {
    return values.begin()[random_() % values.size()];
  }
  bool one_of(unsigned count) { return random_() % count == 0; }
  Tensor input(const Type& type) { return graph.add_input("in", type); }

  std::mt19937 random_;
};

// Sets the bits of NaNs to one value: which NaN a product with one gives is not specified.
Array with_one_nan(Array x) {
  if (!is_floating(x.type.dtype) || x.type.storage) return x;
  for (std::int64_t i = 0; i < x.type.num_elements(); ++i)
    if (std::isnan(get(x, i))) set(x, i, std::numeric_limits<double>::quiet_NaN());
  return x;
}

TEST(RotateWrites, OfAnyShapeHaveTheBitsOfSeparateKernels) {
  for (unsigned seed = 0; seed < 120; ++seed) {
    RandomWrites writes(seed);
    writes.build();
    const std::vector<Array> inputs = writes.inputs();
    const Graph fused = optimized_for(test_gpu(), writes.graph);
    EXPECT_EQ(count_ops(fused, "rotate_write"), 1) << to_string(fused);
    EXPECT_EQ(count_ops(fused, "rotate") + count_ops(fused, "cache_write"), 0) << to_string(fused);
    const std::vector<Array> got = run_unoptimized(fused, inputs, test_gpu());
    const std::vector<Array> want = run_unoptimized(writes.graph, inputs, test_gpu());
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(with_one_nan(got[i]).bytes, with_one_nan(want[i]).bytes)
          << "output " << i << ", seed " << seed << "\n"
          << to_string(fused);
  }
}

// A prompt that is written in pieces is the prompt that is written at once.
TEST(RotateWrites, PiecesOfAPromptGiveTheCacheOfOneCall) {
  constexpr std::int64_t kTokens = 11, kHeads = 2, kWidth = 16, kSlots = 12;
  std::mt19937 random(4);
  const auto run_piece = [&](const Array& k, const Array& v, const Array& table, const Array& start,
                             const Array& k_cache, const Array& v_cache) {
    Graph g;
    std::vector<Array> inputs = {k, v, table, start, k_cache, v_cache};
    std::vector<Tensor> in;
    for (const Array& x : inputs) in.push_back(g.add_input("in", x.type));
    g.add_output("k", ops::cache_write(in[4], ops::rotate(in[0], in[2]), in[3]), 4);
    g.add_output("v", ops::cache_write(in[5], in[1], in[3]), 5);
    EXPECT_EQ(count_ops(optimized_for(test_gpu(), g), "rotate_write"), 1);
    return run(g, inputs, test_gpu());
  };
  const Type rows{DType::bf16, {1, kTokens, kHeads, kWidth}, {}};
  const Type slots{DType::bf16, {1, kSlots, kHeads, kWidth}, {}};
  const Array k = random_array(rows, random), v = random_array(rows, random);
  const Array table = random_array({DType::f32, {2, 1, kTokens, kWidth / 2}, {}}, random);
  const auto start_at = [](std::int64_t token) {
    return array({DType::i32, {1}, {}}, {static_cast<double>(token)});
  };
  const std::vector<Array> want = run_piece(k, v, table, start_at(0), zeros(slots), zeros(slots));
  std::vector<Array> caches = {zeros(slots), zeros(slots)};
  std::int64_t done = 0;
  for (const std::int64_t size : {4, 1, 1, 5}) {
    // Tokens [done, done + size) of each [planes, kTokens, ...].
    const auto piece = [&](const Array& x, int dim) {
      Graph g;
      g.add_output("y", ops::slice(g.add_input("x", x.type), dim, done, size));
      return run(g, {x})[0];
    };
    caches =
        run_piece(piece(k, 1), piece(v, 1), piece(table, 2), start_at(done), caches[0], caches[1]);
    done += size;
  }
  EXPECT_EQ(caches[0].bytes, want[0].bytes);
  EXPECT_EQ(caches[1].bytes, want[1].bytes);
}

}  // namespace
}  // namespace lamina::testing
