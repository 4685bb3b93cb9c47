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
                  .set("general.sampling.penalty_last_n", 256u)
                  .set("tokenizer.ggml.suppress_tokens", std::vector<std::uint32_t>{4, 5}));
  EXPECT_EQ(s.options.sampler.temperature, 0.6);
  EXPECT_EQ(s.options.sampler.top_k, 20);
  EXPECT_EQ(s.options.sampler.top_p, 0.95);
  EXPECT_EQ(s.options.sampler.min_p, 0.05);
  EXPECT_EQ(s.options.sampler.repetition_penalty, 1.1);
  EXPECT_EQ(s.options.sampler.repeat_last_n, 256);
  EXPECT_THAT(s.options.sampler.suppressed, ElementsAre(4, 5));
  EXPECT_THAT(s.sampling.config.used,
              ElementsAre("temperature", "top_k", "top_p", "min_p", "repetition_penalty",
                          "repeat-last-n", "suppress_tokens"));
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
}

TEST(GgufSampling, APenaltyHasAWindow) {
  for (const float window : {20.0f, -1.0f, 0.0f}) {
    const SampledByFile s = sampled(GgufBuilder()
                                        .set("general.sampling.penalty_repeat", 1.5f)
                                        .set("general.sampling.penalty_last_n", window));
    EXPECT_EQ(s.options.sampler.repetition_penalty, 1.5);
    EXPECT_EQ(s.options.sampler.repeat_last_n, static_cast<std::int64_t>(window));
    EXPECT_THAT(s.sampling.config.used, ElementsAre("repetition_penalty", "repeat-last-n"));
  }
}

// llama.cpp's default. A file without a penalty sets no window.
TEST(GgufSampling, AWindowThatAPenaltyLacksIsOf64Tokens) {
  const SampledByFile s = sampled(GgufBuilder().set("general.sampling.penalty_repeat", 1.5f));
  EXPECT_EQ(s.options.sampler.repeat_last_n, 64);
  EXPECT_THAT(s.sampling.config.used, ElementsAre("repetition_penalty", "repeat-last-n"));
  const SampledByFile none = sampled(GgufBuilder().set("general.sampling.penalty_repeat", 1.0f));
  EXPECT_EQ(none.options.sampler.repeat_last_n, -1);
  EXPECT_THAT(none.sampling.config.used, ElementsAre("repetition_penalty"));
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
  EXPECT_ERROR_SAYS(sampled(GgufBuilder().set("general.sampling.penalty_last_n", -2.f)),
                    ExitCode::checkpoint,
                    "'general.sampling.penalty_last_n' is -2; it must be at least -1");
  EXPECT_ERROR_SAYS(sampled(GgufBuilder().set("general.sampling.penalty_last_n", 2.5f)),
                    ExitCode::checkpoint,
                    "'general.sampling.penalty_last_n' is 2.5; expected a whole number");
  EXPECT_ERROR_SAYS(
      sampled(GgufBuilder().raw("general.sampling.temp", 12, lamina::testing::raw_bytes(1e300))),
      ExitCode::checkpoint,
      "'general.sampling.temp' is 1e+300; it must be within the range of float32");
}

}  // namespace
}  // namespace lamina::decode
