// Training steps, compared with MaxText, with the run file that `lamina config import` writes for a
// case's settings: whole steps (train_*) and QK-clip alone (optim_qk_clip_*).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <fstream>

#include "backends/cpu/backend.h"
#include "config/run_config.h"
#include "core/json.h"
#include "io/safetensors_writer.h"
#include "support/goldens.h"
#include "support/maxtext_model.h"
#include "support/models.h"
#include "support/temp_dir.h"
#include "train/loop/schedule.h"
#include "train/loop/train_step.h"
#include "train/optimizer/parameter_groups.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

JsonDocument read_json(const fs::path& path) {
  return JsonDocument::read(path.string(), {.code = ExitCode::checkpoint});
}

// A case with its weights in a file, which is written from the golden's first parameters if the
// case has none.
class ModelFolder {
 public:
  explicit ModelFolder(const fs::path& golden) {
    for (const char* file : {"config.json", "golden.json", "golden.safetensors"})
      fs::copy_file(golden / file, folder_ / file);
    if (fs::exists(golden / "model.safetensors"))
      fs::copy_file(golden / "model.safetensors", folder_ / "model.safetensors");
    else
      write_weights(golden);
  }

  std::string path() const { return folder_.path(); }

 private:
  void write_weights(const fs::path& golden) {
    constexpr std::string_view prefix = "params.0.";
    const io::WeightFiles files((golden / "golden.safetensors").string());
    std::vector<io::TensorSpec> specs;
    for (std::string_view name : files.names())
      if (name.starts_with(prefix))
        specs.push_back(
            {std::string(name.substr(prefix.size())), DType::f32, files.tensor(name).shape});
    io::write_weight_files(folder_.path(), specs,
                           [&](const io::TensorSpec& spec) {
                             return files.tensor(std::string(prefix) + spec.name).bytes;
                           },
                           {.stem = "model", .metadata = {}});
  }

  TempDir folder_;
};

// The trained model with the state before the first step.
class Training : public MaxTextModel {
 public:
  Training(const ModelFolder& folder, const std::string& rows)
      : MaxTextModel(folder.path(), true, false, rows) {
    const config::OptimizerSection& optimizer = run().optimizer;
    train::set_learning(model_, optimizer, {rows_.batch, rows_.tokens});
    state_.emplace(model_.parameters(), DType::f32, false, cpu::cpu_backend(),
                   train::GradientLists{}, optimizer);
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      std::ranges::copy(parameters_[i], floats(state_->masters()[i]));
    decoder::GraphFeatures features = train::all_losses();
    features.max_logits = optimizer.qk_clip > 0;
    step_.emplace(model_, *state_,
                  train::TrainStepOptions{.shape = {rows_.batch, rows_.tokens},
                                          .features = features,
                                          .z_loss = run().train.z_loss,
                                          .clip_norm = run().train.clip_norm},
                  optimizer, cpu::cpu_backend());
  }

  train::StepResult step(const std::string& rows, double lr, std::int64_t step) {
    const Rows read = read_rows(rows);
    const program::Microbatch batch = read.microbatch();
    return step_->run({&batch, 1}, lr, step);
  }

  const config::RunConfig& run() const { return config_.run; }
  double golden(const std::string& name) const {
    return static_cast<double>(case_.floats(name).at(0));
  }
  bool has(const std::string& name) const { return case_.has(name); }

  // Expects the parameters to equal the case's tensors `prefix`NAME, if these exist.
  void expect_parameters(const std::string& prefix, double tolerance) const {
    std::size_t compared = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!case_.has(prefix + names_[i].front().name())) continue;
      ++compared;
      const std::vector<float> want = read_values(prefix, i);
      for (std::size_t k = 0; k < want.size(); ++k)
        ASSERT_NEAR(floats(state_->masters()[i])[k], want[k],
                    tolerance * std::max(1.0f, std::abs(want[k])))
            << model_.parameters().all()[i].name << ' ' << k;
    }
    EXPECT_GT(compared, 0u);
  }

  // In the units of MaxText's parameters.
  double parameter_norm() const {
    double sum = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      for (std::size_t k = 0; k < parameters_[i].size(); ++k) {
        const double theirs = offset_of(i) + static_cast<double>(floats(state_->masters()[i])[k]) /
                                                 model_.parameters().all()[i].learning.multiplier;
        sum += theirs * theirs;
      }
    return std::sqrt(sum);
  }

 private:
  // The difference between MaxText's stored values and lamina's.
  double offset_of(std::size_t parameter) const {
    return -static_cast<double>(names_[parameter].front().ours(0));
  }

  std::optional<train::TrainState> state_;
  std::optional<train::TrainStep> step_;
};

// 0 if no layer reports it.
double largest(const train::StepResult& result, const std::string& name) {
  double out = 0;
  for (const train::AuxScalar& scalar : result.aux_scalars)
    if (scalar.name.starts_with(name + "/") && scalar.name.ends_with("/max"))
      out = std::max(out, scalar.value);
  return out;
}

class MaxTextQkClip : public ::testing::TestWithParam<fs::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MaxTextQkClip);

TEST_P(MaxTextQkClip, ScalesRowsAsTheReferenceDoes) {
  const ModelFolder folder(GetParam());
  Training training(folder, "");
  const train::StepResult result = training.step("", 0, 0);
  const double want = training.golden("max_logits_metric");
  EXPECT_NEAR(largest(result, "max_logits"), want, 1e-5 * want);
  training.expect_parameters("after.", 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    All, MaxTextQkClip,
    ::testing::ValuesIn(golden_folders("maxtext", "config.json", "optim_qk_clip")),
    [](const auto& test) { return test_name(test.param.filename().string()); });

class MaxTextTraining : public ::testing::TestWithParam<fs::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MaxTextTraining);

TEST_P(MaxTextTraining, StepsAsTheReferenceDoes) {
  const ModelFolder folder(GetParam());
  Training training(folder, "batch.0.");
  const config::RunConfig& run = training.run();
  std::int64_t t = 0;
  for (; training.has(fmt::format("metric.{}.loss", t)); ++t) {
    SCOPED_TRACE(t);
    const double lr = train::learning_rate(run.schedule, run.optimizer.lr, t, run.train.steps);
    const train::StepResult result = training.step(fmt::format("batch.{}.", t), lr, t);
    const auto expect = [&](const char* name, double got, double tolerance) {
      const std::string metric = fmt::format("metric.{}.{}", t, name);
      if (!training.has(metric)) return;
      const double want = training.golden(metric);
      EXPECT_NEAR(got, want, tolerance * std::abs(want) + 1e-9) << name;
    };
    expect("lr", lr, 1e-6);
    expect("loss", result.total, 2e-5);
    expect("mtp_loss", result.mean_of("mtp_loss"), 2e-5);
    expect("raw_grad_norm", result.gradient_norm, 1e-4);
    expect("total_weights", static_cast<double>(result.num_labels), 0);
    if (run.optimizer.qk_clip > 0) expect("max_logits", largest(result, "max_logits"), 1e-4);
    expect("param_norm", training.parameter_norm(), 1e-5);
    if (training.has(fmt::format("params.{}.token_embedder/embedding", t + 1)))
      training.expect_parameters(fmt::format("params.{}.", t + 1), t == 0 ? 1e-5 : 2e-4);
  }
  EXPECT_EQ(t, read_json(GetParam() / "golden.json").root().at("steps").as_int64());
}

INSTANTIATE_TEST_SUITE_P(All, MaxTextTraining,
                         ::testing::ValuesIn(golden_folders("maxtext", "config.json", "train_")),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });

}  // namespace
}  // namespace lamina::testing
