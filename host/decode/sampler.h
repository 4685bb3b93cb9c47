// Choosing the next token: a function of logits, of the tokens so far and of a counter-based draw.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace lamina::decode {

// What is done to logits, in the order of the fields: that of Hugging Face's generate(), with the
// penalties that it lacks where vLLM has them. What stands as it is here does nothing.
struct SamplerOptions {
  std::vector<std::pair<std::int32_t, double>> logit_bias = {};  // is added
  // Of every token of prompt and output, once: l > 0 ? l / r : l * r.
  double repetition_penalty = 1.0;
  // Of tokens of the output: l - f * count - p.
  double frequency_penalty = 0.0;
  double presence_penalty = 0.0;
  std::int64_t no_repeat_ngram = 0;  // no run of so many tokens comes twice, in prompt or output
  // Runs of tokens that must not come: the last one is left out after the others.
  std::vector<std::vector<std::int32_t>> bad_words = {};
  std::int64_t min_new_tokens = 0;  // none of `end_tokens` before
  std::vector<std::int32_t> end_tokens = {};
  // Tokens beside which no other can come: as the second one of prompt and output together; as the
  // first ones of the output; as the last one of `max_new_tokens`, where that is not 0.
  std::vector<std::int32_t> forced_second = {}, forced_first = {}, forced_last = {};
  std::int64_t max_new_tokens = 0;
  std::vector<std::int32_t> suppressed = {};           // never drawn
  std::vector<std::int32_t> suppressed_at_begin = {};  // not drawn first
  double temperature = 1.0;                            // 0 = greedy, whatever follows
  double top_h = 0.0;           // of the 100 likeliest those that hold this part of their entropy
  std::int64_t top_k = 0;       // 0 = all; more stay where tokens are as likely as the last
  double top_p = 1.0;           // 1 = all
  double min_p = 0.0;           // 0 = all
  double typical_p = 1.0;       // those nearest to the expected surprise, up to this mass; 1 = all
  double epsilon_cutoff = 0.0;  // those at least that likely
  double eta_cutoff = 0.0;      // likewise, less where the entropy is high
  std::uint64_t seed = 0;
};

// The draw for token `index` of a sequence depends on logits, tokens so far, seed and index only.
class Sampler {
 public:
  explicit Sampler(SamplerOptions options) : options_(std::move(options)) {}

  // A token that may be drawn, and what its probability is proportional to.
  struct Candidate {
    float logit;
    std::int32_t id;
    double weight;
  };
  // Those that are left of `logits` after `tokens`: the prompt, then `num_output` tokens of output.
  // One where the temperature is 0. Throws UserError (exit 3) where no token is left. Valid until
  // the next call.
  std::span<const Candidate> candidates(std::span<const float> logits,
                                        std::span<const std::int32_t> tokens = {},
                                        std::size_t num_output = 0);

  // A draw among them. Of equal logits the lowest id comes first.
  std::int32_t sample(std::span<const float> logits, std::uint64_t index,
                      std::span<const std::int32_t> tokens = {}, std::size_t num_output = 0);

 private:
  SamplerOptions options_;
  // Kept to avoid allocation.
  std::vector<float> logits_;  // after penalties
  std::vector<float> peaks_;   // the largest of each block
  std::vector<Candidate> candidates_;
};

// A token drawn from what is not a distribution would be noise that looks like text: throws
// UserError (exit 3) where the logits after `length` tokens are not numbers.
void check_logits(std::span<const float> logits, std::int64_t length);
// Throws UserError (exit 3): after so many tokens each one is excluded.
[[noreturn]] void refuse_empty(std::size_t num_tokens);

// The id of the largest logit; of equal ones the lowest.
std::int32_t argmax(std::span<const float> logits);

// log softmax(logits)[id], in f64.
double log_probability(std::span<const float> logits, std::int32_t id);

// The `n` likeliest tokens and their log softmax, likeliest first.
std::vector<std::pair<std::int32_t, double>> best_log_probabilities(std::span<const float> logits,
                                                                    std::size_t n);

}  // namespace lamina::decode
