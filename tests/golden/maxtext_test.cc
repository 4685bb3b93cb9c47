// Models against what MaxText computed for them: every folder of maxtext that is a whole model.
#include <gtest/gtest.h>

#include "support/goldens.h"
#include "support/maxtext_case.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

class MaxTextGolden : public ::testing::TestWithParam<fs::path> {};

void expect_rows_agree(const fs::path& directory, bool scan_layers) {
  for (const MaxTextRow& row : compare_maxtext(directory, scan_layers))
    EXPECT_LE(row.error, row.allowed) << row.quantity;
}

TEST_P(MaxTextGolden, AgreesScannedAndUnrolled) {
  if (std::string reason = reason_to_skip_maxtext(GetParam()); !reason.empty())
    GTEST_SKIP() << reason;
  expect_rows_agree(GetParam(), true);
  expect_rows_agree(GetParam(), false);
}

INSTANTIATE_TEST_SUITE_P(All, MaxTextGolden,
                         ::testing::ValuesIn(golden_folders("maxtext", "config.json")),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MaxTextGolden);

// Of those that are there: the tree holds a choice.
TEST(MaxTextGoldens, BlocksThatAreBuiltAreNotSkipped) {
  for (const char* name : {"block_simple",
                           "block_simple_mlp",
                           "block_gpt3",
                           "block_llama2",
                           "block_llama2_l31",
                           "block_default",
                           "block_default_gelu_bias",
                           "block_llama2lti",
                           "block_llama2lti_general",
                           "block_mistral",
                           "block_qwen2",
                           "block_qwen3",
                           "block_olmo3",
                           "head_positions_sinusoid",
                           "head_positions_trainable",
                           "head_tied",
                           "head_tied_norm_cap_zloss",
                           "head_tied_plain_cap",
                           "block_gemma",
                           "block_gemma2",
                           "block_gemma3_r8",
                           "block_gemma4_r8",
                           "block_mixtral",
                           "block_qwen3_moe",
                           "block_qwen3_custom_moe",
                           "block_qwen3_next",
                           "block_gpt_oss",
                           "block_llama4",
                           "block_envy",
                           "deepseek_v2",
                           "deepseek_v3",
                           "deepseek_v32_plain",
                           "deepseek_v32_sparse",
                           "deepseek_v32_warmup",
                           "deepseek_mhc2",
                           "deepseek_engram_mhc2",
                           "deepseek_engram_order",
                           "deepseek_custom_all",
                           "mtp_deepseek_1",
                           "mtp_llama_1",
                           "mtp_llama_2",
                           "mtp_acceptance",
                           "grad_accumulation",
                           "grad_accumulation_moe_aux",
                           "metrics_activations"})
    if (const fs::path folder = golden_dir() / "maxtext" / name; fs::exists(folder)) {
      EXPECT_EQ(reason_to_skip_maxtext(folder), "") << name;
    }
}

}  // namespace
}  // namespace lamina::testing
