// Rope: the precision of the table, and the frequencies of every scaling.
#include "backends/cpu/rope/rope.h"

#include "ops/rope_frequencies.h"
#include "support/expect_error.h"
#include "vector_support.h"

namespace lamina::cpu {
namespace {

using ops::rope_frequencies;
using ops::RopeFrequencies;
using ops::RopeScaling;
using ops::RopeSpec;

struct Table {
  std::vector<float> cos, sin;
};

Table make_table(const std::vector<std::int32_t>& positions, const std::vector<float>& inv_freq,
                 float factor = 1) {
  const auto tokens = static_cast<std::int64_t>(positions.size());
  const auto n = static_cast<std::size_t>(tokens) * inv_freq.size();
  Table t = {std::vector<float>(n), std::vector<float>(n)};
  rope_table({.positions = positions.data(),
              .num_tokens = tokens,
              .inv_freq = inv_freq.data(),
              .num_frequencies = static_cast<std::int64_t>(inv_freq.size()),
              .attention_factor = factor,
              .cos = t.cos.data(),
              .sin = t.sin.data()});
  return t;
}

TEST(RopeTable, HoldsCosAndSinOfTheF32Angle) {
  const std::vector<std::int32_t> positions = {0, 1, 2, 17, 4095, 131071, 1048575, 9999999};
  const RopeFrequencies f = rope_frequencies({.rotary_dim = 70, .theta = 500000}, 0);
  for_each_isa([&] {
    const Table t = make_table(positions, f.inv_freq, 1.25f);
    for (std::size_t p = 0; p < positions.size(); ++p)
      for (std::size_t i = 0; i < 35; ++i) {
        const float angle = static_cast<float>(positions[p]) * f.inv_freq[i];
        EXPECT_LE(ulps(t.cos[p * 35 + i], 1.25 * std::cos(static_cast<double>(angle))), 1.5);
        EXPECT_LE(ulps(t.sin[p * 35 + i], 1.25 * std::sin(static_cast<double>(angle))), 1.5);
      }
  });
}

// --- frequencies ---

TEST(RopeFrequencies, PlainIsThePowerOfTheta) {
  const RopeFrequencies f = rope_frequencies({.rotary_dim = 128, .theta = 10000}, 0);
  ASSERT_EQ(f.inv_freq.size(), 64u);
  EXPECT_EQ(f.attention_factor, 1.0f);
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_LE(ulps(f.inv_freq[i], std::pow(1e4, -static_cast<double>(i) / 64)), 8);
}

TEST(RopeFrequencies, LinearDividesByTheFactor) {
  const auto plain = rope_frequencies({.rotary_dim = 16, .theta = 1e4}, 0).inv_freq;
  const auto f = rope_frequencies(
      {.rotary_dim = 16, .theta = 1e4, .scaling = RopeScaling::linear, .factor = 8}, 0);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(f.inv_freq[i], plain[i] / 8);
}

TEST(RopeFrequencies, DynamicRaisesThetaOnlyBeyondTheTrainedLength) {
  const RopeSpec spec = {.rotary_dim = 16,
                         .theta = 1e4,
                         .scaling = RopeScaling::dynamic,
                         .factor = 2,
                         .max_position_embeddings = 16};
  const auto plain = rope_frequencies({.rotary_dim = 16, .theta = 1e4}, 0).inv_freq;
  EXPECT_EQ(rope_frequencies(spec, 10).inv_freq, plain);
  // theta' = theta (2 * 40 / 16 - 1)^(16 / 14)
  const double theta = 1e4 * std::pow(4.0, 16.0 / 14);
  const auto longer = rope_frequencies(spec, 40).inv_freq;
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_LE(ulps(longer[i], std::pow(theta, -static_cast<double>(i) / 8)), 8);
}

TEST(RopeFrequencies, Llama3KeepsBlendsAndDivides) {
  const RopeSpec spec = {.rotary_dim = 128,
                         .theta = 500000,
                         .scaling = RopeScaling::by_wavelength,
                         .factor = 8,
                         .original_max_position_embeddings = 8192,
                         .low_freq_factor = 1,
                         .high_freq_factor = 4};
  const auto f = rope_frequencies(spec, 0).inv_freq;
  int kept = 0, blended = 0, divided = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    const double plain = std::pow(5e5, -static_cast<double>(i) / 64);
    const double wavelength = 2 * M_PI / plain;
    const double s = (8192 / wavelength - 1) / 3;
    const double want = wavelength < 2048   ? (++kept, plain)
                        : wavelength > 8192 ? (++divided, plain / 8)
                                            : (++blended, (1 - s) * plain / 8 + s * plain);
    EXPECT_NEAR(f[i] / want, 1, 2e-6) << i;
  }
  EXPECT_GT(kept, 10);
  EXPECT_GT(blended, 2);
  EXPECT_GT(divided, 10);
}

TEST(RopeFrequencies, Llama3WithEqualBoundsHasNoBlendedBand) {
  const RopeSpec spec = {.rotary_dim = 64,
                         .theta = 500000,
                         .scaling = RopeScaling::by_wavelength,
                         .factor = 16,
                         .original_max_position_embeddings = 8192,
                         .low_freq_factor = 1,
                         .high_freq_factor = 1};
  const auto plain = rope_frequencies({.rotary_dim = 64, .theta = 500000}, 0).inv_freq;
  const auto f = rope_frequencies(spec, 0).inv_freq;
  for (std::size_t i = 0; i < 32; ++i)
    EXPECT_EQ(f[i], 2 * M_PI / number(plain[i]) > 8192 ? plain[i] / 16 : plain[i]);
}

double yarn_frequency(const RopeSpec& s, std::size_t i) {
  const double d = static_cast<double>(s.rotary_dim), x = static_cast<double>(i);
  const auto dim = [&](double n) {
    return d * std::log(static_cast<double>(s.original_max_position_embeddings) / (n * 2 * M_PI)) /
           (2 * std::log(s.theta));
  };
  double low = dim(s.beta_fast), high = dim(s.beta_slow);
  if (s.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, d - 1);
  const double ramp = std::min(1.0, std::max(0.0, (x - low) / (high - low)));
  const double f = std::pow(s.theta, -2 * x / d);
  return f / s.factor * ramp + f * (1 - ramp);
}

TEST(RopeFrequencies, YarnRampsBetweenRotationCounts) {
  for (bool truncate : {true, false}) {
    const RopeSpec spec = {.rotary_dim = 64,
                           .theta = 150000,
                           .scaling = RopeScaling::yarn,
                           .factor = 32,
                           .original_max_position_embeddings = 4096,
                           .truncate = truncate};
    const RopeFrequencies f = rope_frequencies(spec, 0);
    for (std::size_t i = 0; i < 32; ++i)
      EXPECT_NEAR(f.inv_freq[i] / yarn_frequency(spec, i), 1, 2e-6);
    EXPECT_NEAR(f.attention_factor, 0.1 * std::log(32.0) + 1, 1e-6);
  }
}

TEST(RopeFrequencies, YarnAttentionFactorIsGivenOrAQuotientOrTheLogarithm) {
  RopeSpec spec = {.rotary_dim = 64,
                   .theta = 1e4,
                   .scaling = RopeScaling::yarn,
                   .factor = 40,
                   .original_max_position_embeddings = 4096};
  spec.mscale = 1.0;
  spec.mscale_all_dim = 0.707;
  EXPECT_NEAR(rope_frequencies(spec, 0).attention_factor,
              (0.1 * std::log(40.0) + 1) / (0.0707 * std::log(40.0) + 1), 1e-6);
  spec.mscale_all_dim = 0.0;
  EXPECT_NEAR(rope_frequencies(spec, 0).attention_factor, 0.1 * std::log(40.0) + 1, 1e-6);
  spec.attention_factor = 1.5;
  EXPECT_EQ(rope_frequencies(spec, 0).attention_factor, 1.5f);
}

TEST(RopeFrequencies, LongropeChoosesDivisorsByLength) {
  const RopeSpec spec = {.rotary_dim = 4,
                         .theta = 1e4,
                         .scaling = RopeScaling::longrope,
                         .max_position_embeddings = 131072,
                         .original_max_position_embeddings = 4096,
                         .short_factor = {1, 2},
                         .long_factor = {4, 8}};
  EXPECT_EQ(rope_frequencies(spec, 4096).inv_freq, (std::vector<float>{1, 1 / (100.0f * 2)}));
  EXPECT_EQ(rope_frequencies(spec, 4097).inv_freq, (std::vector<float>{0.25f, 1 / (100.0f * 8)}));
  EXPECT_NEAR(rope_frequencies(spec, 1).attention_factor,
              std::sqrt(1 + std::log(32.0) / std::log(4096.0)), 1e-6);
}

TEST(RopeFrequencies, PairsBeyondNumRotatedDoNotRotate) {
  const auto f = rope_frequencies({.rotary_dim = 16, .theta = 1e4, .num_rotated = 2}, 0).inv_freq;
  EXPECT_GT(f[1], 0);
  for (std::size_t i = 2; i < 8; ++i) EXPECT_EQ(f[i], 0);
}

TEST(RopeFrequencies, RejectsAnOddDim) {
  EXPECT_USER_ERROR(rope_frequencies({.rotary_dim = 7, .theta = 1e4}, 0), ExitCode::usage,
                    "rope: the rotary dim must be even and above 0, got 7");
}

TEST(RopeFrequencies, RejectsAMissingOriginalLength) {
  EXPECT_USER_ERROR(
      rope_frequencies({.rotary_dim = 8, .theta = 1e4, .scaling = RopeScaling::yarn, .factor = 4},
                       0),
      ExitCode::usage,
      "rope_scaling: original_max_position_embeddings must be a number above 0, got 0");
}

TEST(RopeFrequencies, RejectsTooFewLongropeDivisors) {
  EXPECT_USER_ERROR(rope_frequencies({.rotary_dim = 8,
                                      .theta = 1e4,
                                      .scaling = RopeScaling::longrope,
                                      .original_max_position_embeddings = 10,
                                      .short_factor = {1, 1}},
                                     5),
                    ExitCode::usage,
                    "rope_scaling: short_factor must have 4 numbers, one per frequency; got 2");
}

}  // namespace
}  // namespace lamina::cpu
