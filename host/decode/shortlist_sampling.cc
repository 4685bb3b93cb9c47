// Sampling from shortlists: the choice of their shape, and tokens that whole rows would give.
//
// A device adds weights in another order than the host, and its exp() may round differently. So
// sums have a margin, and a token counts only if it is the same one everywhere within the margin.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "decode/candidates.h"
#include "decode/penalties.h"
#include "decode/planned_shortlists.h"

namespace lamina::decode {
namespace {

// Lists of more tokens need no option but a large top-k. A device selects at most kLongest fast.
constexpr std::int64_t kUsual = 128, kLongest = kLongestShortlist;

// The relative difference that two sums over all tokens may have: each addition rounds once, on
// the host another time when the draw is counted down. The weights themselves differ by less than
// 100 roundings on average.
double margin_of(std::int64_t vocab) { return static_cast<double>(2 * vocab + 512) * 0x1p-52; }

}  // namespace

ShortlistShape shortlist_shape(const SamplerOptions& o, std::int64_t vocab) {
  const bool penalised = has_penalties(o);
  if (penalised && !only_lowers(o)) return {};
  if (o.temperature == 0) return {.likeliest = std::min(penalised ? kUsual : 1, vocab)};
  if (vocab <= kLongest) return {.likeliest = vocab};
  if (o.top_h > 0) return {.likeliest = kUsual};
  if (o.top_k >= kLongest) return {};
  if (o.top_k > 0) return {.likeliest = o.top_k < kUsual ? kUsual : kLongest};
  if (o.top_p < 1 || o.min_p > 0) return {.likeliest = kUsual};
  const bool filtered = o.typical_p < 1 || o.epsilon_cutoff > 0 || o.eta_cutoff > 0;
  return {.at_draw = !filtered && !penalised};
}

std::optional<std::int32_t> Sampler::sample(const Shortlist& list, std::uint64_t index,
                                            std::span<const std::int32_t> tokens,
                                            std::size_t num_output) {
  if (const auto* tokens_at_draw = std::get_if<TokensAtDraw>(&list))
    return at_draw(*tokens_at_draw, index);
  return of_likeliest(std::get<LikeliestTokens>(list), index, tokens, num_output);
}

std::optional<std::int32_t> Sampler::of_likeliest(const LikeliestTokens& list, std::uint64_t index,
                                                  std::span<const std::int32_t> tokens,
                                                  std::size_t num_output) {
  if (std::isnan(list.weight)) return {};
  const double temperature = options_.temperature;
  const auto weight_of = [&](float logit, float largest) {
    return std::exp((static_cast<double>(logit) - static_cast<double>(largest)) / temperature);
  };
  const float raw_top = list.logits.front();
  candidates_.clear();
  for (std::size_t i = 0; i < list.ids.size() && list.logits[i] != -INFINITY; ++i)
    candidates_.push_back({list.logits[i], list.ids[i], weight_of(list.logits[i], raw_top)});
  std::ranges::sort(candidates_, {}, &Candidate::id);
  Rest rest{.exists = list.logits.back() != -INFINITY && std::ssize(list.ids) < list.vocab,
            .largest = list.logits.back()};
  const bool penalised = has_penalties(options_);
  if (penalised) {
    LAMINA_ASSERT(only_lowers(options_));
    logits_.clear();
    ids_.clear();
    for (const Candidate& c : candidates_) {
      logits_.push_back(c.logit);
      ids_.push_back(c.id);
    }
    apply_penalties(options_, tokens, num_output, Logits(logits_, ids_));
    for (std::size_t i = 0; i < candidates_.size(); ++i) candidates_[i].logit = logits_[i];
    // A token that is no longer above the rest belongs to it: the order among them is not known.
    std::erase_if(candidates_, [&](const Candidate& c) {
      return c.logit == -INFINITY || (rest.exists && c.logit <= rest.largest);
    });
    if (candidates_.empty()) return {};
  }
  const Candidate best = *std::ranges::min_element(candidates_, before);
  if (temperature == 0) return best.id;
  if (rest.exists) {
    const double margin = margin_of(list.vocab), listed = sum_of(candidates_);
    // Penalties may have reduced the weights of the rest.
    rest.least = penalised ? 0 : std::max(0.0, list.weight * (1 - margin) - listed);
    rest.most = std::max(0.0, list.weight * (1 + margin) - listed) * (1 + margin) /
                weight_of(best.logit, raw_top);
  }
  if (!filter(options_, best.logit, candidates_, rest)) return {};
  return drawn(index);
}

std::optional<std::int32_t> Sampler::at_draw(const TokensAtDraw& list, std::uint64_t index) const {
  const double margin = margin_of(list.vocab) * list.weight;
  const double target = uniform(index) * list.weight;
  double through = list.before;
  for (std::size_t i = 0; i < list.logits.size(); ++i) {
    const double before = through;
    through += std::exp((static_cast<double>(list.logits[i]) - static_cast<double>(list.largest)) /
                        options_.temperature);
    if (through <= target - margin) continue;
    if (before <= target - margin && through > target + margin)
      return list.first + static_cast<std::int32_t>(i);
    return {};
  }
  return {};
}

}  // namespace lamina::decode
