// Beam search, compared with all possible sequences; and the conditions that end it.
#include "decode/beam_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "backends/cpu/backend.h"
#include "metaspace_tokenizer.h"
#include "support/expect_error.h"
#include "support/models.h"

namespace lamina::decode {
namespace {

using ::testing::ElementsAre;

constexpr std::size_t kWords = 6;
constexpr std::int32_t kFirst = 0, kLast = 5;

// A model whose logits depend only on the last token: row `last` of a table.
class Chain {
 public:
  explicit Chain(std::vector<float> table)
      : model_(testing::open_description("family = \"simple\"\n[model]\nvocab_size = 6\n"
                                         "hidden_size = 6\nnum_hidden_layers = 1\n")),
        unit_(kWords * kWords),
        norm_(kWords, 1),
        head_(std::move(table)) {
    for (std::size_t i = 0; i < kWords; ++i) unit_[i * kWords + i] = 1;
    // A token's row of the head holds its logits after each token.
    std::vector<float> transposed(head_.size());
    for (std::size_t from = 0; from < kWords; ++from)
      for (std::size_t to = 0; to < kWords; ++to)
        transposed[to * kWords + from] = head_[from * kWords + to];
    head_ = std::move(transposed);
  }

  Generated generate(const GenerateOptions& options, const std::function<bool()>& should_stop = {},
                     const text::Tokenizer* tokenizer = nullptr) {
    Session session = make_session(options.num_beams);
    return decode::generate(session, std::span(&kFirst, 1), tokenizer, options, {}, should_stop);
  }

  // log p(to | from) as the model computes it.
  double log_p(std::int32_t from, std::int32_t to) {
    std::vector<double>& row = rows_[from];
    if (row.empty()) {
      Session session = make_session(1);
      const std::span<const float> logits = session.append(std::span(&from, 1));
      for (std::int32_t id = 0; id < static_cast<std::int32_t>(kWords); ++id)
        row.push_back(log_probability(logits, id));
    }
    return row[static_cast<std::size_t>(to)];
  }

 private:
  Session make_session(std::int64_t batch) {
    return Session(
        model_,
        std::vector<ConstTensorRef>{host_tensor(std::span(unit_)), host_tensor(std::span(unit_)),
                                    host_tensor(std::span(norm_)), host_tensor(std::span(head_))},
        {.batch = batch, .capacity = 32}, cpu::cpu_backend());
  }

  decoder::Model model_;
  std::vector<float> unit_, norm_, head_;
  std::map<std::int32_t, std::vector<double>> rows_;
};

// Greedy decoding takes 1, after which every token is unlikely; 2 leads to likely tokens.
Chain trap() {
  std::vector<float> table(kWords * kWords, 0.0f);
  const auto set = [&](std::size_t from, std::size_t to, float logit) {
    table[from * kWords + to] = logit;
  };
  set(0, 1, 2.0f);
  set(0, 2, 1.8f);
  set(2, 3, 3.0f);
  set(3, 5, 3.0f);
  set(3, 4, 2.0f);
  set(4, 5, 3.0f);
  return Chain(table);
}

struct Text {
  std::vector<std::int32_t> tokens;
  double score;
};

// The best of all texts of up to `most` tokens that end with kLast or have `most` tokens.
Text best_of_all(Chain& chain, std::size_t most, double penalty) {
  Text best{{}, -1e30};
  std::vector<Text> open = {{{}, 0}};
  for (std::size_t length = 1; length <= most; ++length) {
    std::vector<Text> longer;
    for (const Text& text : open)
      for (std::int32_t to = 0; to < static_cast<std::int32_t>(kWords); ++to) {
        Text next = text;
        next.score += chain.log_p(text.tokens.empty() ? kFirst : text.tokens.back(), to);
        next.tokens.push_back(to);
        if (to != kLast && length < most) {
          longer.push_back(std::move(next));
          continue;
        }
        next.score /= std::pow(static_cast<double>(length), penalty);
        if (to == kLast) next.tokens.pop_back();
        if (next.score > best.score) best = next;
      }
    open = std::move(longer);
  }
  return best;
}

GenerateOptions beams(std::int64_t num_beams) {
  GenerateOptions out{.max_new_tokens = 4, .end_tokens = {kLast}};
  out.num_beams = num_beams;
  return out;
}

TEST(BeamSearch, Example) {
  Chain chain = trap();
  GenerateOptions greedy = beams(1);
  greedy.sampler.temperature = 0;
  EXPECT_EQ(chain.generate(greedy).tokens.front(), 1);
  const Generated out = chain.generate(beams(2));
  EXPECT_THAT(out.tokens, ElementsAre(2, 3));
  EXPECT_EQ(out.reason, StopReason::end_token);
  EXPECT_EQ(out.text, "2 3");
}

TEST(BeamSearch, TheTextContinuesThePromptAndKeepsItsFirstSpace) {
  Chain chain = trap();
  const auto tokenizer = metaspace_tokenizer();
  GenerateOptions options = beams(2);
  EXPECT_EQ(chain.generate(options, {}, tokenizer.get()).text, " the world");
  options.begins_text = true;
  EXPECT_EQ(chain.generate(options, {}, tokenizer.get()).text, "the world");
  options.stop = {" the"};
  EXPECT_EQ(chain.generate(options, {}, tokenizer.get()).text, "the world");
  options.begins_text = false;
  const Generated stopped = chain.generate(options, {}, tokenizer.get());
  EXPECT_THAT(stopped.tokens, ElementsAre(2));
  EXPECT_EQ(stopped.text, "");
  EXPECT_EQ(stopped.reason, StopReason::stop_string);
}

// With as many beams as texts the search is exhaustive.
TEST(BeamSearch, FindsTheBestTextWhereItSeesAll) {
  Chain chain = trap();
  for (const double penalty : {0.0, 0.5, 1.0, 2.0, -1.0}) {
    GenerateOptions options = beams(260);
    options.length_penalty = penalty;
    options.early_stopping = EarlyStopping::never;
    EXPECT_EQ(chain.generate(options).tokens, best_of_all(chain, 4, penalty).tokens) << penalty;
  }
}

TEST(BeamSearch, LengthPenaltyFavoursLongerTexts) {
  Chain chain = trap();
  GenerateOptions options = beams(8);
  options.length_penalty = 4;
  const std::size_t longer = chain.generate(options).tokens.size();
  options.length_penalty = -4;
  EXPECT_GT(longer, chain.generate(options).tokens.size());
}

TEST(BeamSearch, EndsAtTheLimitAndWhenAsked) {
  Chain chain = trap();
  GenerateOptions options = beams(3);
  options.ignore_end = true;
  const Generated full = chain.generate(options);
  EXPECT_EQ(full.tokens.size(), 4u);
  EXPECT_EQ(full.reason, StopReason::length);
  const Generated cut = chain.generate(options, [] { return true; });
  EXPECT_EQ(cut.tokens.size(), 1u);
  EXPECT_EQ(cut.reason, StopReason::interrupted);
}

TEST(BeamSearch, EarlyStoppingTakesTheFirstThatEnd) {
  // Either ends immediately, with probability 0.55, or continues (0.45) to a certain end.
  std::vector<float> table(kWords * kWords, -20.0f);
  table[0 * kWords + 1] = std::log(0.45f);
  table[0 * kWords + 5] = std::log(0.55f);
  table[1 * kWords + 2] = 0;
  table[2 * kWords + 3] = 0;
  table[3 * kWords + 5] = 0;
  Chain chain(table);
  GenerateOptions options = beams(2);
  options.max_new_tokens = 8;
  options.early_stopping = EarlyStopping::never;
  EXPECT_THAT(chain.generate(options).tokens, ElementsAre(1, 2, 3));
  options.length_penalty = 0;
  EXPECT_TRUE(chain.generate(options).tokens.empty());
}

TEST(BeamSearch, PenaltiesHoldForEveryBeam) {
  Chain chain = trap();
  GenerateOptions options = beams(4);
  options.sampler.suppressed = {2};
  for (const std::int32_t id : chain.generate(options).tokens) EXPECT_NE(id, 2);
  options.sampler.min_new_tokens = 4;
  EXPECT_EQ(chain.generate(options).tokens.size(), 4u);
  options.sampler.suppressed = {0, 1, 2, 3, 4, 5};
  EXPECT_ERROR_SAYS(chain.generate(options), ExitCode::numerical, "no token is left");
}

// A penalised token is the least likely one.
TEST(BeamSearch, AWindowOfARepetitionPenaltyMovesWithTheTextAsInSampling) {
  std::vector<float> table;
  for (std::size_t from = 0; from < kWords; ++from)
    for (std::size_t to = 0; to < kWords; ++to) table.push_back(static_cast<float>(kWords - to));
  Chain chain(table);
  for (const std::int64_t num_beams : {1, 2}) {
    GenerateOptions options = beams(num_beams);
    options.ignore_end = true;
    options.sampler.temperature = 0;
    options.sampler.repetition_penalty = 1e6;
    EXPECT_THAT(chain.generate(options).tokens, ElementsAre(1, 2, 3, 4)) << num_beams;
    options.sampler.repeat_last_n = 2;  // the prompt is 0
    EXPECT_THAT(chain.generate(options).tokens, ElementsAre(1, 2, 0, 1)) << num_beams;
    options.sampler.repeat_last_n = 1;
    EXPECT_THAT(chain.generate(options).tokens, ElementsAre(1, 0, 1, 0)) << num_beams;
    options.sampler.repeat_last_n = 0;
    EXPECT_THAT(chain.generate(options).tokens, ElementsAre(0, 0, 0, 0)) << num_beams;
  }
}

}  // namespace
}  // namespace lamina::decode
