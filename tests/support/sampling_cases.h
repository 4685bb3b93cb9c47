// Random logits and options of samplers, for comparing ways to choose the same token.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "core/float16.h"
#include "decode/sampler.h"

namespace lamina::testing {

// The forms of distributions.
enum class LogitsForm { flat, usual, peaked, equal, rounded, excluded };
inline constexpr std::array kLogitsForms = {LogitsForm::flat,    LogitsForm::usual,
                                            LogitsForm::peaked,  LogitsForm::equal,
                                            LogitsForm::rounded, LogitsForm::excluded};

inline std::vector<float> random_logits(std::mt19937& random, LogitsForm form, std::size_t count) {
  const float spread = form == LogitsForm::flat     ? 1e-3f
                       : form == LogitsForm::peaked ? 12.0f
                       : form == LogitsForm::equal  ? 0.0f
                                                    : 3.0f;
  std::normal_distribution<float> normal;
  std::bernoulli_distribution is_excluded(0.9);
  std::vector<float> out(count);
  for (float& x : out) {
    x = spread * normal(random);
    if (form == LogitsForm::rounded) x = to_float(to_bfloat16(std::round(x * 4) / 4));
    if (form == LogitsForm::excluded && is_excluded(random)) x = -INFINITY;
  }
  if (form == LogitsForm::excluded) out[count / 2] = 1;
  return out;
}

inline decode::SamplerOptions random_sampler(std::mt19937& random, std::int32_t vocab) {
  const auto one_of = [&]<typename T>(std::initializer_list<T> values) {
    return values.begin()[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random)];
  };
  const auto rarely = [&](auto value, auto otherwise) {
    return std::bernoulli_distribution(0.15)(random) ? value : otherwise;
  };
  const auto token = [&] {
    return std::uniform_int_distribution<std::int32_t>(0, vocab - 1)(random);
  };
  decode::SamplerOptions o;
  o.temperature = one_of({0.0, 0.3, 0.7, 1.0, 2.5});
  o.top_k = one_of(std::initializer_list<std::int64_t>{0, 0, 0, 1, 40, 127, 128, 255, 300});
  o.top_p = one_of({1.0, 1.0, 0.95, 0.5, 0.0});
  o.min_p = one_of({0.0, 0.0, 0.05, 1.0});
  o.top_h = rarely(0.4, 0.0);
  o.typical_p = rarely(0.8, 1.0);
  o.epsilon_cutoff = rarely(1e-3, 0.0);
  o.eta_cutoff = rarely(1e-3, 0.0);
  o.repetition_penalty = rarely(one_of({1.3, 0.8}), 1.0);
  o.repeat_last_n = one_of(std::initializer_list<std::int64_t>{-1, -1, 0, 1, 2});
  o.frequency_penalty = rarely(one_of({0.5, -0.5}), 0.0);
  o.presence_penalty = rarely(0.5, 0.0);
  o.no_repeat_ngram = rarely(2, 0);
  if (rarely(true, false)) o.logit_bias = {{token(), one_of({-4.0, 4.0})}};
  if (rarely(true, false)) o.suppressed = {token(), token()};
  if (rarely(true, false)) o.forced_first = {token()};
  o.seed = random();
  return o;
}

}  // namespace lamina::testing
