// Terms of the loss are data: what a new one takes, and what a step does with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "backends/cpu/backend.h"
#include "core/read_file.h"
#include "support/models.h"
#include "support/paths.h"
#include "train/loop/train_step.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_that_name(const std::string& term) {
  const fs::path host = fs::path(LAMINA_SOURCE_DIR) / "host";
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(host)) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cc") continue;
    if (read_file(entry.path(), ExitCode::data).find('"' + term + '"') != std::string::npos)
      out.push_back(fs::relative(entry.path(), host));
  }
  std::ranges::sort(out);
  return out;
}

// One gives its sum, the other its weight: gradients, totals, metrics and displays iterate.
TEST(LossTerms, TwoFilesOfTheHostNameATerm) {
  EXPECT_EQ(files_that_name("uniform_loss"),
            (std::vector<std::string>{"decoder/losses.cc", "train/loop/step_losses.cc"}));
  EXPECT_EQ(files_that_name("kl"),
            (std::vector<std::string>{"decoder/losses.cc", "train/tasks/distillation_task.cc"}));
}

struct Step {
  const TestModel& from = test_model("llama2_deep");
  decoder::Model model = open_model(from.path);
  std::unique_ptr<train::TrainState> state = load_state(from, model, DType::f32);
  Rows rows = random_rows(model, 2, 12);
  program::Microbatch batch = rows.microbatch();

  train::StepResult gradients(double z_loss, double smoothing) {
    train::TrainStep step(model, *state,
                          {.shape = {2, 12, DType::f32},
                           .features = train::all_losses(false),
                           .z_loss = z_loss,
                           .label_smoothing = smoothing},
                          {}, cpu::cpu_backend());
    return step.gradients({&batch, 1}, 0);
  }
};

std::vector<std::string> names_of(const train::MetricsRecord& record) {
  std::vector<std::string> out;
  for (const auto& scalar : record.scalars()) out.push_back(scalar.name);
  return out;
}

TEST(LossTerms, TheTotalIsTheSumOfWeightTimesMean) {
  Step step;
  const train::StepResult result = step.gradients(0.25, 0.125);
  EXPECT_DOUBLE_EQ(result.total, 0.875 * result.loss + 0.125 * result.mean_of("uniform_loss") +
                                     0.25 * result.mean_of("z_loss"));
  EXPECT_GT(result.mean_of("uniform_loss"), 1);
  EXPECT_GT(result.mean_of("z_loss"), 1);
}

TEST(LossTerms, AnOptionalTermWithoutWeightIsNotComputed) {
  Step step;
  const train::StepResult result = step.gradients(0, 0);
  EXPECT_EQ(result.mean_of("uniform_loss"), 0);
  EXPECT_TRUE(std::ranges::none_of(result.terms,
                                   [](const auto& of) { return of.term.name == "uniform_loss"; }));
}

TEST(LossTerms, MetricsHaveTermsWithAWeight) {
  Step step;
  train::MetricsRecord with(1), without(1);
  step.gradients(0.25, 0).write(with);
  step.gradients(0, 0).write(without);
  EXPECT_EQ(names_of(with),
            (std::vector<std::string>{"train/loss", "train/ppl", "train/grad_norm", "train/lr",
                                      "train/z_loss", "train/total_loss"}));
  EXPECT_EQ(names_of(without),
            (std::vector<std::string>{"train/loss", "train/ppl", "train/grad_norm", "train/lr"}));
}

}  // namespace
}  // namespace lamina::testing
