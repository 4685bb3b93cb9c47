// Whole models on the emulated GPU: the numbers of the CPU within a tolerance, because functions
// and orders of sums differ.
#include <gtest/gtest.h>

#include <set>

#include "backends/cpu/backend.h"
#include "cuda/gpu.h"
#include "inspect/verify/forward.h"
#include "support/agreement.h"
#include "support/device_models.h"
#include "support/goldens.h"
#include "support/maxtext_case.h"

namespace lamina::testing {
namespace {

constexpr double kTolerance = 1e-4, kTolerance16 = 5e-2;
double allowed(DType dtype) { return dtype == DType::f32 ? kTolerance : kTolerance16; }

class CudaModel : public ::testing::TestWithParam<const char*> {
 protected:
  const decoder::Model model = open_model(test_model(GetParam()).path);
};

TEST_P(CudaModel, ForwardAgreesWithTheCpu) {
  const Rows rows = random_rows(model, 2, test_tokens(model));
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto run = [&](const Backend& backend) {
      return inspect::forward(model, weights_on(backend, model, dtype).pointers(), rows,
                              {.dtype = dtype}, backend)
          .logits;
    };
    EXPECT_LE(relative_difference(run(test_gpu()), run(cpu::cpu_backend())), allowed(dtype));
  }
}

TEST_P(CudaModel, DecodingAgreesWithTheCpu) {
  const Rows rows = random_rows(model, 1, test_tokens(model));
  const auto run = [&](const Backend& backend) {
    return decoded(model, rows.ids, {3, 1}, backend);
  };
  EXPECT_LE(relative_difference(run(test_gpu()), run(cpu::cpu_backend())), kTolerance);
}

TEST_P(CudaModel, TrainingAgreesWithTheCpu) {
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
      std::vector<float> losses, norms;
      for (int i = 0; i < 3; ++i) {
        const train::StepResult result = step.run(batches, 1e-3, i);
        losses.push_back(static_cast<float>(result.loss));
        norms.push_back(static_cast<float>(result.gradient_norm));
      }
      return std::pair(losses, norms);
    };
    const auto here = run(cpu::cpu_backend()), there = run(test_gpu());
    EXPECT_LE(relative_difference(there.first, here.first), allowed(dtype));
    EXPECT_LE(relative_difference(there.second, here.second), allowed(dtype));
  }
}

TEST_P(CudaModel, TrainingGivesTheSameBitsInEachRun) {
  const Rows rows = random_rows(model, 2, test_tokens(model));
  const auto run = [&] {
    train::TrainState state(model.parameters(), DType::bf16, true, test_gpu());
    initialise(state, model);
    train::TrainStep step(model, state,
                          {.shape = {2, test_tokens(model), DType::bf16}, .clip_norm = 1}, {},
                          test_gpu());
    const std::vector<program::Microbatch> batches = {rows.microbatch()};
    const double loss = step.run(batches, 1e-3, 0).loss;
    return std::pair(loss, conformance::copy_of(model, state.masters(), test_gpu()));
  };
  const auto first = run(), second = run();
  EXPECT_EQ(first.first, second.first);
  EXPECT_EQ(first.second, second.second);
}

INSTANTIATE_TEST_SUITE_P(All, CudaModel,
                         ::testing::Values("llama2_deep", "qwen3_5", "deepseek_streams"),
                         [](const auto& test) { return std::string(test.param); });

// Golden cases of other implementations: whole models, images, adapters, packed rows, blocks of few
// bits, training curves.
std::vector<std::filesystem::path> golden_cases() {
  auto out = golden_folders("hf", "golden.safetensors");
  for (const auto& folder : golden_folders("gguf", "golden.safetensors")) out.push_back(folder);
  return out;
}

class CudaGolden : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(CudaGolden, AgreesWithTheReference) { expect_agreement(GetParam(), DType::f32, test_gpu()); }

INSTANTIATE_TEST_SUITE_P(All, CudaGolden, ::testing::ValuesIn(golden_cases()),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaGolden);

// Whole models of MaxText: logits, hidden states, losses, gradients, updates of biases.
class CudaMaxText : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(CudaMaxText, AgreesScanned) {
  ASSERT_EQ(reason_to_skip_maxtext(GetParam()), "");
  for (const MaxTextRow& row : compare_maxtext(GetParam(), true, test_gpu()))
    EXPECT_LE(row.error, row.allowed) << row.quantity;
}

INSTANTIATE_TEST_SUITE_P(All, CudaMaxText, ::testing::ValuesIn(maxtext_models()),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaMaxText);

// Cases that agree within the tolerance of bf16 on the CPU.
std::vector<std::filesystem::path> golden_cases_of_16_bits() {
  const std::set<std::string> names = {"gemma3_7_layers", "gpt2_prefixed",  "gpt_oss_mxfp4",
                                       "llama3_gqa",      "mistral_window", "olmo2_gqa"};
  auto out = golden_folders("hf", "golden.safetensors");
  std::erase_if(out, [&](const auto& path) { return !names.contains(path.filename().string()); });
  return out;
}

class CudaGolden16 : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(CudaGolden16, AgreesWithTheReferenceInBf16) {
  expect_agreement(GetParam(), DType::bf16, test_gpu());
}

INSTANTIATE_TEST_SUITE_P(All, CudaGolden16, ::testing::ValuesIn(golden_cases_of_16_bits()),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaGolden16);

}  // namespace
}  // namespace lamina::testing
