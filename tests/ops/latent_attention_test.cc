// Cases of latent attention: expanded in training, absorbed in decoding.
#include <cmath>

#include "backends/cpu/threads/isa.h"
#include "ops/op.h"
#include "support/op_cases.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

AttrValue number(std::int64_t n) { return n; }

struct Sizes {
  std::int64_t batch = 2, tokens = 5, keys = 5, heads = 3, nope = 4, rope = 2, value = 5, rank = 6;
};

// Inputs 0 to 3, and the attribute that divides q.
OpCase latent(std::string name, const Sizes& s, std::vector<In> optional = {}) {
  OpCase c{.name = std::move(name),
           .inputs = {{.shape = {s.batch, s.tokens, s.heads, s.nope + s.rope}},
                      {.shape = {s.batch, s.keys, s.rank}},
                      {.shape = {s.batch, s.keys, s.rope}},
                      {.shape = {s.heads * (s.nope + s.value), s.rank}}},
           .attrs = {{"nope_dim", number(s.nope)}}};
  c.inputs.insert(c.inputs.end(), optional.begin(), optional.end());
  return c;
}

OpCase with(OpCase c, std::string name, AttrValue value) {
  c.attrs.emplace_back(std::move(name), std::move(value));
  return c;
}

// bool[batch, tokens, keys].
In kept(const Sizes& s) {
  In in{.shape = {s.batch, s.tokens, s.keys}, .dtype = DType::boolean};
  for (std::int64_t i = 0; i < in.shape.num_elements(); ++i)
    in.values.push_back(i * 2654435761 % 7 < 5);
  return in;
}

const In kSegments = ints({2, 5}, {1, 1, 2, 2, 2, 1, 1, 1, 1, 0});

const OpCases kCases = {
    .op = "latent_attention",
    .cases = {latent("causal", {}), with(latent("everything", {}), "causal", number(0)),
              with(latent("scale", {}), "scale", 0.25),
              with(latent("soft cap", {}), "soft_cap", 0.4),
              latent("segments", {}, {kAbsent, kSegments}), latent("mask", {}, {kept({})}),
              latent("one token", {.tokens = 1, .keys = 1}),
              latent("no tokens", {.tokens = 0, .keys = 0})}};

OpCases over_state() {
  OpCases list{.op = "latent_attention_step"};
  auto add = [&](std::string name, const Sizes& s, std::vector<double> start, bool mask = false) {
    OpCase c =
        latent(std::move(name), s, {mask ? kept(s) : kAbsent, ints({s.batch}, std::move(start))});
    c.gradient = false;
    list.cases.push_back(std::move(c));
  };
  add("first token", {.tokens = 1, .keys = 9}, {0, 0});
  add("one token", {.tokens = 1, .keys = 9}, {3, 8});
  add("some tokens", {.tokens = 4, .keys = 9}, {0, 5});
  add("mask", {.tokens = 3, .keys = 12}, {9, 2}, true);
  add("odd rank", {.tokens = 2, .keys = 9, .rank = 7}, {1, 6});
  add("odd widths", {.tokens = 2, .keys = 9, .nope = 5, .rope = 3, .value = 7}, {1, 6});
  add("pairs of rows",
      {.tokens = 2, .keys = 9, .heads = 2, .nope = 16, .rope = 4, .value = 70, .rank = 160},
      {1, 6});
  add("several tiles",
      {.tokens = 2, .keys = 700, .heads = 21, .nope = 17, .rope = 4, .value = 70, .rank = 66},
      {640, 100});
  add("more tokens than are taken at once", {.batch = 3, .tokens = 50, .keys = 90}, {0, 40, 7},
      true);
  list.cases.push_back(with(list.cases[1], "scale", 0.3));
  for (const std::size_t capped : {1u, 2u, 8u})
    list.cases.push_back(with(list.cases[capped], "soft_cap", 0.4));
  return list;
}

const OpCases kState = over_state();

OpCase scores(std::string name, std::int64_t tokens, std::int64_t keys, std::int64_t heads,
              std::int64_t dim) {
  return {.name = std::move(name),
          .inputs = {{.shape = {2, tokens, heads, dim}},
                     {.shape = {2, keys, dim}},
                     {.shape = {2, tokens, heads}, .dtype = DType::f32, .widens = true}}};
}

const OpCases kScores = {
    .op = "index_scores",
    .cases = {scores("a few", 3, 5, 4, 6), scores("one token", 1, 9, 2, 3),
              scores("tiles of keys and heads", 2, 130, 70, 17), scores("no tokens", 0, 0, 2, 3)}};

// Keys of tokens, or of windows of tokens, in a longer state.
OpCase scores_so_far(std::string name, std::int64_t tokens, std::int64_t keys, std::int64_t stride,
                     std::vector<double> starts) {
  OpCase c = scores(std::move(name), tokens, keys, 3, 5);
  c.inputs.push_back(ints({2}, std::move(starts)));
  c.attrs = {{"stride", number(stride)}};
  c.gradient = false;
  return c;
}

const OpCases kScoresStep = {
    .op = "index_scores_step",
    .cases = {scores_so_far("the first token, and one in the middle", 1, 9, 1, {0, 4}),
              scores_so_far("several tokens, to the last slot", 3, 200, 1, {70, 197}),
              scores_so_far("windows, none of which has ended", 2, 4, 4, {0, 1}),
              scores_so_far("windows in several tiles", 5, 150, 3, {180, 400})}};

// Masks that keep a third of the earlier keys, and no key for one of the queries.
OpCase mass(std::string name, std::int64_t tokens, std::int64_t heads, std::int64_t width,
            double scale = 0) {
  In keep{.shape = {2, tokens, tokens}, .dtype = DType::boolean};
  for (std::int64_t i = 0; i < 2 * tokens * tokens; ++i) {
    const std::int64_t t = i / tokens % tokens, s = i % tokens;
    keep.values.push_back(t != 1 && s <= t && (s == t || i * 2654435761 % 3 == 0) ? 1 : 0);
  }
  return {
      .name = std::move(name),
      .inputs = {{.shape = {2, tokens, heads, width}}, {.shape = {2, tokens, heads, width}}, keep},
      .attrs = {{"scale", scale}},
      .gradient = false};
}

const OpCases kMass = {.op = "attention_mass",
                       .cases = {mass("a few", 5, 3, 6), mass("one token", 1, 2, 4),
                                 mass("several blocks", 131, 2, 17, 0.4), mass("none", 0, 2, 3)}};

OpCases score_gradients() {
  OpCases list{.op = "index_scores_grad", .num_differentiable = 0};
  for (OpCase c : {scores("a few", 3, 5, 4, 6), scores("no tokens", 0, 0, 2, 3),
                   scores("blocks of queries, tiles of keys and heads", 19, 130, 70, 17)}) {
    c.inputs.push_back({.shape = {2, c.inputs[0].shape[1], c.inputs[1].shape[1]},
                        .dtype = DType::f32,
                        .widens = true});
    c.gradient = false;
    list.cases.push_back(std::move(c));
  }
  return list;
}

const OpCases kScoreGradients = score_gradients();

// Scores with many equal values.
OpCase choose(std::string name, std::int64_t tokens, std::int64_t keys, std::int64_t k,
              std::vector<In> optional = {}) {
  In in{.shape = {2, tokens, keys}, .dtype = DType::f32};
  for (std::int64_t i = 0; i < in.shape.num_elements(); ++i)
    in.values.push_back(static_cast<double>(i * 2654435761 % 5) / 4 - 0.5);
  OpCase c{.name = std::move(name), .inputs = {in}, .attrs = {{"k", number(k)}}, .gradient = false};
  c.inputs.insert(c.inputs.end(), optional.begin(), optional.end());
  return c;
}

// NaNs of either sign come first; a visible key comes before others, also with a score of
// -infinity. Later keys score best. The kernel takes f32, so f64 is lowered.
OpCase choose_odd_scores() {
  constexpr double kNan = NAN, kNone = -INFINITY;
  struct Row {
    Doubles scores, kept;  // of the visible keys
  };
  const std::vector<Row> rows = {{{0}, {1}},
                                 {{0, 1}, {1, 1}},
                                 {{kNan, 5, 7}, {1, 0, 1}},
                                 {{kNone, kNone, kNone, kNone}, {1, 1, 0, 0}},
                                 {{kNan, 1, -kNan, 2, kNan}, {1, 0, 1, 0, 0}},
                                 {{1, -kNan, 2, kNan, kNone, 3}, {0, 1, 0, 1, 0, 0}}};
  In in{.shape = {1, 6, 6}};
  Doubles kept;
  for (const Row& row : rows) {
    in.values.insert(in.values.end(), row.scores.begin(), row.scores.end());
    kept.insert(kept.end(), row.kept.begin(), row.kept.end());
    in.values.resize((kept.size() + 5) / 6 * 6, 9);
    kept.resize(in.values.size());
  }
  return {.name = "NaN and infinity",
          .inputs = {in},
          .attrs = {{"k", number(2)}},
          .expect = [kept](const std::vector<Doubles>&) { return std::vector<Doubles>{kept}; },
          .dtypes = {DType::f32, DType::f64},
          .gradient = false};
}

const OpCases kMask = {
    .op = "top_k_mask",
    .dtypes = {DType::f32},
    .cases = {choose("two", 7, 7, 2), choose("one", 7, 7, 1), choose("all", 7, 7, 9),
              with(choose("everything is seen", 7, 7, 3), "causal", number(0)),
              choose("segments", 7, 7, 2,
                     {ints({2, 7}, {1, 1, 1, 1, 2, 2, 0, 1, 2, 2, 2, 3, 3, 3})}),
              choose("decode state", 2, 11, 3, {kAbsent, ints({2}, {1, 9})}),
              choose("first tokens of decode state", 2, 11, 3, {kAbsent, ints({2}, {0, 4})}),
              choose_odd_scores(), choose("no tokens", 0, 0, 2)},
    .num_differentiable = 0};

LAMINA_TEST_OP(LatentAttention, kCases)
LAMINA_TEST_OP(LatentAttentionStep, kState)
LAMINA_TEST_OP(IndexScores, kScores)
LAMINA_TEST_OP(IndexScoresStep, kScoresStep)
LAMINA_TEST_OP(AttentionMass, kMass)
LAMINA_TEST_OP(IndexScoresGrad, kScoreGradients)
LAMINA_TEST_OP(TopKMask, kMask)

// Products of the heads with the keys: 3, NaN, -2 and -1, NaN, 0.
TEST(IndexScores, ANaNIsNotTakenForAProductBelowZero) {
  for (const cpu::Isa set :
       {cpu::Isa::portable, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::avx512_bf16})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (set > cpu::best_isa()) break;
      const cpu::ScopedIsa limit(set);
      SCOPED_TRACE(fmt::format("{} {}", name(dtype), cpu::name(set)));
      const std::vector<Array> inputs = {array({dtype, {1, 1, 2, 2}, {}}, {1, 2, -1, 0}),
                                         array({dtype, {1, 3, 2}, {}}, {1, 1, NAN, 0, 0, -1}),
                                         array({DType::f32, {1, 1, 2}, {}}, {0.5, 2}),
                                         array({DType::f32, {1, 1, 3}, {}}, {1, 1, 1})};
      Graph g;
      std::vector<Tensor> in;
      for (const Array& a : inputs) in.push_back(g.add_input("in", a.type));
      g.add_output("scores", ops::call("index_scores", {in[0], in[1], in[2]}));
      g.add_output("dweights", ops::call_all("index_scores_grad", in)[2]);
      const std::vector<Array> got = run(g, inputs);
      EXPECT_EQ(get(got[0], 0), 1.5);
      EXPECT_TRUE(std::isnan(get(got[0], 1)));
      EXPECT_EQ(get(got[0], 2), 0);
      EXPECT_TRUE(std::isnan(get(got[1], 0)) && std::isnan(get(got[1], 1)));
    }
}

}  // namespace
}  // namespace lamina::testing
