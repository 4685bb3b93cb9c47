// Sampling defaults in GGUF files.
#include "decode/gguf_sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/gguf_builder.h"
#include "support/temp_dir.h"

namespace lamina::decode {
namespace {

using lamina::testing::GgufBuilder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct SampledByFile {
  GenerateOptions options;
  GgufSampling sampling;
};

SampledByFile sampled(const GgufBuilder& gguf) {
  lamina::testing::TempDir dir;
  const io::GgufFile file(dir.write("m.gguf", gguf.bytes()));
  SampledByFile out;
  out.options.sampler.temperature = 0.8;
  out.sampling = apply_gguf_sampling(file, out.options);
  return out;
}

TEST(GgufSampling, Example) {
  const SampledByFile s =
      sampled(GgufBuilder()
                  .set("general.sampling.temp", 0.6f)
                  .set("general.sampling.top_k", 20u)
                  .set("general.sampling.top_p", 0.95f)
                  .set("general.sampling.min_p", 0.05f)
                  .set("general.sampling.penalty_repeat", 1.1f)
                  .set("tokenizer.ggml.suppress_tokens", std::vector<std::uint32_t>{4, 5}));
  EXPECT_EQ(s.options.sampler.temperature, 0.6);
  EXPECT_EQ(s.options.sampler.top_k, 20);
  EXPECT_EQ(s.options.sampler.top_p, 0.95);
  EXPECT_EQ(s.options.sampler.min_p, 0.05);
  EXPECT_EQ(s.options.sampler.repetition_penalty, 1.1);
  EXPECT_THAT(s.options.sampler.suppressed, ElementsAre(4, 5));
  EXPECT_THAT(s.sampling.config.used, ElementsAre("temperature", "top_k", "top_p", "min_p",
                                                  "repetition_penalty", "suppress_tokens"));
  EXPECT_THAT(s.sampling.missing, IsEmpty());
}

TEST(GgufSampling, AFileWithoutItChangesNothing) {
  const SampledByFile s = sampled(GgufBuilder().set("general.name", "tiny"));
  EXPECT_EQ(s.options.sampler.temperature, 0.8);
  EXPECT_THAT(s.sampling.config.used, IsEmpty());
}

TEST(GgufSampling, ATemperatureOfZeroIsGreedy) {
  EXPECT_EQ(sampled(GgufBuilder().set("general.sampling.temp", 0.f)).options.sampler.temperature,
            0);
  EXPECT_EQ(sampled(GgufBuilder().set("general.sampling.temp", -1.f)).options.sampler.temperature,
            0);
}

TEST(GgufSampling, SamplersThatAreOffHaveNoEffect) {
  const SampledByFile s = sampled(GgufBuilder()
                                      .set("general.sampling.mirostat", 0u)
                                      .set("general.sampling.mirostat_tau", 5.f)
                                      .set("general.sampling.mirostat_eta", 0.1f)
                                      .set("general.sampling.xtc_probability", 0.f)
                                      .set("general.sampling.xtc_threshold", 0.1f)
                                      .set("general.sampling.penalty_last_n", 64u)
                                      .set("general.sampling.sequence", ""));
  EXPECT_THAT(s.sampling.missing, IsEmpty());
}

TEST(GgufSampling, OtherWaysToSampleAreNamed) {
  const SampledByFile s = sampled(GgufBuilder()
                                      .set("general.sampling.mirostat", 2u)
                                      .set("general.sampling.xtc_probability", 0.5f)
                                      .set("general.sampling.penalty_repeat", 1.5f)
                                      .set("general.sampling.penalty_last_n", 64u)
                                      .set("general.sampling.sequence", "top_k;temperature"));
  EXPECT_THAT(s.sampling.missing, ElementsAre("general.sampling.sequence = 'top_k;temperature'",
                                              "general.sampling.mirostat = 2",
                                              "general.sampling.xtc_probability = 0.5"));
  EXPECT_EQ(s.sampling.missing_window, "general.sampling.penalty_last_n = 64");
}

// Otherwise --temp would sample with a penalty of all tokens, which is neither.
TEST(GgufSampling, APenaltyWithAWindowIsNone) {
  const SampledByFile s = sampled(GgufBuilder()
                                      .set("general.sampling.top_k", 20u)
                                      .set("general.sampling.penalty_repeat", 1.5f)
                                      .set("general.sampling.penalty_last_n", 64u));
  EXPECT_EQ(s.options.sampler.repetition_penalty, 1);
  EXPECT_THAT(s.sampling.config.used, ElementsAre("top_k"));
}

TEST(GgufSampling, AWindowOfNoTokensIsNoPenalty) {
  const SampledByFile s = sampled(GgufBuilder()
                                      .set("general.sampling.penalty_repeat", 1.5f)
                                      .set("general.sampling.penalty_last_n", 0u));
  EXPECT_EQ(s.options.sampler.repetition_penalty, 1);
  EXPECT_THAT(s.sampling.missing, IsEmpty());
  EXPECT_EQ(s.sampling.missing_window, std::nullopt);
}

TEST(GgufSampling, ValuesThatCannotBeAreRefusedByKey) {
  EXPECT_ERROR_SAYS(sampled(GgufBuilder().set("general.sampling.temp", "warm")),
                    ExitCode::checkpoint, "'general.sampling.temp' is a string; expected a number");
  EXPECT_ERROR_SAYS(sampled(GgufBuilder().set("general.sampling.top_k", 1.5f)),
                    ExitCode::checkpoint,
                    "'general.sampling.top_k' is 1.5; expected a whole number");
  EXPECT_ERROR_SAYS(sampled(GgufBuilder().set("general.sampling.penalty_repeat", 0.f)),
                    ExitCode::checkpoint,
                    "'general.sampling.penalty_repeat' is 0; it must be at least 0.01");
  EXPECT_ERROR_SAYS(
      sampled(GgufBuilder().raw("general.sampling.temp", 12, lamina::testing::raw_bytes(1e300))),
      ExitCode::checkpoint,
      "'general.sampling.temp' is 1e+300; it must be within the range of float32");
}

}  // namespace
}  // namespace lamina::decode
