// Whole models on the emulated device: the same bits as on the CPU.
#include <gtest/gtest.h>

#include <set>

#include "backends/cpu/backend.h"
#include "backends/emulated/backend.h"
#include "inspect/verify/forward.h"
#include "support/agreement.h"
#include "support/device_models.h"
#include "support/goldens.h"

namespace lamina::testing {
namespace {

const Backend& device() { return emulated::emulated_backend(); }

class EmulatedModel : public ::testing::TestWithParam<const char*> {
 protected:
  const decoder::Model model = open_model(test_model(GetParam()).path);
};

TEST_P(EmulatedModel, ForwardGivesTheBitsOfTheCpu) {
  const Rows rows = random_rows(model, 2, test_tokens(model));
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto run = [&](const Backend& backend) {
      return inspect::forward(model, weights_on(backend, model, dtype).pointers(), rows,
                              {.dtype = dtype, .hidden = true}, backend);
    };
    const inspect::ForwardResult here = run(cpu::cpu_backend()), there = run(device());
    EXPECT_TRUE(same_bits(here.logits, there.logits));
    EXPECT_EQ(here.hidden, there.hidden);
  }
}

TEST_P(EmulatedModel, DecodingGivesTheBitsOfTheCpu) {
  const Rows rows = random_rows(model, 1, test_tokens(model));
  const auto run = [&](const Backend& backend) { return decoded(model, rows.ids, {3}, backend); };
  EXPECT_TRUE(same_bits(run(cpu::cpu_backend()), run(device())));
}

TEST_P(EmulatedModel, TrainingGivesTheBitsOfTheCpu) {
  const Rows rows = random_rows(model, 4, test_tokens(model));
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto run = [&](const Backend& backend) {
      train::TrainState state(model.parameters(), dtype, true, backend);
      initialise(state, model);
      train::TrainStep step(model, state,
                            {.shape = {2, test_tokens(model), dtype},
                             .features = train::all_losses(false),
                             .microbatches = 2,
                             .clip_norm = 1},
                            {}, backend);
      const std::vector<program::Microbatch> batches = {rows.microbatch(), rows.microbatch(2)};
      double loss = 0;
      for (int i = 0; i < 3; ++i) loss = step.run(batches, 1e-3, i).loss;
      return std::pair(loss, conformance::copy_of(model, state.masters(), backend));
    };
    const auto here = run(cpu::cpu_backend()), there = run(device());
    EXPECT_EQ(here.first, there.first);
    EXPECT_EQ(here.second, there.second);
  }
}

// Golden cases of several kinds: whole models, images, adapters, packed rows, training curves.
std::vector<std::filesystem::path> golden_cases() {
  const std::set<std::string> kinds = {"llama3_gqa",    "llama_packed",    "gemma3_7_layers",
                                       "gpt_oss_mxfp4", "deepseek_v3_mtp", "qwen3_next_4",
                                       "qwen3_vl",      "lora_llama3",     "train_llama3"};
  auto out = golden_folders("hf", "golden.safetensors");
  std::erase_if(out, [&](const auto& path) { return !kinds.contains(path.filename().string()); });
  return out;
}

class EmulatedGolden : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(EmulatedGolden, AgreesWithTheReference) {
  expect_agreement(GetParam(), DType::f32, device());
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedGolden, ::testing::ValuesIn(golden_cases()),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EmulatedGolden);

INSTANTIATE_TEST_SUITE_P(All, EmulatedModel,
                         ::testing::Values("llama2_deep", "qwen3_5", "deepseek_streams"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lamina::testing
