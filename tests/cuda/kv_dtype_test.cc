// Models whose keys and values are kept in int8 and fp8, on the emulated GPU: the logits of the
// CPU, however a sequence is read.
#include <gtest/gtest.h>

#include "backends/cpu/backend.h"
#include "cuda/gpu.h"
#include "support/agreement.h"
#include "support/device_models.h"

namespace lamina::testing {
namespace {

constexpr std::size_t kReadTokens = 20;

class CudaKvDtype : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  const decoder::Model model =
      open_changed(test_model(std::get<0>(GetParam())),
                   fmt::format("kv_dtype = \"{}\"\n", std::get<1>(GetParam())));
  const Rows rows = random_rows(model, 2, kReadTokens);

  // Logits after the last token of both rows, read in calls of `size` tokens.
  std::vector<float> logits(DType dtype, std::size_t size, const Backend& backend) const {
    const weights::Weights weights = weights_on(backend, model, dtype);
    decode::Session session(
        model, weights.pointers(),
        {.batch = 2, .capacity = 64, .call_tokens = kReadTokens, .dtype = dtype}, backend);
    std::span<const float> out;
    for (std::size_t at = 0; at < kReadTokens; at += size) {
      const std::size_t count = std::min(size, kReadTokens - at);
      const std::span<const std::int32_t> ids(rows.ids);
      out = session.append(std::vector<std::span<const std::int32_t>>{
          ids.subspan(at, count), ids.subspan(kReadTokens + at, count)});
    }
    return {out.begin(), out.end()};
  }
};

// A number near the middle of two codes may be rounded to the other one, so codes of fp8 need the
// tolerance of tests/decode/kv_dtype_test.cc.
TEST_P(CudaKvDtype, PromptsPiecesAndTokensGiveTheLogitsOfTheCpu) {
  const bool is_fp8 = std::string_view(std::get<1>(GetParam())) == "fp8";
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const double tolerance = dtype == DType::bf16 ? 5e-2 : is_fp8 ? 1e-2 : 1e-3;
    const std::vector<float> want = logits(dtype, kReadTokens, cpu::cpu_backend());
    for (const std::size_t size : {kReadTokens, std::size_t{7}, std::size_t{1}})
      EXPECT_LE(relative_difference(logits(dtype, size, test_gpu()), want), tolerance)
          << name(dtype) << ", calls of " << size;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaKvDtype,
                         ::testing::Combine(::testing::Values("llama2_deep_window", "gemma3_window",
                                                              "gpt_oss_predicts",
                                                              "llama4_interleaved"),
                                            ::testing::Values("int8", "fp8")),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param),
                                              std::get<1>(test.param));
                         });

}  // namespace
}  // namespace lamina::testing
