// Models whose weights stay in blocks, compared with weights that were widened when they were
// loaded.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <optional>

#include "decode/session.h"
#include "formats/fast_products.h"
#include "inspect/plan/model_plan.h"
#include "model/load.h"
#include "publishers/formats.h"
#include "support/gguf_golden.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

// The model of a golden case.
std::string model_in(const fs::path& folder) {
  const fs::path gguf = folder / "model.gguf";
  return (fs::exists(gguf) ? gguf : folder).string();
}

model::Loaded loaded(const fs::path& folder, DType dtype, std::optional<bool> packed) {
  return model::load(model_in(folder), built_plugins(), dtype, cpu::cpu_backend(),
                     {.packed = packed});
}

int num_stored(const model::Loaded& m) {
  return static_cast<int>(std::ranges::count_if(
      m.model().parameters().all(), [](const auto& p) { return p.storage != nullptr; }));
}

// Logits of a prompt of 70 tokens, which tiles multiply, and of single tokens after it.
Floats decoded(const model::Loaded& m, DType dtype) {
  decode::Session session(m.model(), m.weights.pointers(),
                          {.capacity = 80, .call_tokens = 70, .dtype = dtype}, cpu::cpu_backend());
  std::vector<std::int32_t> ids(74);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 7 % 61);
  Floats out;
  std::span<const std::int32_t> rest = ids;
  for (const std::size_t count : {70, 1, 2, 1}) {
    const auto logits = session.append(rest.first(count));
    out.insert(out.end(), logits.begin(), logits.end());
    rest = rest.subspan(count);
  }
  return out;
}

std::vector<fs::path> packed_cases() {
  std::vector<fs::path> out = gguf_cases();
  for (const fs::path& folder : golden_folders("quantised", "model.safetensors"))
    out.push_back(folder);
  for (const char* name : {"gpt_oss_mxfp4", "deepseek_v3_fp8"}) out.push_back(kOwnCases / name);
  return out;
}

class StoredWeights : public ::testing::TestWithParam<fs::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoredWeights);

TEST_P(StoredWeights, HaveTheBitsOfWidenedOnesInFloat32) {
  if (GetParam().parent_path() == kOwnCases) {
    SKIP_WITHOUT(GetParam());
  }
  const model::Loaded stored = loaded(GetParam(), DType::f32, true),
                      widened = loaded(GetParam(), DType::f32, false);
  EXPECT_EQ(num_stored(widened), 0);
  EXPECT_TRUE(same_bits(decoded(stored, DType::f32), decoded(widened, DType::f32)));
}

TEST_P(StoredWeights, ByDefaultHaveFastProductsAndBfloat16) {
  if (GetParam().parent_path() == kOwnCases) {
    SKIP_WITHOUT(GetParam());
  }
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const model::Loaded all = loaded(GetParam(), dtype, true),
                        by_default = loaded(GetParam(), dtype, {});
    const bool is_compressed =
        all.opened.weight_files()->compression().method == publishers::kCompressedTensors;
    const auto& parameters = by_default.model().parameters().all();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto* storage = all.model().parameters().all()[i].storage;
      const bool is_kept =
          storage &&
          (is_compressed || (dtype == DType::bf16 && formats::has_fast_products(*storage)));
      EXPECT_EQ(parameters[i].storage, is_kept ? storage : nullptr) << parameters[i].name;
    }
  }
}

// Mean divergence of the next token's probabilities, of rows of `width` logits.
double mean_divergence(const Floats& from, const Floats& of, std::size_t width) {
  double total = 0;
  for (std::size_t row = 0; row < from.size(); row += width) {
    const auto log_sum = [&](const Floats& x) {
      double sum = 0;
      for (std::size_t i = row; i < row + width; ++i) sum += std::exp(static_cast<double>(x[i]));
      return std::log(sum);
    };
    const double sum_from = log_sum(from), sum_of = log_sum(of);
    for (std::size_t i = row; i < row + width; ++i) {
      const double p = static_cast<double>(from[i]) - sum_from;
      total += std::exp(p) * (p - (static_cast<double>(of[i]) - sum_of));
    }
  }
  return total / static_cast<double>(from.size() / width);
}

// Kernels may quantise activations in bfloat16: docs/numerics.md.
TEST_P(StoredWeights, AreCloseToWidenedOnesInBfloat16) {
  if (GetParam().parent_path() == kOwnCases) {
    SKIP_WITHOUT(GetParam());
  }
  const model::Loaded stored = loaded(GetParam(), DType::bf16, true),
                      widened = loaded(GetParam(), DType::bf16, false);
  EXPECT_LT(mean_divergence(decoded(widened, DType::bf16), decoded(stored, DType::bf16),
                            static_cast<std::size_t>(stored.model().vocab_size())),
            0.02);
}

INSTANTIATE_TEST_SUITE_P(All, StoredWeights, ::testing::ValuesIn(packed_cases()),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });

TEST(StoredGguf, BlocksStayInTheFile) {
  const fs::path from = golden_dir() / "gguf" / "qwen3_q4_k";
  if (!fs::exists(from)) GTEST_SKIP() << from << " is not there";
  const model::Loaded m = loaded(from, DType::bf16, true);
  EXPECT_EQ(num_stored(m), 8);  // the token table, four matrices of attention, three after it
  for (std::size_t i = 0; i < m.model().parameters().all().size(); ++i) {
    const decoder::Parameter& p = m.model().parameters().all()[i];
    if (!p.storage) continue;
    EXPECT_TRUE(m.weights.is_mapped(static_cast<int>(i))) << p.name;
    EXPECT_EQ(m.weights.pointers()[i].type(), p.used_type(DType::bf16)) << p.name;
  }
}

TEST(StoredMxfp4, ExpertsAreCopiedInBlocks) {
  const fs::path from = kOwnCases / "gpt_oss_mxfp4";
  SKIP_WITHOUT(from);
  const model::Loaded m = loaded(from, DType::bf16, true);
  EXPECT_GT(num_stored(m), 0);
  for (const decoder::Parameter& p : m.model().parameters().all())
    EXPECT_EQ(p.storage == &formats::mxfp4_format(),
              p.name.find(".experts.w") != p.name.npos && p.desc.shape.ndim() == 3)
        << p.name;
}

TEST(StoredGguf, ThePlanCountsTheBytesOfBlocks) {
  const fs::path from = golden_dir() / "gguf" / "qwen3_q8_0";
  if (!fs::exists(from)) GTEST_SKIP() << from << " is not there";
  model::OpenedModel opened = model::open(model_in(from), built_plugins());
  model::set_storage(opened, {.packed = true}, DType::bf16);
  const inspect::ModelPlan plan =
      inspect::plan_model(*opened.model, {.tokens = 16}, cpu::cpu_backend());
  std::int64_t q8_0 = 0, plain = 0;
  for (const decoder::Parameter& p : opened.model->parameters().all())
    (p.desc.shape.ndim() == 2 ? q8_0 : plain) +=
        p.desc.shape.ndim() == 2 ? p.num_elements() / 32 * 34 : 4 * p.num_elements();
  const std::vector<std::pair<std::string, std::int64_t>> want = {{"Q8_0", q8_0}, {"plain", plain}};
  EXPECT_EQ(plan.stored_bytes, want);
}

}  // namespace
}  // namespace lamina::testing
