// What sampling options leave of a distribution, against Hugging Face's processors.
#include <gtest/gtest.h>

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

// Options that the case sets and this sampler lacks leave it out.
bool read_options(JsonValue settings, SamplerOptions& out) {
  for (auto [key, value] : settings.members()) {
    if (key == "temperature") {
      out.temperature = value.as_double();
    } else if (key == "top_k") {
      out.top_k = value.as_int64();
    } else if (key == "top_p") {
      out.top_p = value.as_double();
    } else if (key == "min_p") {
      out.min_p = value.as_double();
    } else {
      return false;
    }
  }
  return true;
}

TEST(SamplerGolden, DrawsExactlyTheTokensThatTheReferenceKeeps) {
  std::string folder = lamina::testing::golden_dir() / "sampling";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "is not there: " << folder;
  JsonDocument cases = JsonDocument::read(folder + "/cases.json");
  io::SafetensorsFile logits(folder + "/logits.safetensors");
  constexpr int kDraws = 300;  // a token of probability 0.06 is missed once in 10^8 cases
  int compared = 0;
  for (JsonValue c : cases.root().at("cases").elements()) {
    SamplerOptions options;
    if (!read_options(c.at("settings"), options)) continue;
    // Which of equal logits stay is nobody's business there.
    if (c.find("tie_at_boundary")) continue;
    ++compared;
    std::vector<float> values = floats(logits.tensor(c.at("logits").as_string()));
    Sampler sampler(options);
    std::set<std::int64_t> drawn;
    for (unsigned i = 0; i < kDraws; ++i) drawn.insert(sampler.sample(values, i));
    std::int64_t id = c.at("id").as_int64();
    if (JsonValue greedy = c.find("greedy")) {
      EXPECT_EQ(drawn, std::set<std::int64_t>{greedy.as_int64()}) << "case " << id;
      continue;
    }
    std::map<std::int64_t, double> kept;
    for (JsonValue pair : c.at("probs").elements()) {
      auto at = pair.elements().begin();
      std::int64_t token = (*at).as_int64();
      kept[token] = (*++at).as_double();
    }
    for (std::int64_t token : drawn)
      EXPECT_TRUE(kept.contains(token)) << "case " << id << ": " << token << " was left out";
    for (auto [token, p] : kept)
      EXPECT_TRUE(p < 0.06 || drawn.contains(token)) << "case " << id << ": " << token << " never";
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace lamina::decode
