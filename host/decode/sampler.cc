#include "decode/sampler.h"

#include <Random123/philox.h>

#include <algorithm>
#include <cmath>

namespace lamina::decode {
namespace {

// In [0, 1), by Philox4x32-10.
double uniform(std::uint64_t seed, std::uint64_t index) {
  r123::Philox4x32::ctr_type counter{
      {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, 0}};
  r123::Philox4x32::key_type key{
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  auto bits = r123::Philox4x32{}(counter, key);
  std::uint64_t wide = (static_cast<std::uint64_t>(bits[0]) << 32) | bits[1];
  return static_cast<double>(wide >> 11) * 0x1p-53;
}

bool before(const std::pair<float, std::int32_t>& a, const std::pair<float, std::int32_t>& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

}  // namespace

std::int32_t argmax(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

double log_probability(std::span<const float> logits, std::int32_t id) {
  double top = *std::ranges::max_element(logits), sum = 0;
  for (float x : logits) sum += std::exp(static_cast<double>(x) - top);
  return static_cast<double>(logits[static_cast<std::size_t>(id)]) - top - std::log(sum);
}

std::int32_t Sampler::sample(std::span<const float> logits, std::uint64_t index) {
  if (options_.temperature == 0) return argmax(logits);
  std::size_t keep = logits.size();
  if (options_.top_k > 0) keep = std::min(keep, static_cast<std::size_t>(options_.top_k));
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i)
    candidates_.emplace_back(logits[i], static_cast<std::int32_t>(i));
  bool sorted = keep < logits.size() || options_.top_p < 1;
  if (sorted) {
    std::ranges::partial_sort(candidates_, candidates_.begin() + static_cast<std::ptrdiff_t>(keep),
                              before);
    // Tokens as likely as the last one kept stay too.
    auto tail = candidates_.begin() + static_cast<std::ptrdiff_t>(keep);
    auto end = std::partition(tail, candidates_.end(),
                              [last = tail[-1].first](const auto& c) { return c.first == last; });
    std::sort(tail, end, before);
    candidates_.erase(end, candidates_.end());
  }
  double top = sorted ? candidates_.front().first : *std::ranges::max_element(logits);
  std::vector<double> weights;  // not normalised
  double sum = 0;
  for (const auto& [logit, id] : candidates_) {
    weights.push_back(std::exp((static_cast<double>(logit) - top) / options_.temperature));
    sum += weights.back();
  }
  // top-p keeps the fewest most likely tokens whose probabilities reach p.
  if (options_.top_p < 1) {
    double reached = 0;
    std::size_t n = 0;
    while (n < weights.size() && reached < options_.top_p * sum) reached += weights[n++];
    weights.resize(std::max<std::size_t>(n, 1));
  }
  if (options_.min_p > 0)
    for (double& w : weights)
      if (w < options_.min_p) w = 0;  // the most likely token has weight 1
  sum = 0;
  for (double w : weights) sum += w;
  double draw = uniform(options_.seed, index) * sum;
  std::size_t chosen = weights.size() - 1;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    draw -= weights[i];
    if (draw < 0) {
      chosen = i;
      break;
    }
  }
  while (weights[chosen] == 0) --chosen;
  return candidates_[chosen].second;
}

}  // namespace lamina::decode
