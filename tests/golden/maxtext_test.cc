// Models, compared with MaxText: every folder of maxtext with a whole model.
#include <gtest/gtest.h>

#include <map>

#include "backends/cpu/backend.h"
#include "core/json.h"
#include "io/weight_files.h"
#include "support/goldens.h"
#include "support/maxtext_case.h"
#include "support/maxtext_model.h"
#include "support/temp_dir.h"
#include "support/tensor_file.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

class MaxTextGolden : public ::testing::TestWithParam<fs::path> {};

void expect_rows_agree(const fs::path& directory, bool scan_layers) {
  for (const MaxTextRow& row : compare_maxtext(directory, scan_layers, cpu::cpu_backend()))
    EXPECT_LE(row.error, row.allowed) << row.quantity;
}

TEST_P(MaxTextGolden, AgreesScannedAndUnrolled) {
  if (std::string reason = reason_to_skip_maxtext(GetParam()); !reason.empty())
    GTEST_SKIP() << reason;
  expect_rows_agree(GetParam(), true);
  expect_rows_agree(GetParam(), false);
}

INSTANTIATE_TEST_SUITE_P(All, MaxTextGolden, ::testing::ValuesIn(maxtext_models()),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MaxTextGolden);

// With `fused_qkv` and `fused_mlp` kernels of one input are merged. MaxText computes the same.
class FusedCase {
 public:
  explicit FusedCase(const fs::path& from) {
    const io::WeightFiles files(from.string());
    for (std::string_view name : files.names()) {
      const io::TensorView view = files.tensor(name);
      const auto* values = reinterpret_cast<const float*>(view.bytes.data());
      tensors_[std::string(name)] = {
          std::string(name), view.shape, {values, values + view.shape.num_elements()}};
    }
    const std::string attention = "decoder/layers/self_attention/", mlp = "decoder/layers/mlp/";
    for (const char* part : {"kernel", "bias"})
      if (tensors_.contains(attention + "query/" + part))
        fuse(attention + "qkv_proj/" + part,
             {attention + "query/" + part, attention + "key/" + part, attention + "value/" + part},
             std::string_view(part) == "bias" ? 0 : 2);
    for (const char* name : {"wi_0", "wi_1"}) {  // [D, L, F] is [D, L, 1, F]
      Shape& shape = tensors_.at(mlp + name + "/kernel").shape;
      shape = Shape{shape[0], shape[1], 1, shape[2]};
    }
    fuse(mlp + "wi/kernel", {mlp + "wi_0/kernel", mlp + "wi_1/kernel"}, 2);
    std::vector<FileTensor> all;
    for (const auto& [name, tensor] : tensors_) all.push_back(tensor);
    write_tensors(folder_.path() + "/model.safetensors", all);
    for (const char* file : {"config.json", "golden.json", "golden.safetensors"})
      fs::copy(from / file, folder_.path() + "/" + std::string(file));
  }

  fs::path path() const { return folder_.path(); }

 private:
  void fuse(const std::string& to, const std::vector<std::string>& from, int dim) {
    FileTensor out{to, tensors_.at(from[0]).shape, {}};
    std::int64_t outer = 1, inner = 1;
    for (int d = 0; d < out.shape.ndim(); ++d)
      (d < dim ? outer : inner) *= d == dim ? 1 : out.shape[d];
    out.shape[dim] = 0;
    for (const std::string& name : from) out.shape[dim] += tensors_.at(name).shape[dim];
    for (std::int64_t i = 0; i < outer; ++i)
      for (const std::string& name : from) {
        const FileTensor& part = tensors_.at(name);
        const std::int64_t row = part.shape[dim] * inner;
        out.values.insert(out.values.end(), part.values.begin() + i * row,
                          part.values.begin() + (i + 1) * row);
      }
    for (const std::string& name : from) tensors_.erase(name);
    tensors_[to] = std::move(out);
  }

  TempDir folder_;
  std::map<std::string, FileTensor> tensors_;
};

struct Parameters : MaxTextModel {
  explicit Parameters(const fs::path& directory) : MaxTextModel(directory, true, false) {}
  using MaxTextModel::parameters_;
};

TEST(MaxTextGoldens, FusedKernelsHoldTheSameParameters) {
  int compared = 0;
  for (const char* name : {"block_qwen2", "block_qwen3", "block_gemma", "block_llama2"}) {
    const fs::path folder = golden_dir() / "maxtext" / name;
    if (!fs::exists(folder)) continue;
    const FusedCase fused(folder);
    EXPECT_EQ(Parameters(fused.path()).parameters_, Parameters(folder).parameters_) << name;
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "none in " << golden_dir();
}

TEST(MaxTextGoldens, NoneIsSkipped) {
  for (const fs::path& folder : maxtext_models())
    EXPECT_EQ(reason_to_skip_maxtext(folder), "") << folder.filename();
}

}  // namespace
}  // namespace lamina::testing
