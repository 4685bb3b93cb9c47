// Chooses the next token: a function of logits, of the tokens so far and of a counter-based draw.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "decode/shortlist.h"

namespace lamina::decode {

// Changes to the logits, in the order of the fields: the order of Hugging Face's generate();
// penalties that it lacks are at vLLM's position. The default values have no effect.
struct SamplerOptions {
  std::vector<std::pair<std::int32_t, double>> logit_bias = {};  // is added
  // For every token of prompt and output, once: l > 0 ? l / r : l * r.
  double repetition_penalty = 1.0;
  std::int64_t repeat_last_n = -1;  // only for the last tokens of prompt and output; -1 = all
  // For tokens of the output: l - f * count - p.
  double frequency_penalty = 0.0;
  double presence_penalty = 0.0;
  std::int64_t no_repeat_ngram = 0;  // no run of this many tokens of prompt or output is repeated
  // Runs of tokens to exclude: the last token is excluded after the others.
  std::vector<std::vector<std::int32_t>> bad_words = {};
  std::int64_t min_new_tokens = 0;  // no earlier `end_tokens`
  std::vector<std::int32_t> end_tokens = {};
  // Tokens that exclude all others: as the second one of prompt and output together; as the first
  // ones of the output; as the last one of `max_new_tokens`, if that is not 0.
  std::vector<std::int32_t> forced_second = {}, forced_first = {}, forced_last = {};
  std::int64_t max_new_tokens = 0;
  std::vector<std::int32_t> suppressed = {};  // always excluded
  // Excluded as the first token of the output, or after `forced_second` if that is the first.
  std::vector<std::int32_t> suppressed_at_begin = {};
  double temperature = 1.0;  // 0 = greedy, whatever the following options are
  double top_h = 0.0;        // keeps the share of the entropy of the 100 likeliest
  std::int64_t top_k = 0;    // 0 = all; also keeps tokens as likely as the last
  double top_p = 1.0;        // 1 = all
  double min_p = 0.0;        // 0 = all
  double typical_p = 1.0;  // keeps those nearest to the expected surprise, up to this mass; 1 = all
  double epsilon_cutoff = 0.0;  // keeps those at least that likely
  double eta_cutoff = 0.0;      // likewise, with a lower limit if the entropy is high
  std::uint64_t seed = 0;
};

// The draw for token `index` of a sequence depends only on logits, tokens so far, seed and index.
class Sampler {
 public:
  explicit Sampler(SamplerOptions options) : options_(std::move(options)) {}

  // A candidate token, and its unnormalised probability.
  struct Candidate {
    float logit;
    std::int32_t id;
    double weight;
  };
  // The candidates in `logits` after `tokens`: the prompt, then `num_output` tokens of output. One
  // if the temperature is 0. Throws UserError (exit 3) if no token is left. Valid until the next
  // call.
  std::span<const Candidate> candidates(std::span<const float> logits,
                                        std::span<const std::int32_t> tokens = {},
                                        std::size_t num_output = 0);

  // Draws a candidate. Among equal logits the lowest id comes first.
  std::int32_t sample(std::span<const float> logits, std::uint64_t index,
                      std::span<const std::int32_t> tokens = {}, std::size_t num_output = 0);
  // Returns the token that sample() chooses from the whole logits; none if only these can decide
  // it, or if they are no numbers.
  std::optional<std::int32_t> sample(const Shortlist& list, std::uint64_t index,
                                     std::span<const std::int32_t> tokens = {},
                                     std::size_t num_output = 0);

  const SamplerOptions& options() const { return options_; }
  // The draw for token `index`: a number in [0, 1).
  double uniform(std::uint64_t index) const;

 private:
  std::optional<std::int32_t> of_likeliest(const LikeliestTokens& list, std::uint64_t index,
                                           std::span<const std::int32_t> tokens,
                                           std::size_t num_output);
  std::optional<std::int32_t> at_draw(const TokensAtDraw& list, std::uint64_t index) const;
  std::int32_t drawn(std::uint64_t index) const;  // one of candidates_

  SamplerOptions options_;
  // Kept to avoid allocation.
  std::vector<float> logits_;  // after penalties
  std::vector<std::int32_t> ids_;
  std::vector<float> peaks_;  // the maximum of each block
  std::vector<Candidate> candidates_;
};

// Returns the shortlist that mostly suffices for a sampler with these options; whole rows if none
// does. The only place that decides it.
ShortlistShape shortlist_shape(const SamplerOptions& options, std::int64_t vocab);

// Tokens drawn from an invalid distribution would be noise that looks like text: throws UserError
// (exit 3) if the logits after `length` tokens are not numbers.
void check_logits(std::span<const float> logits, std::int64_t length);
// Throws UserError (exit 3): all tokens are excluded after this many.
[[noreturn]] void refuse_empty(std::size_t num_tokens);

// The id of the largest logit; the lowest id of equal ones.
std::int32_t argmax(std::span<const float> logits);

// log softmax(logits)[id], in f64.
double log_probability(std::span<const float> logits, std::int32_t id);

// The `n` likeliest tokens and their log softmax, likeliest first.
std::vector<std::pair<std::int32_t, double>> best_log_probabilities(std::span<const float> logits,
                                                                    std::size_t n);

}  // namespace lamina::decode
