// The host's [model] keys of attention masks, compared with loops in f64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "decoder/one_block_family.h"
#include "support/dense_model.h"
#include "support/device_models.h"
#include "support/expect_error.h"
#include "support/models.h"

namespace lamina::testing {
namespace {

constexpr std::size_t kSeenHeads = 4, kSeenKvHeads = 2, kSeenHeadDim = 6;
const std::vector<std::int32_t> kSeenIds = {3, 60, 3, 17, 9, 22, 5, 41, 30, 8, 2};

// True if the query at t of head n attends to the key at s.
using Sees = std::function<bool(std::size_t n, std::size_t t, std::size_t s)>;

struct RecordedHeads {
  std::vector<float> q, k, v, out;
  explicit RecordedHeads(DenseModel model)
      : q(model.recorded("query_proj", kSeenIds)),
        k(model.recorded("key_proj", kSeenIds)),
        v(model.recorded("value_proj", kSeenIds)),
        out(model.recorded("attention_out", kSeenIds)) {}

  double score(std::size_t n, std::size_t t, const double* key) const {
    double sum = 0;
    for (std::size_t h = 0; h < kSeenHeadDim; ++h)
      sum += double{q[(t * kSeenHeads + n) * kSeenHeadDim + h]} * key[h];
    return sum;
  }
  std::vector<double> key(std::size_t n, std::size_t s) const {
    const float* at = &k[(s * kSeenKvHeads + n / (kSeenHeads / kSeenKvHeads)) * kSeenHeadDim];
    return {at, at + kSeenHeadDim};
  }

  // softmax(q k / sqrt(H)) v over the visible keys.
  void expect_sees(const Sees& sees) const {
    for (std::size_t t = 0; t < kSeenIds.size(); ++t)
      for (std::size_t n = 0; n < kSeenHeads; ++n) {
        std::vector<double> y(kSeenHeadDim, 0);
        double sum = 0;
        for (std::size_t s = 0; s < kSeenIds.size(); ++s) {
          if (!sees(n, t, s)) continue;
          const double p =
              std::exp(score(n, t, key(n, s).data()) / std::sqrt(double{kSeenHeadDim}));
          sum += p;
          for (std::size_t h = 0; h < kSeenHeadDim; ++h)
            y[h] +=
                p *
                double{v[(s * kSeenKvHeads + n / (kSeenHeads / kSeenKvHeads)) * kSeenHeadDim + h]};
        }
        for (std::size_t h = 0; h < kSeenHeadDim; ++h)
          EXPECT_NEAR(out[(t * kSeenHeads + n) * kSeenHeadDim + h], y[h] / sum, 2e-6)
              << t << ' ' << n;
      }
  }

  // The chunks of `size` tokens with the best mean keys, up to and including the query's own chunk.
  bool chooses(std::size_t n, std::size_t t, std::size_t s, std::size_t size,
               std::size_t best) const {
    std::vector<std::pair<double, std::size_t>> others;
    for (std::size_t c = 0; c < t / size; ++c) {
      std::vector<double> mean(kSeenHeadDim, 0);
      for (std::size_t i = c * size; i < (c + 1) * size; ++i)
        for (std::size_t h = 0; h < kSeenHeadDim; ++h)
          mean[h] += key(n, i)[h] / static_cast<double>(size);
      others.emplace_back(-score(n, t, mean.data()), c);
    }
    std::ranges::sort(others);
    others.resize(std::min(others.size(), best - 1));
    return s <= t && (s / size == t / size || std::ranges::any_of(others, [&](const auto& chosen) {
                        return chosen.second == s / size;
                      }));
  }
};

class AttentionKinds : public ::testing::TestWithParam<const char*> {
 protected:
  static RecordedHeads with(const std::string& keys) {
    return RecordedHeads(DenseModel(dense_description(GetParam(), keys)));
  }
};

TEST_P(AttentionKinds, EachTypeHasItsMask) {
  with("attention_type = \"global\"\n").expect_sees([](auto, auto t, auto s) { return s <= t; });
  with("attention_type = \"local_sliding\"\nsliding_window_size = 3\n")
      .expect_sees([](auto, auto t, auto s) { return s <= t && t - s < 3; });
  with("attention_type = \"chunk\"\nchunk_attn_window_size = 4\n")
      .expect_sees([](auto, auto t, auto s) { return s <= t && s / 4 == t / 4; });
  with("attention_type = \"block_diffusion\"\ncausal_block_size = 4\n")
      .expect_sees([](auto, auto t, auto s) { return s / 4 <= t / 4; });
  with("attention_type = \"full\"\n").expect_sees([](auto, auto, auto) { return true; });
}

TEST_P(AttentionKinds, QueriesSeeTheBestChunks) {
  const RecordedHeads heads =
      with("attention_type = \"global\"\nmoba_chunk_size = 2\nmoba_topk = 3\n");
  int left_out = 0;
  heads.expect_sees([&](auto n, auto t, auto s) {
    const bool seen = heads.chooses(n, t, s, 2, 3);
    left_out += s <= t && !seen;
    return seen;
  });
  EXPECT_GT(left_out, 0);
}

TEST_P(AttentionKinds, ChunksMayHaveAWindowToo) {
  const RecordedHeads heads = with(
      "attention_type = \"local_sliding\"\nsliding_window_size = 6\nmoba_chunk_size = 2\n"
      "moba_topk = 2\n");
  heads.expect_sees(
      [&](auto n, auto t, auto s) { return heads.chooses(n, t, s, 2, 2) && t - s < 6; });
}

// The choice of chunks needs the keys before the window, so the state is no ring.
TEST_P(AttentionKinds, ChunksWithAWindowAreDecoded) {
  const decoder::Model model = open_description(dense_description(
      GetParam(),
      "attention_type = \"local_sliding\"\nsliding_window_size = 6\nmoba_chunk_size = 2\n"
      "moba_topk = 2\n"));
  const Rows rows = random_rows(model, 1, 24);
  const weights::Weights weights = weights_on(cpu::cpu_backend(), model, DType::f32);
  const std::vector<float> whole = forward(model, weights.pointers(), rows);
  EXPECT_LE(relative_difference(decoded(model, rows.ids, {1}, cpu::cpu_backend()), whole), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Families, AttentionKinds,
                         ::testing::Values("llama2", "mistral", "qwen2", "qwen3", "olmo3",
                                           "default"),
                         [](const auto& test) { return std::string(test.param); });

// Attention to the keys with the three best scores of an indexer, within a window or a chunk.
sdk::Tensor sparse(sdk::Scope s, sdk::Tensor x, const sdk::Step& step,
                   const sdk::AttentionOptions& options) {
  const sdk::Tensor x_BTNH = sdk::split_heads(x, 2);
  const sdk::Tensor part = sdk::slice(x, {.dim = 2, .start = 0, .size = 2});
  const sdk::Tensor mask = sdk::top_k_mask(step.index_scores(x_BTNH, part, sdk::widen(part)), 3);
  const sdk::State kv =
      s.state(LAMINA_STATE_KV, "kv", {2, 2, 2},
              {.axes = {LAMINA_AXIS_CACHE_HEADS, LAMINA_AXIS_CACHE_DIM, LAMINA_AXIS_CACHE_DIM},
               .window = options.window,
               .chunk = options.chunk});
  return x + sdk::merge_heads(sdk::attention(x_BTNH, x_BTNH, x_BTNH, kv, options, {.mask = mask}));
}

// The mask has a column for each token, so the state is no ring.
TEST(AttentionKinds, AMaskWithAWindowOrAChunkIsDecoded) {
  config::Raw keys;
  keys.entries.push_back(
      {"model.vocab_size", std::int64_t{24}, {config::Origin::Kind::run_file, "test"}, {}, {}});
  const decoder::Build blocks[] = {LAMINA_BLOCK({ return sparse(s, x, step, {.window = 4}); }),
                                   LAMINA_BLOCK({ return sparse(s, x, step, {.chunk = 4}); })};
  for (const decoder::Build block : blocks) {
    const decoder::Model model = decoder::open_family_with(block, nullptr, keys);
    Rows rows = random_rows(model, 1, 24);
    std::iota(rows.ids.begin(), rows.ids.end(), 0);  // equal keys would have equal scores
    const weights::Weights weights = weights_on(cpu::cpu_backend(), model, DType::f32);
    const std::vector<float> whole = forward(model, weights.pointers(), rows);
    EXPECT_LE(relative_difference(decoded(model, rows.ids, {1}, cpu::cpu_backend()), whole), 1e-5);
  }
}

TEST(AttentionKinds, ThatSeesLaterTokensIsNotDecoded) {
  for (const char* keys : {"attention_type = \"full\"\n",
                           "attention_type = \"block_diffusion\"\ncausal_block_size = 4\n"}) {
    const decoder::Model model = open_description(dense_description("llama2", keys));
    EXPECT_FALSE(model.is_autoregressive());
    EXPECT_ERROR_SAYS(model.decode_graph({}, {.capacity = 8}), ExitCode::usage,
                      "its tokens see later ones, so there is no next token to decode");
  }
}

// Blocks start again in every document, and end with it.
TEST(AttentionKinds, BlocksStayInTheirDocument) {
  const decoder::Model model = open_description(
      dense_description("llama2", "attention_type = \"block_diffusion\"\ncausal_block_size = 4\n"));
  const auto weights = weights::Weights::initialise(model, 5, DType::f32, cpu::cpu_backend());
  Rows packed = random_rows(model, 1, 11);
  packed.positions = {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4};
  packed.segments = {1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2};
  const std::vector<float> together = forward(model, weights.pointers(), packed);
  Rows second = random_rows(model, 1, 5);
  std::copy_n(packed.ids.begin() + 6, 5, second.ids.begin());
  const std::vector<float> alone = forward(model, weights.pointers(), second);
  EXPECT_LE(relative_difference({together.begin() + 6 * 61, together.end()}, alone), 1e-5);
}

TEST(AttentionKinds, WorkInEveryFamilyWithKeysOfHeads) {
  for (const TestModel& model : one_model_of_each_family())
    for (const char* key : {"attention_type = \"local_sliding\"\nsliding_window_size = 2\n",
                            "attention_type = \"block_diffusion\"\ncausal_block_size = 4\n",
                            "moba_chunk_size = 2\nmoba_topk = 1\n"}) {
      SCOPED_TRACE(model.name + ": " + key);
      const decoder::Model plain = open_model(model.path);
      try {
        const decoder::Model other = open_changed(model, key);
        EXPECT_FALSE(same_graph(other.forward_graph({.tokens = 8}).graph,
                                plain.forward_graph({.tokens = 8}).graph));
      } catch (const UserError& refused) {
        EXPECT_THAT(refused.what(),
                    ::testing::AnyOf(::testing::HasSubstr("no layer of this model has attention"),
                                     ::testing::HasSubstr("which chooses its keys itself"),
                                     ::testing::HasSubstr("reads the keys of another"),
                                     ::testing::HasSubstr("already has a mask"),
                                     ::testing::HasSubstr("the chunk of its token alone"),
                                     ::testing::HasSubstr("remove the keys")));
      }
    }
}

TEST(AttentionKinds, WithoutEffectAreRefused) {
  const auto opened = [](const std::string& keys) {
    return open_description(dense_description("llama2", keys));
  };
  for (const auto& [type, span] : {std::pair{"local_sliding", "sliding_window_size"},
                                   {"chunk", "chunk_attn_window_size"},
                                   {"block_diffusion", "causal_block_size"}}) {
    EXPECT_ERROR_SAYS(
        opened(fmt::format("attention_type = \"{}\"\n", type)), ExitCode::usage,
        fmt::format("'model.attention_type' is \"{}\", but '{}' is not given", type, span));
    EXPECT_ERROR_SAYS(
        opened(fmt::format("{} = 4\n", span)), ExitCode::usage,
        fmt::format("'model.{}' is 4, but 'attention_type' is not \"{}\"", span, type));
  }
  EXPECT_ERROR_SAYS(opened("moba_topk = 4\n"), ExitCode::usage,
                    "'model.moba_topk' is 4, but 'moba_chunk_size' is 0");
  EXPECT_ERROR_SAYS(opened("attention_type = \"full\"\nmoba_chunk_size = 4\n"), ExitCode::usage,
                    "attention that sees later tokens chooses no chunks");
  EXPECT_ERROR_SAYS(
      opened("attention_type = \"chunk\"\nchunk_attn_window_size = 8\nmoba_chunk_size = 4\n"),
      ExitCode::usage, "a layer of this model sees the chunk of its token alone");
}

}  // namespace
}  // namespace lamina::testing
