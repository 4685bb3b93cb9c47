// Choosing the next token: a function of logits and a counter-based draw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lamina::decode {

struct SamplerOptions {
  double temperature = 1.0;  // 0 = greedy
  std::int64_t top_k = 0;    // 0 = all; more stay where tokens are as likely as the last
  double top_p = 1.0;        // 1 = all
  double min_p = 0.0;        // 0 = all
  std::uint64_t seed = 0;
};

// The draw for token `index` of a sequence depends on (seed, index) only.
class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options) : options_(options) {}

  // In the order of Hugging Face's processors: temperature, top-k, top-p, min-p, then a draw. Of
  // equal logits the lowest id comes first.
  std::int32_t sample(std::span<const float> logits, std::uint64_t index);

 private:
  SamplerOptions options_;
  std::vector<std::pair<float, std::int32_t>> candidates_;  // kept to avoid allocation
};

// The id of the largest logit; of equal ones the lowest.
std::int32_t argmax(std::span<const float> logits);

// log softmax(logits)[id], in f64.
double log_probability(std::span<const float> logits, std::int32_t id);

}  // namespace lamina::decode
