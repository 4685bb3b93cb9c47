// The sampler: the tokens that may be drawn, their frequencies, and draws that depend only on their
// index.
#include "decode/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "support/expect_error.h"

namespace lamina::decode {
namespace {

const std::vector<float> kLogits = {1.0f, 3.0f, -2.0f, 3.0f, 0.5f, 2.5f};

std::set<std::int32_t> drawn(const SamplerOptions& options, int draws = 2000) {
  Sampler sampler(options);
  std::set<std::int32_t> out;
  for (int i = 0; i < draws; ++i) out.insert(sampler.sample(kLogits, static_cast<unsigned>(i)));
  return out;
}

TEST(Sampler, Example) {
  Sampler greedy({.temperature = 0});
  EXPECT_EQ(greedy.sample(kLogits, 0), 1);
}

TEST(Sampler, BiasesBeyondFloatsAreEqual) {
  EXPECT_EQ(drawn({.logit_bias = {{2, 3e38}, {2, 3e38}, {4, 3e38}, {4, 3e38}}}),
            (std::set<std::int32_t>{2, 4}));
}

TEST(Sampler, LowestIdWinsATie) { EXPECT_EQ(argmax(kLogits), 1); }

TEST(Sampler, EveryTokenCanBeDrawnUnlessLeftOut) {
  EXPECT_EQ(drawn({}), (std::set<std::int32_t>{0, 1, 2, 3, 4, 5}));
}

TEST(Sampler, TopKKeepsTheKLikeliestAndTheirEquals) {
  EXPECT_EQ(drawn({.top_k = 1}), (std::set<std::int32_t>{1, 3}));  // equal
  EXPECT_EQ(drawn({.top_k = 3}), (std::set<std::int32_t>{1, 3, 5}));
  EXPECT_EQ(drawn({.top_k = 1000}).size(), 6u);
}

TEST(Sampler, TopPKeepsTheFewestThatReachP) {
  // Probabilities of ids 1, 3, 5, 0: 0.36, 0.36, 0.22, 0.05.
  EXPECT_EQ(drawn({.top_p = 0}), (std::set<std::int32_t>{1}));
  EXPECT_EQ(drawn({.top_p = 0.3}), (std::set<std::int32_t>{1}));
  EXPECT_EQ(drawn({.top_p = 0.5}), (std::set<std::int32_t>{1, 3}));
  EXPECT_EQ(drawn({.top_p = 0.9}), (std::set<std::int32_t>{1, 3, 5}));
}

TEST(Sampler, MinPDropsMuchLessLikelyTokens) {
  // Relative to the most likely: 1, 1, 0.61, 0.14, 0.08, 0.007.
  EXPECT_EQ(drawn({.min_p = 1}), (std::set<std::int32_t>{1, 3}));
  EXPECT_EQ(drawn({.min_p = 0.5}), (std::set<std::int32_t>{1, 3, 5}));
  EXPECT_EQ(drawn({.min_p = 0.1}), (std::set<std::int32_t>{0, 1, 3, 5}));
}

TEST(Sampler, TokensComeAsOftenAsTheirProbability) {
  for (double temperature : {0.5, 1.0, 2.0}) {
    std::vector<double> p;
    double sum = 0;
    for (float x : kLogits) sum += p.emplace_back(std::exp(static_cast<double>(x) / temperature));
    Sampler sampler({.temperature = temperature, .seed = 5});
    std::map<std::int32_t, int> count;
    constexpr int kDraws = 40000;
    for (unsigned i = 0; i < kDraws; ++i) ++count[sampler.sample(kLogits, i)];
    for (std::int32_t id = 0; id < 6; ++id)  // five standard deviations, at most 0.0125
      EXPECT_NEAR(count[id] / double{kDraws}, p[static_cast<std::size_t>(id)] / sum, 0.0125);
  }
}

TEST(Sampler, ADrawDependsOnSeedAndIndexAlone) {
  Sampler a({.seed = 1}), b({.seed = 1}), c({.seed = 2});
  int same = 0;
  for (unsigned i = 200; i-- > 0;) b.sample(kLogits, i);
  for (unsigned i = 0; i < 200; ++i) {
    std::int32_t id = a.sample(kLogits, i);
    EXPECT_EQ(b.sample(kLogits, i), id);
    same += c.sample(kLogits, i) == id;
  }
  EXPECT_LT(same, 150);
}

TEST(Sampler, LogProbabilityEqualsTheSoftmax) {
  double sum = 0;
  for (std::int32_t id = 0; id < 6; ++id) sum += std::exp(log_probability(kLogits, id));
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_NEAR(log_probability(kLogits, 1) - log_probability(kLogits, 2), 5, 1e-6);
}

std::set<std::int32_t> left_after(const SamplerOptions& options,
                                  const std::vector<std::int32_t>& tokens,
                                  std::size_t num_output = 0) {
  Sampler sampler(options);
  std::set<std::int32_t> out;
  for (const Sampler::Candidate& c : sampler.candidates(kLogits, tokens, num_output))
    out.insert(c.id);
  return out;
}

TEST(Sampler, TokensThatMustNotComeAreNeverDrawn) {
  EXPECT_EQ(left_after({.no_repeat_ngram = 2}, {4, 1, 4}), (std::set<std::int32_t>{0, 2, 3, 4, 5}));
  EXPECT_EQ(left_after({.no_repeat_ngram = 1}, {0, 1}), (std::set<std::int32_t>{2, 3, 4, 5}));
  EXPECT_EQ(left_after({.no_repeat_ngram = 9}, {0, 1}).size(), 6u);
  EXPECT_EQ(left_after({.bad_words = {{3}, {2, 1}}}, {2}), (std::set<std::int32_t>{0, 2, 4, 5}));
  EXPECT_EQ(left_after({.bad_words = {{3, 2, 1}}}, {2}).size(), 6u);
  EXPECT_EQ(left_after({.min_new_tokens = 2, .end_tokens = {1, 3}}, {0, 1}, 1).size(), 4u);
  EXPECT_EQ(left_after({.min_new_tokens = 2, .end_tokens = {1, 3}}, {0, 1}, 2).size(), 6u);
  EXPECT_EQ(left_after({.suppressed = {0, 99, -1}}, {}).size(), 5u);
  EXPECT_EQ(left_after({.suppressed_at_begin = {0}}, {5}).size(), 5u);
  EXPECT_EQ(left_after({.suppressed_at_begin = {0}}, {5}, 1).size(), 6u);
}

// transformers/generation/utils.py: begin_index is one later after a prompt of one token.
TEST(Sampler, TheBeginningIsAfterAForcedSecondToken) {
  const SamplerOptions options = {.forced_second = {3}, .suppressed_at_begin = {0, 3}};
  EXPECT_EQ(left_after(options, {5}), (std::set<std::int32_t>{3}));
  EXPECT_EQ(left_after(options, {5, 3}, 1), (std::set<std::int32_t>{1, 2, 4, 5}));
  EXPECT_EQ(left_after(options, {5, 3, 1}, 2).size(), 6u);
  EXPECT_EQ(left_after(options, {5, 5}), (std::set<std::int32_t>{1, 2, 4, 5}));
  EXPECT_EQ(left_after(options, {5, 5, 1}, 1).size(), 6u);
}

TEST(Sampler, ForcedTokensComeAlone) {
  EXPECT_EQ(left_after({.forced_first = {4, 2}}, {5}), (std::set<std::int32_t>{4}));
  EXPECT_EQ(left_after({.forced_first = {4, 2}}, {5, 4}, 1), (std::set<std::int32_t>{2}));
  EXPECT_EQ(left_after({.forced_first = {4, 2}}, {5, 4, 2}, 2).size(), 6u);
  EXPECT_EQ(left_after({.forced_second = {3}}, {5}), (std::set<std::int32_t>{3}));
  EXPECT_EQ(left_after({.forced_second = {3}}, {5, 5}).size(), 6u);
  const SamplerOptions last = {.forced_last = {0, 4}, .max_new_tokens = 3};
  EXPECT_EQ(left_after(last, {5, 1}, 1).size(), 6u);
  EXPECT_EQ(left_after(last, {5, 1, 1}, 2), (std::set<std::int32_t>{0, 4}));
  EXPECT_EQ(left_after({.forced_last = {0}}, {5, 1, 1}, 2).size(), 6u);  // no last position
  // A suppressed token is not drawn even if it is forced.
  EXPECT_ERROR_SAYS(left_after({.forced_first = {4}, .suppressed = {4}}, {}), ExitCode::numerical,
                    "no token is left");
}

TEST(Sampler, PenaltiesChangeLogits) {
  const auto greedy = [](SamplerOptions options, std::vector<std::int32_t> tokens,
                         std::size_t num_output) {
    options.temperature = 0;
    return Sampler(options).sample(kLogits, 0, tokens, num_output);
  };
  EXPECT_EQ(greedy({.logit_bias = {{2, 5.5}}}, {}, 0), 2);
  EXPECT_EQ(greedy({.repetition_penalty = 1.1}, {1}, 0), 3);
  EXPECT_EQ(greedy({.presence_penalty = 1}, {1, 3}, 0), 1);  // counts the output only
  EXPECT_EQ(greedy({.presence_penalty = 1}, {1, 3}, 2), 5);
  EXPECT_EQ(greedy({.frequency_penalty = 0.3}, {3, 1, 1, 3}, 4), 5);
  EXPECT_EQ(greedy({.frequency_penalty = 0.3}, {3, 1, 1}, 3), 3);
}

// Logits of 1, 3 and 5: 3, 3 and 2.5; half of them if penalised.
TEST(Sampler, ARepetitionPenaltyMayBeForTheLastTokens) {
  const auto greedy = [](std::int64_t window, std::vector<std::int32_t> tokens,
                         std::size_t num_output = 1) {
    return Sampler({.repetition_penalty = 2, .repeat_last_n = window, .temperature = 0})
        .sample(kLogits, 0, tokens, num_output);
  };
  EXPECT_EQ(greedy(0, {3, 1}), 1);
  EXPECT_EQ(greedy(1, {3, 1}), 3);
  EXPECT_EQ(greedy(2, {3, 1}), 5);  // 3 is a token of the prompt
  EXPECT_EQ(greedy(2, {3, 1}, 2), 5);
  EXPECT_EQ(greedy(9, {3, 1}), 5);
  EXPECT_EQ(greedy(std::numeric_limits<std::int64_t>::max(), {3, 1}), 5);
  EXPECT_EQ(greedy(-1, {3, 1}), 5);
  EXPECT_EQ(greedy(2, {1, 3, 3}), 1);  // each occurrence is a token of the window
  EXPECT_EQ(greedy(3, {1, 3, 3}), 5);
  EXPECT_EQ(greedy(5, {}, 0), 1);
  Sampler sampler({.repetition_penalty = 2, .repeat_last_n = 1});
  for (const Sampler::Candidate& c :
       sampler.candidates(kLogits, std::vector<std::int32_t>{0, 5, 2}, 1))
    EXPECT_EQ(c.logit, c.id == 2 ? -4.0f : kLogits[static_cast<std::size_t>(c.id)]) << c.id;
}

TEST(Sampler, WithoutATokenLeftItSaysSo) {
  Sampler sampler({.suppressed = {0, 1, 2, 3, 4, 5}});
  EXPECT_ERROR_SAYS(sampler.sample(kLogits, 0), ExitCode::numerical, "no token is left");
}

TEST(Sampler, TheBestLogProbabilitiesComeFirst) {
  const auto best = best_log_probabilities(kLogits, 3);
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0].first, 1);
  EXPECT_EQ(best[1].first, 3);
  EXPECT_NEAR(best[2].second, log_probability(kLogits, 5), 1e-12);
  EXPECT_EQ(best_log_probabilities(kLogits, 99).size(), 6u);
}

}  // namespace
}  // namespace lamina::decode
