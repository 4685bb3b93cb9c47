// moba_mask: the chunks chosen by queries.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "ops/tensor.h"
#include "support/op_cases.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

AttrValue number(std::int64_t n) { return n; }

OpCase choose(std::string name, std::int64_t tokens, std::int64_t keys, std::vector<In> optional,
              std::int64_t chunk, std::int64_t k) {
  OpCase c{.name = std::move(name),
           .inputs = {{.shape = {2, tokens, 4, 6}}, {.shape = {2, keys, 2, 6}}},
           .attrs = {{"chunk", number(chunk)}, {"k", number(k)}}};
  c.inputs.insert(c.inputs.end(), optional.begin(), optional.end());
  c.gradient = false;
  return c;
}

const In kPositions = ints({2, 7}, {0, 1, 2, 3, 0, 1, 0, 0, 0, 1, 2, 0, 1, 2});
const In kSegments = ints({2, 7}, {1, 1, 1, 1, 2, 2, 0, 1, 2, 2, 2, 3, 3, 3});

// Keys of one channel, a chunk each. A query sees its own chunk, then those whose gate is NaN.
OpCase choose_nan(std::int64_t k, std::vector<double> mask) {
  return {.name = "NaN in keys, " + std::to_string(k) + " of four chunks",
          .inputs = {{.shape = {1, 4, 1, 1}, .values = {1, 1, 1, 1}},
                     {.shape = {1, 4, 1, 1}, .values = {NAN, 5, NAN, 1}}},
          .attrs = {{"chunk", number(1)}, {"k", number(k)}},
          .expect = [mask](const std::vector<Doubles>&) { return std::vector<Doubles>{mask}; },
          .gradient = false};
}

const OpCases kCases = {
    .op = "moba_mask",
    .cases = {choose("one of its own", 7, 7, {}, 3, 1), choose("two", 7, 7, {}, 2, 2),
              choose("all", 7, 7, {}, 2, 9), choose("one chunk", 5, 5, {}, 64, 2),
              choose("chunks of four", 12, 12, {}, 4, 2), choose("no tokens", 0, 0, {}, 4, 2),
              choose("documents", 7, 7, {kPositions, kPositions, kSegments, kSegments}, 2, 2),
              choose("decode state", 2, 11, {kAbsent, kAbsent, kAbsent, kAbsent, ints({2}, {3, 9})},
                     3, 2),
              choose_nan(1, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}),
              choose_nan(2, {1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1}),
              choose_nan(3, {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 0, 1, 1})}};
LAMINA_TEST_OP(MobaMask, kCases)

// Documents in one row: 9 tokens, 7, 1 and padding. Each has the same chunks as alone.
TEST(MobaMask, OfPackedDocumentsEqualsSeparateOnes) {
  constexpr std::int64_t kTokens = 19, kHeads = 4, kKv = 2, kWidth = 6, kChunk = 3, kBest = 2;
  std::vector<double> segments, positions;
  for (auto [segment, size] : {std::pair{1, 9}, {2, 7}, {3, 1}, {0, 2}})
    for (int i = 0; i < size; ++i) segments.push_back(segment), positions.push_back(i);
  std::mt19937 random(3);
  const Type q_type{DType::f32, {1, kTokens, kHeads, kWidth}, {}};
  const Type k_type{DType::f32, {1, kTokens, kKv, kWidth}, {}}, ids{DType::i32, {1, kTokens}, {}};
  const Array q = random_array(q_type, random), k = random_array(k_type, random);
  const Array place = array(ids, positions), document = array(ids, segments);
  Graph graph;
  Tensor in[] = {graph.add_input("q", q_type), graph.add_input("k", k_type),
                 graph.add_input("positions", ids), graph.add_input("segments", ids)};
  graph.add_output("mask", ops::call("moba_mask", {in[0], in[1], in[2], in[2], in[3], in[3]},
                                     {{"chunk", kChunk}, {"k", kBest}}));
  const std::vector<double> got = to_doubles(run(graph, {q, k, place, document})[0]);

  const std::vector<double> qs = to_doubles(q), ks = to_doubles(k);
  auto chunk_of = [&](std::int64_t t) {
    return static_cast<std::int64_t>(positions[static_cast<std::size_t>(t)]) / kChunk;
  };
  auto together = [&](std::int64_t t, std::int64_t s) {
    return segments[static_cast<std::size_t>(t)] == segments[static_cast<std::size_t>(s)];
  };
  for (std::int64_t n = 0; n < kHeads; ++n)
    for (std::int64_t t = 0; t < 17; ++t) {
      std::map<std::int64_t, std::pair<double, int>> gates;  // sum and count, by chunk
      for (std::int64_t s = 0; s < kTokens; ++s) {
        if (!together(t, s) || chunk_of(s) > chunk_of(t)) continue;
        auto& [sum, count] = gates[chunk_of(s)];
        ++count;
        for (std::int64_t h = 0; h < kWidth; ++h)
          sum += qs[static_cast<std::size_t>((t * kHeads + n) * kWidth + h)] *
                 ks[static_cast<std::size_t>((s * kKv + n / 2) * kWidth + h)];
      }
      std::vector<std::pair<double, std::int64_t>> order;
      for (auto& [chunk, gate] : gates)
        order.emplace_back(chunk == chunk_of(t) ? -std::numeric_limits<double>::infinity()
                                                : -gate.first / gate.second,
                           chunk);
      std::ranges::sort(order);
      order.resize(std::min<std::size_t>(order.size(), kBest));
      for (std::int64_t s = 0; s < kTokens; ++s) {
        const bool chosen = together(t, s) && std::ranges::any_of(order, [&](const auto& best) {
                              return best.second == chunk_of(s);
                            });
        EXPECT_EQ(got[static_cast<std::size_t>((n * kTokens + t) * kTokens + s)], chosen ? 1 : 0)
            << "head " << n << ", query " << t << ", key " << s;
      }
    }
}

}  // namespace
}  // namespace lamina::testing
