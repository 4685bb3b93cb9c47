#include "decode/sampler.h"

#include <Random123/philox.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/error.h"
#include "decode/candidates.h"
#include "decode/penalties.h"

namespace lamina::decode {
namespace {

// REQUIRES: no NaN. In lanes that compilers vectorise; -INFINITY for an empty list.
float largest(std::span<const float> list) {
  constexpr std::size_t kLanes = 16;
  float lanes[kLanes];
  std::ranges::fill(lanes, -INFINITY);
  std::size_t i = 0;
  for (; i + kLanes <= list.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = list[i + lane] > lanes[lane] ? list[i + lane] : lanes[lane];
  float out = *std::ranges::max_element(lanes);
  for (; i < list.size(); ++i) out = std::max(out, list[i]);
  return out;
}

// Logits are searched in blocks; the maximum of a block shows that most can be skipped.
constexpr std::size_t kBlock = 128;

std::span<const float> block_of(std::span<const float> list, std::size_t block) {
  return list.subspan(block * kBlock, std::min(kBlock, list.size() - block * kBlock));
}

// The k-th largest; `k` is at most the size.
float kth_largest(std::span<const float> list, std::span<const float> peaks, std::size_t k) {
  std::vector<float> heap(k, -INFINITY);  // the smallest of the k largest is in front
  for (std::size_t block = 0; block < peaks.size(); ++block) {
    if (peaks[block] <= heap.front()) continue;
    for (const float x : block_of(list, block)) {
      if (x <= heap.front()) continue;
      std::ranges::pop_heap(heap, std::greater());
      heap.back() = x;
      std::ranges::push_heap(heap, std::greater());
    }
  }
  return heap.front();
}

}  // namespace

void check_logits(std::span<const float> logits, std::int64_t length) {
  // Checks all values without an early exit, to be vectorised.
  unsigned is_bad = 0, is_some = 0;
  for (const float x : logits) {
    is_bad |= x < INFINITY ? 0u : 1u;  // also true for a NaN
    is_some |= x > -INFINITY ? 1u : 0u;
  }
  if (is_some && !is_bad) return;
  throw UserError(ExitCode::numerical, {"decode",
                                        fmt::format("the logits after {} token{} are not numbers",
                                                    length, length == 1 ? "" : "s"),
                                        {"the weights contain a NaN or infinity, or the type of "
                                         "the products is too coarse for them: "
                                         "with bfloat16, try --dtype float32"}});
}

void refuse_empty(std::size_t num_tokens) {
  throw UserError(ExitCode::numerical,
                  {"sampling",
                   fmt::format("no token is left after {} tokens: all are excluded", num_tokens),
                   {"exclude fewer: see logit bias, bad words, suppressed tokens, "
                    "no-repeat n-grams and the minimum number of tokens"}});
}

std::int32_t argmax(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::ranges::find(logits, largest(logits)) - logits.begin());
}

double log_probability(std::span<const float> logits, std::int32_t id) {
  double top = largest(logits), sum = 0;
  for (float x : logits) sum += std::exp(static_cast<double>(x) - top);
  return static_cast<double>(logits[static_cast<std::size_t>(id)]) - top - std::log(sum);
}

std::vector<std::pair<std::int32_t, double>> best_log_probabilities(std::span<const float> logits,
                                                                    std::size_t n) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  n = std::min(n, ids.size());
  std::ranges::partial_sort(ids, ids.begin() + static_cast<std::ptrdiff_t>(n),
                            [&](std::int32_t a, std::int32_t b) {
                              const float x = logits[static_cast<std::size_t>(a)],
                                          y = logits[static_cast<std::size_t>(b)];
                              return x != y ? x > y : a < b;
                            });
  const double top = log_probability(logits, ids.front());
  const auto best = static_cast<double>(logits[static_cast<std::size_t>(ids.front())]);
  std::vector<std::pair<std::int32_t, double>> out;
  for (std::size_t i = 0; i < n; ++i)
    out.emplace_back(ids[i],
                     top + (static_cast<double>(logits[static_cast<std::size_t>(ids[i])]) - best));
  return out;
}

std::span<const Sampler::Candidate> Sampler::candidates(std::span<const float> logits,
                                                        std::span<const std::int32_t> tokens,
                                                        std::size_t num_output) {
  if (has_penalties(options_)) {
    logits_.assign(logits.begin(), logits.end());
    apply_penalties(options_, tokens, num_output, Logits(logits_));
    logits = logits_;
  }
  candidates_.clear();
  if (options_.temperature == 0) {
    const std::int32_t best = argmax(logits);
    const float logit = logits[static_cast<std::size_t>(best)];
    if (logit == -INFINITY) refuse_empty(tokens.size());
    candidates_.push_back({logit, best, 1});
    return candidates_;
  }
  peaks_.resize((logits.size() + kBlock - 1) / kBlock);
  for (std::size_t block = 0; block < peaks_.size(); ++block)
    peaks_[block] = largest(block_of(logits, block));
  const float top_logit = largest(peaks_);
  if (top_logit == -INFINITY) refuse_empty(tokens.size());
  const auto k = static_cast<std::size_t>(options_.top_k);
  // Tokens that top-k certainly removes need not become candidates. Top-h is applied before it, to
  // all.
  const bool only_best = k > 0 && k < logits.size() && options_.top_h == 0;
  const float least = only_best ? kth_largest(logits, peaks_, k + 1) : -INFINITY;
  for (std::size_t block = 0; block < peaks_.size(); ++block) {
    if (peaks_[block] < least) continue;
    const std::span<const float> in = block_of(logits, block);
    for (std::size_t i = 0; i < in.size(); ++i)
      if (in[i] >= least && in[i] != -INFINITY)
        candidates_.push_back({in[i], static_cast<std::int32_t>(block * kBlock + i), 0});
  }
  filter(options_, top_logit, candidates_, {});
  return candidates_;
}

std::int32_t Sampler::sample(std::span<const float> logits, std::uint64_t index,
                             std::span<const std::int32_t> tokens, std::size_t num_output) {
  candidates(logits, tokens, num_output);
  return drawn(index);
}

// Philox4x32-10.
double Sampler::uniform(std::uint64_t index) const {
  r123::Philox4x32::ctr_type counter{
      {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, 0}};
  r123::Philox4x32::key_type key{
      {static_cast<std::uint32_t>(options_.seed), static_cast<std::uint32_t>(options_.seed >> 32)}};
  auto bits = r123::Philox4x32{}(counter, key);
  std::uint64_t wide = (static_cast<std::uint64_t>(bits[0]) << 32) | bits[1];
  return static_cast<double>(wide >> 11) * 0x1p-53;
}

std::int32_t Sampler::drawn(std::uint64_t index) const {
  if (candidates_.size() == 1) return candidates_.front().id;
  double draw = uniform(index) * sum_of(candidates_);
  std::size_t chosen = candidates_.size() - 1;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    draw -= candidates_[i].weight;
    if (draw < 0) {
      chosen = i;
      break;
    }
  }
  while (candidates_[chosen].weight == 0) --chosen;
  return candidates_[chosen].id;
}

}  // namespace lamina::decode
