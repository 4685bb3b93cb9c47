// checkpoint.keep_best: the checkpoints that are kept, and the name of the best.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "core/json.h"
#include "errors/workplace.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kKeepBest = {"train",
                                            "run.toml",
                                            "--quiet",
                                            "--set",
                                            "data.validation_fraction=0.2",
                                            "--set",
                                            "train.eval_every_steps=1",
                                            "--set",
                                            "train.steps=8",
                                            "--set",
                                            "checkpoint.every_steps=2",
                                            "--set",
                                            "checkpoint.keep=1",
                                            "--set",
                                            "checkpoint.keep_best=true"};

std::vector<std::string> words_and(std::vector<std::string> words, std::vector<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// With this rate the loss rises after the first steps, so the best checkpoint is not the newest.
const std::vector<std::string> kTooFast = {"--set", "optimizer.lr=3",
                                           "--set", "schedule.warmup_steps=4",
                                           "--set", "schedule.kind=constant"};

std::vector<std::string> checkpoints(const Workplace& w) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(w.path("out/checkpoints")))
    out.push_back(entry.path().filename().string());
  std::ranges::sort(out);
  return out;
}

TEST(KeepBest, TheBestStaysBesideTheNewest) {
  Workplace w;
  Finished f = w.lamina(words_and(kKeepBest, kTooFast));
  ASSERT_EQ(f.code, 0) << f.err;
  double best = 1e9;
  std::int64_t best_step = 0;
  std::string line;
  std::istringstream metrics(w.read("out/metrics.jsonl"));
  while (std::getline(metrics, line)) {
    const JsonDocument json = JsonDocument::parse(line, "metrics.jsonl");
    const JsonValue loss = json.root().find("eval/loss");
    if (!loss || loss.as_double() >= best) continue;
    best = loss.as_double();
    best_step = json.root().at("step").as_int64();
  }
  ASSERT_LT(best_step, 8);
  EXPECT_THAT(checkpoints(w), ElementsAre(fmt::format("step-{:08}", best_step), "step-00000008"));
  f = w.lamina({"ckpt", "ls", "out"});
  EXPECT_THAT(f.out, HasSubstr(fmt::format("step-{:08}  validation loss {:.4f}", best_step, best)));
  EXPECT_EQ(w.lamina({"ckpt", "diff", "out/checkpoints/best",
                      fmt::format("out/checkpoints/step-{:08}", best_step)})
                .code,
            0);
  EXPECT_EQ(w.lamina({"ckpt", "diff", "out/checkpoints/best", "out"}).code, 3);
  EXPECT_EQ(w.lamina({"eval", "out/checkpoints/best"}).code, 0);
  EXPECT_EQ(w.lamina({"eval", "out/checkpoints/best/."}).code, 0);
  f = w.lamina({"decode", "-m", "out/checkpoints/best", "-p", "In", "-n", "3"});
  EXPECT_EQ(f.code, 0) << f.err;
}

TEST(KeepBest, IsKeptWhenARunResumes) {
  Workplace whole, broken;
  ASSERT_EQ(whole.lamina(words_and(kKeepBest, kTooFast)).code, 0);
  std::vector<std::string> first = words_and(kKeepBest, kTooFast);
  ASSERT_EQ(broken.lamina(words_and(first, {"--set", "train.steps=5"})).code, 0);
  ASSERT_EQ(broken.lamina(first).code, 0);
  EXPECT_EQ(checkpoints(broken), checkpoints(whole));
}

// Only these losses are means over the same rows.
TEST(KeepBest, IsTheBestSinceTheSizeOfAValidationChanged) {
  Workplace w;
  std::vector<std::string> words = words_and(kKeepBest, kTooFast);
  ASSERT_EQ(w.lamina(words).code, 0);
  words = words_and(words, {"--set", "train.steps=12", "--set", "train.eval_batches=1"});
  ASSERT_EQ(w.lamina(words).code, 0);
  EXPECT_GT(checkpoints(w).front(), "step-00000008");
}

// With this rate no later loss is better than the first.
TEST(KeepBest, AnUnreadableCheckpointIsKeptAlone) {
  Workplace w;
  const std::vector<std::string> words = words_and(kKeepBest, kTooFast);
  ASSERT_EQ(w.lamina(words).code, 0);
  const std::vector<std::string> before = checkpoints(w);
  ASSERT_EQ(before.back(), "step-00000008");
  fs::create_directory(w.path("out/checkpoints/step-00000000"));
  w.write("out/checkpoints/step-00000000/manifest.json",
          R"({"format": "lamina-manifest", "version": 99, "manifest_xxh3_128": ""})");
  const Finished f = w.lamina(words_and(words, {"--set", "train.steps=12"}));
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, HasSubstr("an old checkpoint stays, its removal is tried again after the next "
                               "one: out/checkpoints/step-00000000/manifest.json: was written by a "
                               "newer lamina"));
  const std::string_view stays = "an old checkpoint stays";  // once, although two are saved
  EXPECT_EQ(f.err.find(stays), f.err.rfind(stays)) << f.err;
  EXPECT_THAT(f.err, ::testing::Not(HasSubstr("step-00000009")));
  EXPECT_THAT(checkpoints(w), ElementsAre("step-00000000", before.front(), "step-00000012"));
}

TEST(KeepBest, WithoutAValidationThereIsNoBest) {
  Workplace w;
  w.train();
  w.expect({{"decode", "-m", "out/checkpoints/best", "-p", "x"},
            4,
            {"out/checkpoints/best", "no checkpoint here was validated", "checkpoint.keep_best"}});
}

}  // namespace
}  // namespace lamina::testing
