// Fusing rotations with the writes to caches.
#include "passes/fuse_cache_writes.h"

#include <gtest/gtest.h>

#include "ops/op.h"
#include "passes/count_ops.h"
#include "passes/dead_code.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kSlots = 6, kTokens = 2, kWidth = 8;

Type rows_of(std::int64_t heads, DType dtype = DType::f32) {
  return {dtype, {1, kTokens, heads, kWidth}, {}};
}

// A graph with the operands of layers.
struct Layers {
  Graph g;
  Tensor table = g.add_input("table", {DType::f32, {2, 1, kTokens, kWidth / 2}, {}});
  Tensor start = g.add_input("start", {DType::i32, {1}, {}});

  Tensor rows(std::int64_t heads) { return g.add_input("rows", rows_of(heads)); }
  Tensor rotated(Tensor x) { return ops::rotate(x, table); }
  // Writes to another cache of slots like the rows, which is an output.
  Tensor written(Tensor rows, const ops::CacheWriteAttrs& attrs = {}) {
    Type type = rows.type();
    type.shape[1] = kSlots;
    const Tensor cache = g.add_input("cache", type);
    const Tensor out = ops::cache_write(cache, rows, start, attrs);
    g.add_output("cache", out, static_cast<int>(g.inputs().size()) - 1);
    return out;
  }
};

Graph with_writes_fused(const Graph& g) {
  Graph out = passes::remove_dead_code(passes::fuse_cache_writes(g));
  verify(out, "fusing");
  return out;
}

// Expects these numbers of ops after the pass, and the same bits.
void expect_ops(const Graph& g, int rotate_writes, int rotations, int writes) {
  const Graph out = with_writes_fused(g);
  EXPECT_EQ(count_ops(out, "rotate_write"), rotate_writes);
  EXPECT_EQ(count_ops(out, "rotate"), rotations);
  EXPECT_EQ(count_ops(out, "cache_write"), writes);
  std::mt19937 random(3);
  std::vector<Array> inputs;
  for (const GraphInput& input : g.inputs())
    inputs.push_back(random_array(g.type(input.value), random, 0, 3));
  const std::vector<Array> want = run_unoptimized(g, inputs), got = run(out, inputs);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].bytes, want[i].bytes) << i;
}

TEST(FuseCacheWrites, KeysValuesAndQueriesBecomeOne) {
  Layers l;
  l.g.add_output("q", l.rotated(l.rows(4)));
  l.written(l.rotated(l.rows(2)));
  l.written(l.rows(2));
  expect_ops(l.g, 1, 0, 0);
}

TEST(FuseCacheWrites, QueriesThatRotateAfterTheKeysAreIncluded) {
  Layers l;
  l.written(l.rotated(l.rows(2)));
  l.written(l.rows(2));
  l.g.add_output("q", l.rotated(l.rows(4)));
  expect_ops(l.g, 1, 0, 0);
}

TEST(FuseCacheWrites, LatentsWithoutHeadsAreFoundBehindAReshape) {
  Layers l;
  l.g.add_output("q", l.rotated(l.rows(4)));
  l.written(ops::reshape(l.rows(1), {1, kTokens, kWidth}));
  l.written(ops::reshape(l.rotated(l.rows(1)), {1, kTokens, kWidth}));
  expect_ops(l.g, 1, 0, 0);
}

TEST(FuseCacheWrites, WritesWithoutRotationsBecomeOne) {
  Layers l;
  l.written(l.rows(2));
  l.written(l.rows(3));
  expect_ops(l.g, 1, 0, 0);
}

TEST(FuseCacheWrites, ALoneWriteStays) {
  Layers l;
  l.written(l.rows(2));
  expect_ops(l.g, 0, 0, 1);
}

TEST(FuseCacheWrites, RowsThatAreWrittenTwiceRotateInBoth) {
  Layers l;
  const Tensor rows = l.rotated(l.rows(1));
  l.written(rows);
  l.written(rows);
  expect_ops(l.g, 1, 0, 0);
}

TEST(FuseCacheWrites, ARotationThatIsReadElsewhereStays) {
  Layers l;
  const Tensor k = l.rotated(l.rows(2));
  l.written(k);
  l.written(l.rows(2));
  l.g.add_output("k", ops::exp(k));
  expect_ops(l.g, 1, 1, 0);
}

TEST(FuseCacheWrites, NodesThatReadAResultFollow) {
  Layers l;
  const Tensor q = ops::exp(l.rotated(l.rows(4)));
  const Tensor k = ops::exp(l.rows(2));
  l.g.add_output("q", ops::exp(q));
  l.written(l.rotated(k));
  expect_ops(l.g, 1, 0, 0);
}

TEST(FuseCacheWrites, QueriesAreFoundBeforeARotationThatTheWriteNeeds) {
  Layers l;
  l.g.add_output("q", l.rotated(l.rows(4)));
  l.written(ops::exp(l.rotated(l.rows(2))));
  l.written(l.rows(2));
  expect_ops(l.g, 1, 1, 0);
}

// As a layer's queries depend on the cache of the layer before it.
TEST(FuseCacheWrites, EachLayerIsFusedAlone) {
  Layers l;
  Tensor x = l.rows(2);
  for (int layer = 0; layer < 3; ++layer) {
    const Tensor q = l.rotated(x);
    const Tensor k = l.written(l.rotated(ops::exp(x)));
    const Tensor v = l.written(ops::exp(x));
    x = q + ops::slice(k, 1, 0, kTokens) + ops::slice(v, 1, 0, kTokens);
  }
  l.g.add_output("x", x);
  expect_ops(l.g, 3, 0, 0);
}

TEST(FuseCacheWrites, WritesToOtherSlotsStayApart) {
  Layers l;
  l.written(l.rotated(l.rows(2)));
  l.written(l.rows(2), {.first = 1});
  l.start = l.g.add_input("start", l.start.type());
  l.written(l.rows(2));
  expect_ops(l.g, 1, 0, 2);
}

// A node between the writes of one group reads its result, so the others cannot be computed there.
TEST(FuseCacheWrites, WritesBetweenTwoThatAreFusedStay) {
  Layers l;
  const Tensor first = l.written(l.rows(1));
  l.g.add_output("y", ops::exp(first));
  l.written(l.rows(2), {.first = 1});
  l.written(l.rows(2), {.first = 1});
  l.written(l.rows(2));
  expect_ops(l.g, 1, 0, 2);
}

TEST(FuseCacheWrites, ARotationBetweenTwoFusedWritesStays) {
  Layers l;
  const Tensor first = l.written(l.rows(1));
  l.written(l.rotated(ops::slice(first, 1, 0, kTokens)), {.first = 1});
  l.written(l.rows(2));
  expect_ops(l.g, 1, 1, 1);
}

TEST(FuseCacheWrites, RotationsByOtherTablesStayApart) {
  Layers l;
  l.written(l.rotated(l.rows(2)));
  l.table = l.g.add_input("table", l.table.type());
  l.g.add_output("q", l.rotated(l.rows(4)));
  expect_ops(l.g, 1, 1, 0);
}

TEST(FuseCacheWrites, RotationsOfOtherPairsOrBackwardsStayApart) {
  Layers l;
  l.written(l.rotated(l.rows(2)));
  l.g.add_output("pairs", ops::rotate(l.rows(4), l.table, {.interleaved = true}));
  l.g.add_output("back", ops::rotate(l.rows(4), l.table, {.inverse = true}));
  expect_ops(l.g, 1, 2, 0);
}

TEST(FuseCacheWrites, OtherTypesStayApart) {
  Layers l;
  l.written(l.rotated(l.rows(2)));
  l.written(ops::cast(l.rows(2), DType::f64));
  l.g.add_output("q", l.rotated(l.g.add_input("q", rows_of(4, DType::bf16))));
  expect_ops(l.g, 1, 1, 1);
}

TEST(FuseCacheWrites, ACacheThatIsReadBeforeTheWriteStays) {
  Layers l;
  const Type type{DType::f32, {1, kSlots, 2, kWidth}, {}};
  const Tensor cache = l.g.add_input("cache", type);
  l.g.add_output("before", ops::exp(cache));
  l.g.add_output("after", ops::cache_write(cache, l.rotated(l.rows(2)), l.start));
  expect_ops(l.g, 0, 1, 1);
}

TEST(FuseCacheWrites, WritesToOneCacheStayInTheirOrder) {
  Layers l;
  const Tensor first =
      ops::cache_write(l.g.add_input("cache", {DType::f32, {1, kSlots, 2, 3}, {}}),
                       l.g.add_input("a", {DType::f32, {1, kTokens, 2, 3}, {}}), l.start);
  l.g.add_output(
      "y",
      ops::cache_write(first, l.g.add_input("b", {DType::f32, {1, kTokens, 2, 3}, {}}), l.start));
  expect_ops(l.g, 0, 0, 2);
}

// A rotation moves to the write of its result, behind a write over its operand.
TEST(FuseCacheWrites, ARotationWithAnOperandThatIsWrittenOverStays) {
  Layers l;
  const Tensor x = ops::exp(l.rows(2));
  const Tensor rotated = l.rotated(x);
  l.g.add_output("x", ops::cache_write(x, ops::slice(l.rows(2), 1, 0, 1), l.start));
  l.written(rotated);
  l.written(l.rows(2));
  expect_ops(l.g, 1, 1, 1);
}

}  // namespace
}  // namespace lamina::testing
