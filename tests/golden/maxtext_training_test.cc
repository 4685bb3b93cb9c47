// Steps of training as MaxText does them, through the keys of a run file: whole steps (train_*),
// and QK-clip by itself (optim_qk_clip_*).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <set>

#include "backends/cpu/backend.h"
#include "config/run_config.h"
#include "core/json.h"
#include "core/json_writer.h"
#include "io/safetensors_writer.h"
#include "support/goldens.h"
#include "support/maxtext_model.h"
#include "support/maxtext_run.h"
#include "support/models.h"
#include "support/temp_dir.h"
#include "train/parameter_groups.h"
#include "train/schedule.h"
#include "train/train_step.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

JsonDocument read_json(const fs::path& path) {
  return JsonDocument::read(path.string(), {.code = ExitCode::checkpoint});
}

JsonDocument settings_of(const fs::path& golden) { return read_json(golden / "config.json"); }

// A case with the keys of its model alone, and weights in a file of their own.
class ModelFolder {
 public:
  explicit ModelFolder(const fs::path& golden) {
    folder_.write("config.json", of_model(settings_of(golden).root()));
    fs::copy_file(golden / "golden.safetensors", folder_ / "golden.safetensors");
    if (fs::exists(golden / "model.safetensors")) {
      fs::copy_file(golden / "model.safetensors", folder_ / "model.safetensors");
      // What its golden.json leaves out.
      folder_.write("golden.json",
                    R"({"resolved_differences_from_maxtext_defaults": {"decoder_block":
                       "deepseek", "routed_bias": true, "routed_score_func": "sigmoid"}})");
    } else {
      constexpr const char* kResolved = "resolved_differences_from_maxtext_defaults";
      const JsonDocument theirs = read_json(golden / "golden.json");
      folder_.write("golden.json", fmt::format(R"({{"{}": {}}})", kResolved,
                                               of_model(theirs.root().at(kResolved))));
      write_weights(golden);
    }
  }

  std::string path() const { return folder_.path(); }

 private:
  static std::string of_model(JsonValue settings) {
    JsonWriter out;
    out.begin_object();
    for (auto [key, value] : settings.members())
      if (!is_of_training(key)) out.key(key).value(value);
    return out.end_object().text();
  }

  static bool is_of_training(std::string_view key) {
    static const std::set<std::string_view> keys = {
        "gradient_clipping_threshold", "qk_clip_threshold", "steps", "use_qk_clip", "opt_type"};
    return keys.contains(key) || key.starts_with("learning_rate") || key.starts_with("warmup_") ||
           key.starts_with("adam_") || key.starts_with("muon_");
  }

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

// What is trained, with the state before the first step.
class Training : public MaxTextModel {
 public:
  Training(const ModelFolder& folder, const config::RunConfig& run, const std::string& rows)
      : MaxTextModel(folder.path(), true, false, rows), run_(run) {
    train::set_learning(model_, run_.optimizer, {rows_.batch, rows_.tokens});
    state_.emplace(model_.parameters(), DType::f32, false, cpu::cpu_backend(),
                   train::GradientLists{}, run_.optimizer);
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      std::ranges::copy(parameters_[i], state_->masters()[i]);
    decoder::GraphFeatures features = train::all_losses();
    features.max_logits = run_.optimizer.qk_clip > 0;
    step_.emplace(model_, *state_,
                  train::TrainStepOptions{.shape = {rows_.batch, rows_.tokens},
                                          .features = features,
                                          .z_loss = config_.z_loss,
                                          .clip_norm = run_.train.clip_norm},
                  run_.optimizer, cpu::cpu_backend());
  }

  train::StepResult step(const std::string& rows, double lr, std::int64_t step) {
    const Rows read = read_rows(rows);
    const program::Microbatch batch = read.microbatch();
    return step_->run({&batch, 1}, lr, step);
  }

  double golden(const std::string& name) const {
    return static_cast<double>(case_.floats(name).at(0));
  }
  bool has(const std::string& name) const { return case_.has(name); }

  // The parameters are the case's tensors `prefix`NAME, those that it has.
  void expect_parameters(const std::string& prefix, double tolerance) const {
    std::size_t compared = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!case_.has(prefix + names_[i].front().name())) continue;
      ++compared;
      const std::vector<float> want = read_values(prefix, i);
      for (std::size_t k = 0; k < want.size(); ++k)
        ASSERT_NEAR(state_->masters()[i][k], want[k], tolerance * std::max(1.0f, std::abs(want[k])))
            << model_.parameters().all()[i].name << ' ' << k;
    }
    EXPECT_GT(compared, 0u);
  }

  bool query_kernel_is_scaled() const { return config_.query_scaled; }

  double parameter_norm() const {
    double sum = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      for (std::size_t k = 0; k < parameters_[i].size(); ++k)
        sum += static_cast<double>(state_->masters()[i][k]) *
               static_cast<double>(state_->masters()[i][k]);
    return std::sqrt(sum);
  }

 private:
  config::RunConfig run_;
  std::optional<train::TrainState> state_;
  std::optional<train::TrainStep> step_;
};

// 0 where no layer reports it.
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
  const JsonDocument settings = settings_of(GetParam());
  const ModelFolder folder(GetParam());
  Training training(folder,
                    config::parse_run("family = \"any\"\n[data]\ntrain = [\"any\"]\n[optimizer]\n" +
                                          maxtext_qk_clip(settings.root()),
                                      "golden"),
                    "");
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
  const JsonDocument settings = settings_of(GetParam());
  const config::RunConfig run = maxtext_run(settings.root());
  const ModelFolder folder(GetParam());
  Training training(folder, run, "batch.0.");
  // The norm of its gradient is another than ours, and so is what clipping by it leaves.
  if (training.query_kernel_is_scaled())
    GTEST_SKIP() << "the query kernel holds 1 / sqrt(head width)";
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
    expect("mtp_loss", result.mtp_loss, 2e-5);
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
