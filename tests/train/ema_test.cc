// train.ema: a moving average of the weights, kept, resumed, validated, loaded and exported.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "backends/cpu/backend.h"
#include "inspect/plan/model_plan.h"
#include "model/load.h"
#include "support/expect_error.h"
#include "support/published_model.h"
#include "support/run_of_file.h"
#include "support/tensors.h"
#include "weights/publish/hf_export.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

constexpr double kDecay = 0.75;

std::string write_run(const TempDir& folder) {
  folder.write("text.txt", text_of_words(60));
  return folder.write("run.toml",
                      "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 16\n"
                      "intermediate_size = 24\nnum_hidden_layers = 2\nnum_attention_heads = 2\n"
                      "[data]\ntrain = [\"text.txt\"]\nvalidation_fraction = 0.1\n"
                      "sequence_length = 24\n[train]\nsteps = 6\nbatch_size = 4\n"
                      "ema = 0.75\n[optimizer]\nlr = 1e-2\n[checkpoint]\nevery_steps = 1\n"
                      "keep = 100\n[run]\nout = \"out\"\nseed = 5\n");
}

std::vector<std::vector<float>> values_in(const std::string& directory, bool average) {
  const model::Loaded m =
      model::load(directory, built_plugins(), DType::f32, cpu::cpu_backend(), {.average = average});
  return copy_of(m.model(), m.weights.pointers());
}

std::string checkpoint(const TempDir& folder, int step) {
  return folder / ("out/checkpoints/step-0000000" + std::to_string(step));
}

TEST(Ema, IsTheMovingAverageOfTheWeightsAfterEachStep) {
  const TempDir folder;
  RunOfFile run(write_run(folder));
  std::vector<std::vector<double>> want;
  for (std::size_t i = 0; i < run.training.model->parameters().all().size(); ++i) {
    const float* start = floats(run.run->loop().state().masters()[i]);
    want.emplace_back(start, start + run.training.model->parameters().all()[i].num_elements());
  }
  run.train();
  for (int step = 1; step <= 6; ++step) {
    const auto now = values_in(checkpoint(folder, step), false),
               average = values_in(checkpoint(folder, step), true);
    for (std::size_t i = 0; i < now.size(); ++i)
      for (std::size_t k = 0; k < now[i].size(); ++k) {
        want[i][k] = kDecay * want[i][k] + (1 - kDecay) * static_cast<double>(now[i][k]);
        ASSERT_NEAR(average[i][k], want[i][k], 1e-6) << step;
      }
    EXPECT_NE(now, average);
  }
}

TEST(Ema, DoesNotChangeTheRun) {
  const TempDir a, b;
  RunOfFile with(write_run(a)), without(write_run(b), {"train.ema=0"});
  with.train();
  without.train();
  EXPECT_EQ(values_in(checkpoint(a, 6), false), values_in(checkpoint(b, 6), false));
  EXPECT_ERROR_SAYS(values_in(checkpoint(b, 6), true), ExitCode::checkpoint,
                    "has no moving average of its weights\n"
                    "  training keeps one with train.ema, eg: 0.999");
}

TEST(Ema, ResumesToTheSameBits) {
  const TempDir a, b;
  RunOfFile(write_run(a), {"train.dtype=bfloat16"}).train();
  RunOfFile(write_run(b), {"train.dtype=bfloat16"}).train(3);
  RunOfFile(write_run(b), {"train.dtype=bfloat16"}).train();
  const std::string name = "out/checkpoints/step-00000006/ema.safetensors";
  EXPECT_FALSE(a.read(name).empty());
  EXPECT_TRUE(a.read(name) == b.read(name));
}

TEST(Ema, ValidationComputesWithItWhereAsked) {
  for (const char* name : {"float32", "bfloat16"}) {
    const std::string dtype = name;
    const TempDir a, b;
    const std::vector<std::string> sets = {"train.dtype=" + dtype};
    RunOfFile of_model(write_run(a), sets);
    RunOfFile of_average(write_run(b), {sets[0], "train.eval_weights=ema"});
    const double model_loss = *of_model.train().validation_loss,
                 average_loss = *of_average.train().validation_loss;
    EXPECT_NE(model_loss, average_loss);
    // The run's check: the loss with the averaged weights, loaded from the checkpoint.
    const model::Loaded m = model::load(checkpoint(b, 6), built_plugins(),
                                        dtype == "float32" ? DType::f32 : DType::bf16,
                                        cpu::cpu_backend(), {.average = true});
    const data::Dataset& rows = of_average.run->data().validation.front();
    train::EvalStep eval(m.model(), 3, 24, dtype == "float32" ? DType::f32 : DType::bf16, true,
                         cpu::cpu_backend());
    const train::EvalSums sums = train::evaluate_rows(
        eval,
        {.num_rows = rows.num_rows(),
         .read = [&](std::uint64_t first, std::int64_t count,
                     data::Batch& batch) { rows.read_numbered(first, count, batch); }},
        m.weights.pointers());
    EXPECT_NEAR(sums.mean_loss(), average_loss, 1e-6);
  }
}

TEST(Ema, IsExportedInPlaceOfTheWeights) {
  const TempDir folder;
  RunOfFile run(write_run(folder));
  run.train();
  weights::export_to_hf(*run.training.model, checkpoint(folder, 6), folder / "export",
                        {.average = true});
  EXPECT_EQ(values_in(folder / "export", false), values_in(checkpoint(folder, 6), true));
}

TEST(Ema, IsCountedByThePlan) {
  const TempDir folder;
  RunOfFile run(write_run(folder));
  const decoder::Model& model = *run.training.model;
  inspect::PlanOptions options{.batch = 4, .tokens = 24, .dtype = DType::f32, .segments = true};
  const auto without = inspect::plan_train_memory(model, options, cpu::cpu_backend()).bytes;
  EXPECT_EQ(without.average, 0u);
  options.average = train::KeptAverage::kept;
  const auto with = inspect::plan_train_memory(model, options, cpu::cpu_backend()).bytes;
  EXPECT_EQ(with.average, with.weights);
  EXPECT_EQ(with.total(), run.run->loop().state_bytes());
}

TEST(Ema, ValidationWithoutAnAverageIsRefused) {
  const TempDir folder;
  EXPECT_ERROR_SAYS(RunOfFile(write_run(folder), {"train.ema=0", "train.eval_weights=ema"}),
                    ExitCode::usage,
                    "'train.eval_weights' = \"ema\" requires 'train.ema', which is 0");
}

}  // namespace
}  // namespace lamina::testing
