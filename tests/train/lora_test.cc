// [lora]: an adapter on a frozen model, in memory, in files, and merged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "cli/spoilt_model.h"
#include "core/read_file.h"
#include "inspect/plan/model_plan.h"
#include "model/merge.h"
#include "support/expect_error.h"
#include "support/tensors.h"
#include "train/lora_run.h"
#include "weights/publish/hf_export.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

TEST(Lora, BeforeItsFirstStepItIsTheModelBitForBit) {
  const TempDir folder;
  LoraRun lora(folder);
  EXPECT_TRUE(lora.train(0).stopped);
  EXPECT_EQ(logits_of(load_f32(lora.checkpoint())), logits_of(load_f32(folder / "model")));
}

TEST(Lora, OnlyTheAdapterLearns) {
  const TempDir folder;
  LoraRun lora(folder);
  std::vector<double> losses;
  train::LoopEvents events;
  events.step = [&](const train::LoopEvents::Step& step) { losses.push_back(step.result.loss); };
  lora.run->loop().run(events);
  EXPECT_LT(losses.back(), losses.front());
  const model::Loaded before = load_f32(folder / "model"), after = load_f32(lora.checkpoint());
  const auto was = copy_of(before.model(), before.weights.pointers());
  const auto is = copy_of(after.model(), after.weights.pointers());
  std::size_t adapters = 0;
  for (std::size_t i = 0; i < is.size(); ++i) {
    const decoder::Parameter& p = after.model().parameters().all()[i];
    const int same = before.model().parameters().find(p.name);
    if (same >= 0) {
      EXPECT_EQ(is[i], was[static_cast<std::size_t>(same)]) << p.name;
      continue;
    }
    ++adapters;
    EXPECT_TRUE(p.name.ends_with(".lora_a") || p.name.ends_with(".lora_b"));
    EXPECT_TRUE(std::ranges::any_of(is[i], [](float v) { return v != 0; })) << p.name;
  }
  EXPECT_EQ(adapters, 3u * 3 * 2);  // layers, matrices, parts
}

TEST(Lora, TakesGradientsAndMomentsForItsOwnMatricesAlone) {
  const TempDir folder;
  LoraRun lora(folder);
  const decoder::ParameterTable& parameters = lora.training.model->parameters();
  const train::TrainBytes bytes = train::train_bytes(parameters, DType::f32, false);
  std::size_t adapter = 0;
  for (const decoder::Parameter& p : parameters.all())
    if (decoder::is_adapter(p.name))
      adapter += aligned(static_cast<std::size_t>(p.num_elements()) * sizeof(float));
  EXPECT_EQ(bytes.gradients, adapter);
  EXPECT_EQ(bytes.moments, 2 * adapter);
}

// A copied model in bfloat16, and in float32 with the same values.
void add_narrow_and_wide(const TempDir& folder) {
  add_golden_model(folder, "llama3_gqa");
  const auto source = model::open(folder / "model", built_plugins(), {}, {});
  weights::export_to_hf(*source.model, folder / "model", folder / "narrow", {.dtype = DType::bf16});
  weights::export_to_hf(*source.model, folder / "narrow", folder / "wide", {.dtype = DType::f32});
}

// Frozen weights whose published type is the compute type are kept only in that type: a third of
// the memory, the same numbers.
TEST(Lora, FrozenWeightsOfTheTypeComputedWithHaveNoMasters) {
  const TempDir folder;
  add_narrow_and_wide(folder);
  const std::string dtype = "train.dtype=bfloat16";
  LoraRun narrow(folder, {dtype, "train.from=" + (folder / "narrow"), "run.out=" + (folder / "a")});
  LoraRun wide(folder, {dtype, "train.from=" + (folder / "wide"), "run.out=" + (folder / "b")});
  const train::TrainState &a = narrow.run->loop().state(), &b = wide.run->loop().state();
  const auto& parameters = narrow.training.model->parameters().all();
  std::size_t frozen = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const decoder::Parameter& p = parameters[i];
    const bool kept = p.learning.frozen && p.used_dtype(DType::bf16) == DType::bf16;
    EXPECT_EQ(floats(a.masters()[i]) == nullptr, kept) << p.name;
    EXPECT_NE(floats(b.masters()[i]), nullptr) << p.name;
    if (kept) frozen += aligned(static_cast<std::size_t>(p.num_elements()) * sizeof(float));
  }
  EXPECT_GT(frozen, 0u);
  EXPECT_EQ(b.bytes() - a.bytes(), frozen);

  const auto told = narrow.steps(), want = wide.steps();
  ASSERT_EQ(told.size(), want.size());
  for (std::size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i].loss, want[i].loss) << i;
  const io::WeightFiles files(narrow.checkpoint(), "model");
  EXPECT_EQ(files.tensor("layers.0.attention.wq.weight").dtype, DType::bf16);
  EXPECT_EQ(files.tensor("layers.0.attention.wq.lora_a").dtype, DType::f32);
  const std::string adapter = "/adapter_model.safetensors";
  EXPECT_EQ(read_file(narrow.checkpoint() + adapter, ExitCode::data),
            read_file(wide.checkpoint() + adapter, ExitCode::data));
  EXPECT_EQ(logits_of(load_f32(narrow.checkpoint())), logits_of(load_f32(wide.checkpoint())));
}

TEST(Lora, FrozenWeightsOfTheTypeComputedWithResumeToTheSameBits) {
  const TempDir folder;
  add_narrow_and_wide(folder);
  const std::vector<std::string> sets = {
      "train.dtype=bfloat16", "train.from=" + (folder / "narrow"), "checkpoint.async=true"};
  const auto in = [&](const std::string& out) {
    std::vector<std::string> all = sets;
    all.push_back("run.out=" + (folder / out));
    return all;
  };
  LoraRun whole(folder, in("whole"));
  whole.train();
  EXPECT_TRUE(LoraRun(folder, in("parts")).train(3).stopped);
  LoraRun rest(folder, in("parts"));
  EXPECT_EQ(rest.run->loop().state().bytes(), whole.run->loop().state().bytes());
  EXPECT_FALSE(rest.train().stopped);
  for (const char* name :
       {"/model.safetensors", "/optimizer.safetensors", "/adapter_model.safetensors"})
    EXPECT_TRUE(read_file(rest.checkpoint() + name, ExitCode::data) ==
                read_file(whole.checkpoint() + name, ExitCode::data))
        << name;
}

TEST(Lora, ResumesToTheSameBitsWithoutTheDirectory) {
  const TempDir a, b;
  LoraRun whole(a, {"lora.dropout=0.1"});
  whole.train();
  EXPECT_TRUE(LoraRun(b, {"lora.dropout=0.1"}).train(3).stopped);
  fs::rename(b / "model", b / "gone");
  fs::create_directories(b / "model");  // LoraRun would copy it again
  LoraRun rest(b, {"lora.dropout=0.1"});
  EXPECT_FALSE(rest.train().stopped);
  const TempDir* folders[] = {&a, &b};
  std::string bytes[2];
  for (const char* name :
       {"model.safetensors", "optimizer.safetensors", "adapter_model.safetensors"}) {
    for (int i = 0; i < 2; ++i)
      bytes[i] = folders[i]->read("out/checkpoints/step-00000006/" + std::string(name));
    EXPECT_FALSE(bytes[0].empty());
    EXPECT_TRUE(bytes[0] == bytes[1]) << name;
  }
}

TEST(Lora, TheFilesOfPeftHoldTheAdapter) {
  const TempDir folder;
  LoraRun lora(folder);
  lora.train();
  const std::string adapter = copy_adapter(folder, lora.checkpoint());
  const io::WeightFiles files(adapter + "/adapter_model.safetensors");
  EXPECT_EQ(files.names().size(), 18u);
  const std::string layer = "base_model.model.model.layers.2.";
  EXPECT_EQ(files.tensor(layer + "self_attn.q_proj.lora_A.weight").shape, (Shape{kRank, 48}));
  EXPECT_EQ(files.tensor(layer + "mlp.down_proj.lora_B.weight").shape, (Shape{48, kRank}));
  const std::vector<float> want = logits_of(load_f32(lora.checkpoint()));
  EXPECT_NE(want, logits_of(load_f32(folder / "model")));
  EXPECT_EQ(logits_of(load_f32(folder / "model", adapter)), want);
  EXPECT_EQ(logits_of(load_f32(adapter)), want);  // the model comes from base_model_name_or_path
}

TEST(Lora, MergedComputesTheSameWithinRounding) {
  const TempDir folder;
  LoraRun lora(folder);
  lora.train();
  model::merge_to_hf(lora.checkpoint(), {}, folder / "merged", DType::f32, built_plugins(),
                     cpu::cpu_backend());
  const model::Loaded merged = load_f32(folder / "merged");
  EXPECT_FALSE(merged.model().adapter());
  EXPECT_LT(difference(logits_of(merged), logits_of(load_f32(lora.checkpoint()))), 1e-4);
  const std::string adapter = copy_adapter(folder, lora.checkpoint());
  model::merge_to_hf(folder / "model", {.adapter = adapter}, folder / "other", {}, built_plugins(),
                     cpu::cpu_backend());
  const io::WeightFiles before(folder / "model"), after(folder / "other");
  EXPECT_THAT(after.names(), ::testing::UnorderedElementsAreArray(before.names()));
  for (std::string_view name : before.names())
    EXPECT_EQ(after.tensor(name).dtype, before.tensor(name).dtype) << name;
}

constexpr const char* kUp = "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight";

// An adapter of the copied model `from`, whose `b` of one matrix has this value everywhere.
std::string adapter_with(const TempDir& folder, const std::string& from, float value) {
  LoraRun lora(folder, {"train.from=" + from, "lora.alpha=80"});
  lora.train(0);
  const std::string adapter = copy_adapter(folder, lora.checkpoint());
  cli::spoil_tensor(
      adapter, kUp,
      [&](std::span<std::byte> bytes) {
        for (std::size_t at = 0; at < bytes.size(); at += sizeof value)
          std::memcpy(bytes.data() + at, &value, sizeof value);
      },
      "adapter_model");
  return adapter;
}

TEST(Lora, MergedFitsItsType) {
  const TempDir folder;
  add_golden_model(folder, "llama3_gqa");
  const std::string half = folder / "half";
  const auto source = model::open(folder / "model", built_plugins(), {}, {});
  weights::export_to_hf(*source.model, folder / "model", half, {.dtype = DType::f16});
  const std::string adapter = adapter_with(folder, half, 1e6f);
  const auto merge = [&](const std::string& to, std::optional<DType> dtype) {
    model::merge_to_hf(half, {.adapter = adapter}, to, dtype, built_plugins(), cpu::cpu_backend());
  };
  const std::string merged = folder / "merged";
  EXPECT_ERROR_SAYS(merge(merged, {}), ExitCode::checkpoint,
                    merged +
                        ": tensor 'model.layers.1.self_attn.q_proj.weight' would have the "
                        "value ");
  EXPECT_ERROR_SAYS(merge(merged, {}), ExitCode::checkpoint,
                    ", which is beyond float16\n  give --dtype bfloat16 or --dtype float32");
  EXPECT_FALSE(fs::exists(merged));
  merge(merged, DType::bf16);
  const model::Loaded wide = load_f32(merged);
  for (const std::vector<float>& values : copy_of(wide.model(), wide.weights.pointers()))
    EXPECT_TRUE(std::ranges::all_of(values, [](float v) { return std::isfinite(v); }));
  EXPECT_ERROR_SAYS(
      weights::export_to_hf(wide.model(), merged, folder / "narrow", {.dtype = DType::f16}),
      ExitCode::checkpoint, "beyond float16");
}

TEST(Lora, MergedHasNumbersAlone) {
  const TempDir folder;
  add_golden_model(folder, "llama3_gqa");
  const std::string model = folder / "model", merged = folder / "merged",
                    adapter = adapter_with(folder, model, std::numeric_limits<float>::infinity());
  const auto merge = [&](const std::string& of) {
    model::merge_to_hf(model, {.adapter = of}, merged, {}, built_plugins(), cpu::cpu_backend());
  };
  EXPECT_ERROR_SAYS(merge(adapter), ExitCode::checkpoint,
                    adapter + "/adapter_model.safetensors: tensor '" + kUp + "' has the value inf");
  EXPECT_FALSE(fs::exists(merged));
  const TempDir other;
  add_golden_model(other, "llama3_gqa");
  EXPECT_ERROR_SAYS(merge(adapter_with(other, model, 3e38f)), ExitCode::checkpoint,
                    "layers.1.attention.wq.weight: with its adapter has values beyond float32");
}

TEST(Lora, TrainingContinuesWithAnExistingAdapter) {
  const TempDir folder;
  LoraRun first(folder);
  first.train();
  const std::string adapter = copy_adapter(folder, first.checkpoint());
  const std::vector<std::string> sets = {"train.from=" + adapter, "run.out=" + folder / "second"};
  LoraRun second(folder, sets);
  EXPECT_TRUE(second.train(0).stopped);
  EXPECT_EQ(logits_of(load_f32(second.checkpoint())), logits_of(load_f32(first.checkpoint())));
  std::vector<std::string> other = sets;
  other.insert(other.end(), {"lora.rank=2", "run.out=" + folder / "third"});
  EXPECT_ERROR_SAYS(LoraRun(folder, other), ExitCode::usage,
                    "[lora] differs from the adapter of " + adapter);
}

TEST(Lora, EveryMatrixOfTheLayersCanLearn) {
  const TempDir folder;
  LoraRun lora(folder, {"lora.target_modules=[\"all-linear\"]", "lora.rslora=true"});
  EXPECT_EQ(lora.training.model->adapter()->targets.size(), 7u);
  EXPECT_DOUBLE_EQ(lora.training.model->adapter()->scale, 4.0);  // 8 / sqrt(4)
  EXPECT_FALSE(lora.train().stopped);
}

TEST(Lora, TargetsMustBeMatricesOfTheModel) {
  const TempDir folder;
  EXPECT_ERROR_SAYS(LoraRun(folder, {"lora.target_modules=[\"q_prj\"]"}), ExitCode::usage,
                    "lora.target_modules: no matrix of the layers is named 'q_prj'\n"
                    "  did you mean 'q_proj'?");
}

}  // namespace
}  // namespace lamina::testing
