#include "decode/candidates.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lamina::decode {
namespace {

// The entropy in nats.
double entropy_of(const Candidates& list, double sum) {
  double out = 0;
  for (const Sampler::Candidate& c : list)
    if (c.weight > 0) out -= c.weight / sum * std::log(c.weight / sum);
  return out;
}

// Sorts the first `n` and removes the others.
void keep_first(Candidates& list, std::size_t n) {
  n = std::min(n, list.size());
  std::ranges::partial_sort(list, list.begin() + static_cast<std::ptrdiff_t>(n), before);
  list.resize(n);
}

constexpr std::size_t kTopH = 100;

// Keeps as many of the 100 likeliest as their accumulated entropy stays within the share `h`.
void keep_top_h(Candidates& list, double h, double temperature) {
  keep_first(list, kTopH);
  const auto top = static_cast<double>(list.front().logit);
  for (Sampler::Candidate& c : list)
    c.weight = std::exp((static_cast<double>(c.logit) - top) / temperature);
  const double sum = sum_of(list), limit = h * entropy_of(list, sum);
  double reached = 0;
  std::size_t n = 0;
  for (; n < list.size(); ++n) {
    const double p = list[n].weight / sum;
    if (p > 0) reached -= p * std::log(p);
    if (reached > limit) break;
  }
  list.resize(std::max<std::size_t>(n, 1));
}

// Keeps the k likeliest, and tokens as likely as the last of them.
void keep_top_k(Candidates& list, std::size_t k) {
  std::ranges::partial_sort(list, list.begin() + static_cast<std::ptrdiff_t>(k), before);
  auto tail = list.begin() + static_cast<std::ptrdiff_t>(k);
  auto end = std::partition(tail, list.end(),
                            [last = tail[-1].logit](const auto& c) { return c.logit == last; });
  std::sort(tail, end, before);
  list.erase(end, list.end());
}

// Keeps the smallest prefix of a sorted list whose probabilities reach p. Returns false if that
// depends on the weight of the rest.
bool keep_top_p(Candidates& list, double p, const Rest& rest) {
  const double sum = sum_of(list), least = p * (sum + rest.least), most = p * (sum + rest.most);
  double reached = 0;
  std::size_t n = 0;
  while (n < list.size() && reached < least) reached += list[n++].weight;
  if (rest.exists && reached < most) return false;
  list.resize(std::max<std::size_t>(n, 1));
  return true;
}

// Keeps the tokens whose surprise is nearest to the entropy until their mass is reached, and ties.
void keep_typical(Candidates& list, double mass) {
  const double sum = sum_of(list), entropy = entropy_of(list, sum);
  const auto distance = [&](const Sampler::Candidate& c) {
    return std::abs(-std::log(c.weight / sum) - entropy);
  };
  std::vector<std::pair<double, double>> sorted;  // distance and weight
  for (const Sampler::Candidate& c : list) sorted.emplace_back(distance(c), c.weight);
  std::ranges::sort(sorted);
  double reached = 0, last = sorted.back().first;
  for (const auto& [away, weight] : sorted) {
    reached += weight;
    if (reached < mass * sum) continue;
    last = away;
    break;
  }
  std::erase_if(list, [&](const Sampler::Candidate& c) { return distance(c) > last; });
}

// Keeps the tokens that are at least that likely, and always the likeliest.
void keep_above(Candidates& list, double probability) {
  const double sum = sum_of(list);
  const double most = std::ranges::max_element(list, {}, &Sampler::Candidate::weight)->weight;
  std::erase_if(list, [&](const Sampler::Candidate& c) {
    return c.weight / sum < probability && c.weight < most;
  });
}

}  // namespace

bool before(const Sampler::Candidate& a, const Sampler::Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

double sum_of(const Candidates& list) {
  double sum = 0;
  for (const Sampler::Candidate& c : list) sum += c.weight;
  return sum;
}

bool filter(const SamplerOptions& options, float top_logit, Candidates& list, Rest rest) {
  const auto weight_of = [&, top = static_cast<double>(top_logit)](float logit) {
    return std::exp((static_cast<double>(logit) - top) / options.temperature);
  };
  const auto k = static_cast<std::size_t>(options.top_k);
  if (options.top_h > 0) {
    if (rest.exists && list.size() < kTopH) return false;
    keep_top_h(list, options.top_h, options.temperature);
    rest = {};
  }
  if (k > 0 && (k < list.size() || rest.exists)) {
    if (list.size() < k) return false;
    keep_top_k(list, k);
    if (rest.exists && list.back().logit <= rest.largest) return false;
    rest = {};
  } else if (options.top_p < 1) {
    std::ranges::sort(list, before);
  }
  for (Sampler::Candidate& c : list) c.weight = weight_of(c.logit);
  if (options.top_p < 1) {
    if (!keep_top_p(list, options.top_p, rest)) return false;
    rest = {};
  }
  if (options.min_p > 0) {  // the likeliest token has the weight 1
    // exp() of two libraries, or of close numbers, may differ in the last bit.
    constexpr double kMargin = 1 + 1e-12;
    if (rest.exists && weight_of(rest.largest) * kMargin >= options.min_p) return false;
    std::erase_if(list, [&](const Sampler::Candidate& c) { return c.weight < options.min_p; });
    rest = {};
  }
  if (rest.exists) return false;
  if (options.typical_p < 1) keep_typical(list, options.typical_p);
  if (options.epsilon_cutoff > 0) keep_above(list, options.epsilon_cutoff);
  if (const double eta = options.eta_cutoff; eta > 0)
    keep_above(list, std::min(eta, std::sqrt(eta) * std::exp(-entropy_of(list, sum_of(list)))));
  return true;
}

}  // namespace lamina::decode
