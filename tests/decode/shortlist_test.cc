// Tokens from shortlists are the tokens from whole rows, or none.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "decode/candidates.h"
#include "decode/penalties.h"
#include "support/sampling_cases.h"

namespace lamina::decode {
namespace {

using testing::kLogitsForms;
using testing::LogitsForm;
using testing::random_logits;
using testing::random_sampler;

constexpr std::size_t kGroup = 256;

// The shortlist of a row, in plain C++. `off` multiplies each weight: a device rounds otherwise.
struct ListOfRow {
  std::vector<float> logits;
  std::vector<std::int32_t> ids;
  std::vector<double> weights;
  double total = 0;
  Shortlist list;

  ListOfRow(const std::vector<float>& row, const ShortlistShape& shape, double temperature,
            double draw, double off) {
    const auto vocab = std::ssize(row);
    const float largest = *std::ranges::max_element(row);
    for (const float x : row)
      weights.push_back(
          off *
          (temperature > 0
               ? std::exp((static_cast<double>(x) - static_cast<double>(largest)) / temperature)
               : static_cast<double>(x == largest)));
    for (std::size_t i = row.size(); i-- > 0;) total += weights[i];
    if (shape.likeliest > 0) {
      ids.resize(row.size());
      std::iota(ids.begin(), ids.end(), 0);
      std::ranges::stable_sort(ids, std::greater(),
                               [&](std::int32_t id) { return row[static_cast<std::size_t>(id)]; });
      ids.resize(static_cast<std::size_t>(shape.likeliest));
      for (const std::int32_t id : ids) logits.push_back(row[static_cast<std::size_t>(id)]);
      list = LikeliestTokens{.logits = logits, .ids = ids, .weight = total, .vocab = vocab};
      return;
    }
    std::size_t first = 0;
    double before = 0;
    for (;; first += kGroup) {
      const auto in = std::span(weights).subspan(first, std::min(kGroup, row.size() - first));
      const double sum = std::accumulate(in.begin(), in.end(), 0.0);
      if (before + sum > draw * total || first + kGroup >= row.size()) break;
      before += sum;
    }
    logits.assign(row.begin() + static_cast<std::ptrdiff_t>(first),
                  row.begin() + static_cast<std::ptrdiff_t>(std::min(first + kGroup, row.size())));
    logits.resize(kGroup, -INFINITY);
    list = TokensAtDraw{.logits = logits,
                        .first = static_cast<std::int32_t>(first),
                        .before = before,
                        .largest = largest,
                        .weight = total,
                        .vocab = vocab};
  }
};

// The number of draws that a shortlist did not decide.
int count_undecided(const SamplerOptions& options, const std::vector<float>& row, int draws) {
  const auto vocab = std::ssize(row);
  const ShortlistShape shape = shortlist_shape(options, vocab);
  if (shape.is_whole()) return draws;
  Sampler sampler(options), whole(options);
  const std::vector<std::int32_t> tokens = {0, 3, 0, 3, 1};
  int undecided = 0;
  for (int i = 0; i < draws; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    const ListOfRow of(row, shape, options.temperature, sampler.uniform(index),
                       1 + (i % 3 - 1) * 1e-15);
    const auto token = sampler.sample(of.list, index, tokens, 3);
    if (token) {
      EXPECT_EQ(*token, whole.sample(row, index, tokens, 3));
    } else {
      ++undecided;
    }
  }
  return undecided;
}

TEST(ShortlistSampling, ChoosesTheTokensOfWholeRows) {
  std::mt19937 random(5);
  int decided = 0;
  constexpr int kDraws = 4;
  for (const LogitsForm form : kLogitsForms)
    for (const std::size_t vocab : {7u, 200u, 257u, 1500u})
      for (int i = 0; i < 60; ++i) {
        const std::vector<float> row = random_logits(random, form, vocab);
        const SamplerOptions options = random_sampler(random, static_cast<std::int32_t>(vocab));
        decided += kDraws - count_undecided(options, row, kDraws);
      }
  EXPECT_GT(decided, 2000);
}

TEST(ShortlistSampling, DecidesUsualOptionsAlone) {
  std::mt19937 random(6);
  for (const SamplerOptions& options : std::vector<SamplerOptions>{
           {.temperature = 0},
           {.repetition_penalty = 1.1, .temperature = 0},
           {.repetition_penalty = 1.1, .repeat_last_n = 2, .temperature = 0},
           {.temperature = 0.8, .top_k = 40},
           {.temperature = 0.6, .top_k = 20, .top_p = 0.95},
           {.repetition_penalty = 1.1, .temperature = 0.7, .top_k = 20, .top_p = 0.8},
           {.temperature = 1, .min_p = 0.1},
           {.temperature = 1, .top_h = 0.4},
           {.temperature = 0.6, .top_p = 0.9},
           {.temperature = 1}})
    EXPECT_EQ(count_undecided(options, random_logits(random, LogitsForm::peaked, 5000), 200), 0);
}

// A draw from equal tokens falls near the end of each about as often as into it.
TEST(ShortlistSampling, DecidesDrawsFromFlatRows) {
  std::mt19937 random(7);
  EXPECT_EQ(
      count_undecided({.temperature = 1}, random_logits(random, LogitsForm::flat, 20000), 100), 0);
}

TEST(ShortlistSampling, LeavesUndecidedWhatTheRestCouldChange) {
  std::vector<float> row(1000);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 500) / 500;
  EXPECT_GT(count_undecided({.temperature = 1, .top_p = 0.9}, row, 20), 0);
  EXPECT_EQ(count_undecided({.temperature = 1, .top_k = 400}, row, 20), 20);
  EXPECT_EQ(count_undecided({.temperature = 1, .typical_p = 0.9}, row, 20), 20);
  // The tie of the 127th and later tokens continues in the rest.
  EXPECT_EQ(count_undecided({.temperature = 1, .top_k = 127}, std::vector<float>(1000, 2.0f), 20),
            20);
}

std::vector<std::int32_t> counted_ids(std::int32_t first, std::int32_t end) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(end - first));
  std::iota(out.begin(), out.end(), first);
  return out;
}

// Token i of a row is the i-th likeliest.
TEST(ShortlistSampling, ChecksWhatPenaltiesChange) {
  std::vector<float> row(400);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = 2 - static_cast<float>(i) / 1000;
  const auto sample = [&](const SamplerOptions& options, std::span<const std::int32_t> tokens) {
    const ShortlistShape shape = shortlist_shape(options, std::ssize(row));
    EXPECT_EQ(shape.likeliest, 128);
    Sampler sampler(options);
    const ListOfRow of(row, shape, options.temperature, sampler.uniform(3), 1);
    const auto token = sampler.sample(of.list, 3, tokens, 0);
    if (token) {
      EXPECT_EQ(*token, sampler.sample(row, 3, tokens, 0));
    }
    return token.has_value();
  };
  const std::vector<std::int32_t> listed = counted_ids(0, 128);
  EXPECT_TRUE(sample({.repetition_penalty = 9, .temperature = 0}, std::span(listed).first(126)));
  EXPECT_FALSE(sample({.repetition_penalty = 9, .temperature = 0}, listed));
  EXPECT_FALSE(sample({.suppressed = listed, .temperature = 0}, listed));
  EXPECT_TRUE(sample({.suppressed = counted_ids(0, 20), .temperature = 1, .top_h = 0.1}, listed));
  EXPECT_FALSE(sample({.suppressed = counted_ids(0, 40), .temperature = 1, .top_h = 0.1}, listed));
  // The rest has no weight left, which its list does not show.
  EXPECT_FALSE(
      sample({.suppressed = counted_ids(128, 400), .temperature = 1, .top_p = 0.3}, listed));
  // The weight of the rest is small beside a token that is excluded.
  row[0] = 40;
  EXPECT_FALSE(sample({.suppressed = {0}, .temperature = 1, .top_p = 0.05}, listed));
}

TEST(ShortlistSampling, ListsOfLikelyTokensDoNotDecideDrawsFromAll) {
  const std::vector<float> row(300, 1.0f);
  const ListOfRow of(row, {.likeliest = 128}, 1, 0.2, 1);
  EXPECT_FALSE(Sampler({.temperature = 1}).sample(of.list, 0));
}

// Weights of 1/8, and a draw at the end of one of them.
TEST(ShortlistSampling, DrawsAtTheEndOfATokenAreNotDecided) {
  Sampler sampler({.temperature = 1});
  const std::vector<float> logits(4, 1.0f);
  const double draw = sampler.uniform(0) * 8;
  for (const double off : {-1e-14, -1e-15, 0.0, 1e-15, 1e-14})
    EXPECT_FALSE(sampler.sample(
        TokensAtDraw{
            .logits = logits, .before = draw - 2 + off, .largest = 1, .weight = 8, .vocab = 300},
        0));
  EXPECT_EQ(sampler.sample(TokensAtDraw{.logits = logits,
                                        .first = 5,
                                        .before = draw - 2 + 1e-6,
                                        .largest = 1,
                                        .weight = 8,
                                        .vocab = 300},
                           0),
            6);
}

TEST(ShortlistSampling, LeavesRowsWithoutNumbersToTheCheckOfLogits) {
  const std::vector<float> logits = {1, 0};
  const std::vector<std::int32_t> ids = {4, 2};
  Sampler greedy({.temperature = 0}), plain({.temperature = 1});
  EXPECT_FALSE(greedy.sample(
      LikeliestTokens{.logits = logits, .ids = ids, .weight = std::nan(""), .vocab = 5}, 0));
  EXPECT_FALSE(plain.sample(TokensAtDraw{.logits = logits, .weight = std::nan(""), .vocab = 5}, 0));
}

TEST(ShortlistSampling, PenaltiesThatRaiseLogitsNeedWholeRows) {
  EXPECT_TRUE(only_lowers({.repetition_penalty = 1.1, .frequency_penalty = 1, .suppressed = {3}}));
  EXPECT_TRUE(only_lowers({.repetition_penalty = 0.9, .repeat_last_n = 0}));
  EXPECT_FALSE(has_penalties({.repetition_penalty = 0.9, .repeat_last_n = 0}));
  for (const SamplerOptions& options : std::vector<SamplerOptions>{{.logit_bias = {{1, 0.5}}},
                                                                   {.repetition_penalty = 0.9},
                                                                   {.frequency_penalty = -1},
                                                                   {.presence_penalty = -1},
                                                                   {.forced_second = {1}},
                                                                   {.forced_first = {1}},
                                                                   {.forced_last = {1}}}) {
    EXPECT_FALSE(only_lowers(options));
    EXPECT_TRUE(shortlist_shape(options, 1000).is_whole());
  }
}

}  // namespace
}  // namespace lamina::decode
