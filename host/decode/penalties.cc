#include "decode/penalties.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

namespace lamina::decode {
namespace {

using Tokens = std::span<const std::int32_t>;

// The tokens that get the repetition penalty.
Tokens window_of(const SamplerOptions& o, Tokens tokens) {
  const std::int64_t n = o.repeat_last_n;
  return n < 0 || n >= std::ssize(tokens) ? tokens : tokens.last(static_cast<std::size_t>(n));
}

template <typename Change>
void change(const Logits& logits, std::int32_t id, const Change& to) {
  constexpr double kLargest = std::numeric_limits<float>::max();  // two infinities have no order
  if (float* value = logits.find(id))
    *value = static_cast<float>(std::min<double>(to(*value), kLargest));
}
void exclude(const Logits& logits, std::int32_t id) {
  change(logits, id, [](double) { return -INFINITY; });
}

// Excludes every token that ended an earlier run of n tokens with the same first n - 1 tokens.
void exclude_repeats(Tokens tokens, std::size_t n, const Logits& logits) {
  if (tokens.size() + 1 < n) return;
  const Tokens tail = tokens.last(n - 1);
  for (std::size_t end = n; end <= tokens.size(); ++end)
    if (std::ranges::equal(tokens.subspan(end - n, n - 1), tail)) exclude(logits, tokens[end - 1]);
}

void exclude_bad_word(Tokens tokens, const std::vector<std::int32_t>& word, const Logits& logits) {
  if (word.empty() || tokens.size() + 1 < word.size()) return;
  const Tokens before = Tokens(word).first(word.size() - 1);
  if (std::ranges::equal(tokens.last(before.size()), before)) exclude(logits, word.back());
}

// The allowed next tokens; empty if any token is allowed.
Tokens forced(const SamplerOptions& o, std::size_t num_tokens, std::size_t num_output) {
  if (static_cast<std::int64_t>(num_output) + 1 == o.max_new_tokens && !o.forced_last.empty())
    return o.forced_last;
  if (num_output < o.forced_first.size()) return Tokens(o.forced_first).subspan(num_output, 1);
  if (num_tokens == 1) return o.forced_second;
  return {};
}

}  // namespace

bool penalises_repeats(const SamplerOptions& o) {
  return o.repetition_penalty != 1 && o.repeat_last_n != 0;
}

bool has_penalties(const SamplerOptions& o) {
  return !o.logit_bias.empty() || penalises_repeats(o) || o.frequency_penalty != 0 ||
         o.presence_penalty != 0 || o.no_repeat_ngram > 0 || !o.bad_words.empty() ||
         o.min_new_tokens > 0 || !o.forced_second.empty() || !o.forced_first.empty() ||
         !o.forced_last.empty() || !o.suppressed.empty() || !o.suppressed_at_begin.empty();
}

bool only_lowers(const SamplerOptions& o) {
  return std::ranges::all_of(o.logit_bias, [](const auto& bias) { return bias.second <= 0; }) &&
         (o.repetition_penalty >= 1 || !penalises_repeats(o)) && o.frequency_penalty >= 0 &&
         o.presence_penalty >= 0 && o.forced_second.empty() && o.forced_first.empty() &&
         o.forced_last.empty();
}

float* Logits::find(std::int32_t id) const {
  if (ids_.empty()) {
    const bool is_inside = id >= 0 && static_cast<std::size_t>(id) < values_.size();
    return is_inside ? &values_[static_cast<std::size_t>(id)] : nullptr;
  }
  const auto at = std::ranges::lower_bound(ids_, id);
  return at != ids_.end() && *at == id ? &values_[static_cast<std::size_t>(at - ids_.begin())]
                                       : nullptr;
}

void apply_penalties(const SamplerOptions& o, Tokens tokens, std::size_t num_output,
                     Logits logits) {
  for (const auto& [id, bias] : o.logit_bias)
    change(logits, id, [bias = bias](double l) { return l + bias; });
  if (penalises_repeats(o)) {
    const double r = o.repetition_penalty;
    const Tokens window = window_of(o, tokens);
    for (std::int32_t id : std::unordered_set<std::int32_t>(window.begin(), window.end()))
      change(logits, id, [r](double l) { return l > 0 ? l / r : l * r; });
  }
  const Tokens output = tokens.last(num_output);
  if (o.frequency_penalty != 0 || o.presence_penalty != 0) {
    std::unordered_map<std::int32_t, int> counts;
    for (std::int32_t id : output) ++counts[id];
    for (const auto& [id, count] : counts)
      change(logits, id,
             [&, n = count](double l) { return l - o.frequency_penalty * n - o.presence_penalty; });
  }
  if (o.no_repeat_ngram > 0)
    exclude_repeats(tokens, static_cast<std::size_t>(o.no_repeat_ngram), logits);
  for (const auto& word : o.bad_words) exclude_bad_word(tokens, word, logits);
  if (static_cast<std::int64_t>(num_output) < o.min_new_tokens)
    for (std::int32_t id : o.end_tokens) exclude(logits, id);
  if (const Tokens only = forced(o, tokens.size(), num_output); !only.empty()) {
    std::ranges::fill(logits.values(), -INFINITY);
    for (std::int32_t id : only) change(logits, id, [](double) { return 0.0; });
  }
  for (std::int32_t id : o.suppressed) exclude(logits, id);
  const bool begins_forced = !o.forced_second.empty() && tokens.size() == num_output + 1;
  if (num_output == (begins_forced ? 1u : 0u))
    for (std::int32_t id : o.suppressed_at_begin) exclude(logits, id);
}

}  // namespace lamina::decode
