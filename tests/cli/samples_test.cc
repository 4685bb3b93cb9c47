// train.sample_every_steps: texts sampled during training do not change the training.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/trained_run.h"
#include "core/json.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Trains with each of `sets`.
Finished train(const TempDir& folder, const std::string& out,
               const std::vector<std::string>& sets) {
  std::vector<std::string> more;
  for (const std::string& set : sets) more.insert(more.end(), {"--set", set});
  return train_tiny(folder, out, more);
}

struct SampledStep {
  std::int64_t step;
  std::vector<std::string> prompts, texts;
  bool operator==(const SampledStep&) const = default;
};

std::vector<SampledStep> samples_in(const std::string& run) {
  std::vector<SampledStep> out;
  std::ifstream metrics(run + "/metrics.jsonl");
  for (std::string text; std::getline(metrics, text);) {
    const JsonDocument json = JsonDocument::parse(text, "metrics.jsonl");
    const JsonValue samples = json.root().find("samples");
    if (!samples) continue;
    SampledStep line{json.root().at("step").as_int64(), {}, {}};
    for (const JsonValue sample : samples.elements()) {
      line.prompts.emplace_back(sample.at("prompt").as_string());
      line.texts.emplace_back(sample.at("text").as_string());
    }
    out.push_back(line);
  }
  return out;
}

const std::vector<std::string> kEverySecond = {"train.sample_every_steps=2",
                                               "train.sample_prompts=[\"a <b\", \"\"]",
                                               "train.sample_tokens=12"};

TEST(Samples, AreInTheLogTheMetricsAndTheReport) {
  const TempDir folder;
  const Finished f = train(folder, "out", kEverySecond);
  ASSERT_EQ(f.code, 0) << f.err;
  const std::vector<SampledStep> lines = samples_in(folder / "out");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].step, 2);
  EXPECT_EQ(lines[1].step, 4);
  EXPECT_THAT(lines[0].prompts, ElementsAre("a <b", ""));
  EXPECT_FALSE(lines[0].texts[0].empty());
  EXPECT_THAT(f.err, HasSubstr("sample  a <b|"));
  EXPECT_THAT(folder.read("out/log.txt"), HasSubstr("sample  a <b|"));
  ASSERT_EQ(lamina_program({"report", folder / "out"}).code, 0);
  const std::string page = folder.read("out/report.html");
  EXPECT_THAT(page, HasSubstr("<h3>Step 2</h3>"));
  EXPECT_THAT(page, HasSubstr("<b>a &lt;b</b>"));
}

TEST(Samples, AreTheSameForTheSameSeed) {
  const TempDir folder;
  std::vector<std::string> other = kEverySecond;
  other.push_back("run.seed=7");
  ASSERT_EQ(train(folder, "a", kEverySecond).code, 0);
  ASSERT_EQ(train(folder, "b", kEverySecond).code, 0);
  ASSERT_EQ(train(folder, "c", other).code, 0);
  EXPECT_EQ(samples_in(folder / "a"), samples_in(folder / "b"));
  EXPECT_NE(samples_in(folder / "a"), samples_in(folder / "c"));
}

TEST(Samples, ChangeNoBitOfTraining) {
  const TempDir folder;
  ASSERT_EQ(train(folder, "with", kEverySecond).code, 0);
  ASSERT_EQ(train(folder, "without", {}).code, 0);
  expect_equal_tensors(folder, "with", "without");
}

// Trains with samples that would take a minute, and interrupts the run once `condition` of the
// shell, eg "[[ -s out/metrics.jsonl ]]", is true.
Finished interrupt_samples(const TempDir& folder, int every_steps, const std::string& condition) {
  std::string prompts;
  for (int i = 0; i < 20000; ++i) prompts += "\"\", ";
  std::string text = tiny_run_file("out");
  text.insert(
      text.find("[train]\n") + 8,
      fmt::format("sample_every_steps = {}\nsample_prompts = [{}]\n", every_steps, prompts));
  folder.write("run.toml", text);
  return lamina::testing::run_shell(
      fmt::format("env --default-signal=INT " LAMINA_BUILD_DIR
                  "/bin/lamina train run.toml & for i in {{1..3000}}; do {} && break; sleep 0.02; "
                  "done; kill -INT $!; wait $!",
                  condition),
      {.folder = folder.path()});
}

TEST(Samples, EndSoonAfterASignal) {
  const TempDir folder;
  const Finished f = interrupt_samples(folder, 1, "[[ -s out/metrics.jsonl ]]");
  EXPECT_EQ(f.code, 75) << f.err;
  EXPECT_THAT(f.err, HasSubstr("stopped after step 1; "));
  EXPECT_TRUE(samples_in(folder / "out").empty());
  const Finished resumed =
      lamina_program({"train", folder / "run.toml", "--set", "train.sample_prompts=[\"\"]"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(samples_in(folder / "out").size(), 4u);
}

TEST(Samples, OfTheLastStepAreMadeAfterASignal) {
  const TempDir folder;
  const Finished f =
      interrupt_samples(folder, 100, "grep -q '\"step\":4,\"eval' out/metrics.jsonl");
  EXPECT_EQ(f.code, 75) << f.err;
  EXPECT_THAT(f.err, HasSubstr("stopped after step 4; "));
  const std::vector<std::string> again = {"train", folder / "run.toml", "--set",
                                          "train.sample_prompts=[\"a\"]"};
  const Finished resumed = lamina_program(again);
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("done; "));
  ASSERT_EQ(samples_in(folder / "out").size(), 1u);
  EXPECT_EQ(samples_in(folder / "out")[0].step, 4);
  EXPECT_THAT(lamina_program(again).err, HasSubstr("nothing to do"));
  EXPECT_EQ(samples_in(folder / "out").size(), 1u);
}

TEST(Samples, PromptsMustFitTheModel) {
  const TempDir folder;
  const Finished f = train(
      folder, "out",
      {"train.sample_every_steps=2", "train.sample_prompts=[\"" + std::string(80, 'a') + "\"]"});
  EXPECT_EQ(f.code, 2);
  EXPECT_THAT(f.err, HasSubstr("a prompt has 81 tokens; the maximum of the model is 64"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out/config.toml"));
}

}  // namespace
}  // namespace lamina::cli
