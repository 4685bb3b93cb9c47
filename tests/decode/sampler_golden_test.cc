// Distributions after sampling options, compared with Hugging Face's processors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "core/json.h"
#include "decode/sampler.h"
#include "io/safetensors.h"
#include "support/goldens.h"

namespace lamina::decode {
namespace {

std::vector<float> floats(const io::TensorView& view) {
  std::vector<float> out(view.bytes.size() / sizeof(float));
  std::memcpy(out.data(), view.bytes.data(), view.bytes.size());
  return out;
}

std::vector<std::int32_t> ids(JsonValue list) {
  std::vector<std::int32_t> out;
  for (JsonValue id : list.elements()) out.push_back(static_cast<std::int32_t>(id.as_int64()));
  return out;
}

SamplerOptions read_options(JsonValue settings) {
  const std::map<std::string_view, double SamplerOptions::*> numbers = {
      {"temperature", &SamplerOptions::temperature},
      {"top_p", &SamplerOptions::top_p},
      {"min_p", &SamplerOptions::min_p},
      {"typical_p", &SamplerOptions::typical_p},
      {"epsilon_cutoff", &SamplerOptions::epsilon_cutoff},
      {"eta_cutoff", &SamplerOptions::eta_cutoff},
      {"top_h", &SamplerOptions::top_h},
      {"repetition_penalty", &SamplerOptions::repetition_penalty},
      {"presence_penalty", &SamplerOptions::presence_penalty},
      {"frequency_penalty", &SamplerOptions::frequency_penalty}};
  const std::map<std::string_view, std::int64_t SamplerOptions::*> integers = {
      {"top_k", &SamplerOptions::top_k},
      {"no_repeat_ngram_size", &SamplerOptions::no_repeat_ngram},
      {"min_new_tokens", &SamplerOptions::min_new_tokens}};
  SamplerOptions out;
  for (auto [key, value] : settings.members()) {
    if (const auto number = numbers.find(key); number != numbers.end()) {
      out.*number->second = value.as_double();
    } else if (const auto integer = integers.find(key); integer != integers.end()) {
      out.*integer->second = value.as_int64();
    } else if (key == "logit_bias") {
      for (auto [id, bias] : value.members())
        out.logit_bias.emplace_back(std::stoi(std::string(id)), bias.as_double());
    } else if (key == "suppress_tokens") {
      out.suppressed = ids(value);
    } else if (key == "bad_words_ids") {
      for (JsonValue word : value.elements()) out.bad_words.push_back(ids(word));
    } else {
      ADD_FAILURE() << "unknown setting " << key;
    }
  }
  return out;
}

bool close(double got, double expected) {
  return std::abs(got - expected) <= 1e-5 + 1e-4 * expected;
}

// Kept tokens and their probabilities, most likely first.
std::vector<std::pair<std::int32_t, double>> kept(std::span<const Sampler::Candidate> left) {
  double sum = 0;
  for (const auto& c : left) sum += c.weight;
  std::vector<std::pair<std::int32_t, double>> out;
  for (const auto& c : left) out.emplace_back(c.id, c.weight / sum);
  return out;
}

TEST(SamplerGolden, KeptTokensAndProbabilitiesEqualTheReference) {
  std::string folder = lamina::testing::golden_dir() / "sampling";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "is not there: " << folder;
  JsonDocument cases = JsonDocument::read(folder + "/cases.json");
  io::SafetensorsFile logits(folder + "/logits.safetensors");
  int compared = 0;
  for (JsonValue c : cases.root().at("cases").elements()) {
    SCOPED_TRACE("case " + std::to_string(c.at("id").as_int64()));
    SamplerOptions options = read_options(c.at("settings"));
    options.end_tokens = ids(c.at("eos_ids"));
    std::vector<std::int32_t> tokens = ids(c.at("prompt_ids"));
    const std::vector<std::int32_t> output = ids(c.at("output_ids"));
    tokens.insert(tokens.end(), output.begin(), output.end());
    const std::vector<float> values = floats(logits.tensor(c.at("logits").as_string()));
    Sampler sampler(options);
    const auto left = kept(sampler.candidates(values, tokens, output.size()));
    ++compared;
    if (JsonValue greedy = c.find("greedy")) {
      ASSERT_EQ(left.size(), 1u);
      EXPECT_EQ(left[0].first, greedy.as_int64());
    } else if (c.find("tie_at_boundary")) {  // equal logits at the boundary: any choice is right
      std::vector<double> got;
      for (const auto& [id, p] : left) got.push_back(p);
      std::ranges::sort(got, std::greater<>());
      std::size_t i = 0;
      EXPECT_EQ(got.size(), c.at("kept_count").as_uint64());
      for (JsonValue p : c.at("sorted_probs").elements())
        EXPECT_TRUE(i < got.size() && close(got[i++], p.as_double()));
    } else {
      // Compared by logit: of equal logits at the boundary the sampler keeps the lowest ids, the
      // reference any.
      std::multimap<float, double> got, expected;
      for (const auto& [id, p] : left)
        if (p > 0) got.emplace(values[static_cast<std::size_t>(id)], p);
      for (JsonValue pair : c.at("probs").elements())
        if (const double p = pair.element(1).as_double(); p > 0)
          expected.emplace(values[pair.element(0).as_uint64()], p);
      ASSERT_EQ(got.size(), expected.size());
      for (auto a = got.begin(), b = expected.begin(); a != got.end(); ++a, ++b) {
        EXPECT_EQ(a->first, b->first);
        EXPECT_TRUE(close(a->second, b->second)) << a->second << " and " << b->second;
      }
    }
  }
  EXPECT_GT(compared, 100);
}

TEST(SamplerGolden, LogProbabilitiesEqualTheReference) {
  std::string folder = lamina::testing::golden_dir() / "sampling";
  if (!std::filesystem::exists(folder + "/logprobs.json")) GTEST_SKIP() << "is not there";
  JsonDocument cases = JsonDocument::read(folder + "/logprobs.json");
  io::SafetensorsFile logits(folder + "/logits.safetensors");
  for (JsonValue c : cases.root().at("cases").elements()) {
    SCOPED_TRACE(c.at("logits").as_string());
    const std::vector<float> values = floats(logits.tensor(c.at("logits").as_string()));
    const auto best = best_log_probabilities(values, c.at("top").size());
    std::size_t i = 0;
    for (JsonValue pair : c.at("top").elements()) {
      EXPECT_NEAR(best[i].second, pair.element(1).as_double(), 1e-9);
      EXPECT_NEAR(log_probability(values, static_cast<std::int32_t>(pair.element(0).as_int64())),
                  pair.element(1).as_double(), 1e-9);
      ++i;
    }
  }
}

}  // namespace
}  // namespace lamina::decode
