// Files with several matrices of one input in one tensor: read like others, written on request.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "support/published_weights.h"
#include "support/temp_dir.h"
#include "weights/publish/hf_export.h"

namespace lamina::testing {
namespace {

using weights::Layout;

std::map<std::string, std::string> tensors_of(const std::string& folder) {
  const io::WeightFiles files(folder);
  std::map<std::string, std::string> out;
  for (std::string_view name : files.names()) {
    const io::TensorView view = files.tensor(name);
    out[std::string(name)] =
        to_string(view.shape) +
        std::string(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size());
  }
  return out;
}

bool has_module(const std::map<std::string, std::string>& tensors, const std::string& module) {
  return std::ranges::any_of(tensors, [&](const auto& tensor) {
    return tensor.first.find("." + module + ".") != std::string::npos;
  });
}

class FusedLayout : public ::testing::TestWithParam<const char*> {};

TEST_P(FusedLayout, ComesBackWithTheSameBits) {
  const decoder::Model model = open_model(test_model(GetParam()).path);
  TempDir folder;
  std::filesystem::create_directories(folder / "published");
  write_tensors(folder / "published/model.safetensors", published_form(model, fresh_values(model)));
  weights::export_to_hf(model, folder / "published", folder / "fused", {.layout = Layout::fused});
  weights::export_to_hf(model, folder / "fused", folder / "again", {.layout = Layout::published});
  const auto published = tensors_of(folder / "published"), fused = tensors_of(folder / "fused");
  EXPECT_EQ(tensors_of(folder / "again"), published);
  EXPECT_EQ(values_in(folder / "fused", model), values_in(folder / "published", model));
  EXPECT_TRUE(has_module(fused, "qkv_proj"));
  for (const char* alone : {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"})
    EXPECT_FALSE(has_module(fused, alone)) << alone;
  // By default the layout of the files is kept.
  weights::export_to_hf(model, folder / "fused", folder / "same", {});
  EXPECT_EQ(tensors_of(folder / "same"), fused);
}

INSTANTIATE_TEST_SUITE_P(Models, FusedLayout,
                         ::testing::Values("llama2_biased", "qwen3", "gemma3_window",
                                           "qwen2_later_windows", "llama2_normed",
                                           "qwen3_moe_sparse_step"),
                         [](const auto& test) { return std::string(test.param); });

TEST(FusedLayouts, HaveQueriesThenKeysThenValues) {
  const decoder::Model model = open_model(test_model("llama2_deep").path);
  const weights::TensorMap map = weights::published_tensors(model, Layout::fused);
  const auto piece = [&](const char* parameter) {
    return map.pieces_of(model.parameters().find(parameter)).front();
  };
  const weights::Piece q = piece("layers.0.attention.wq.weight"),
                       k = piece("layers.0.attention.wk.weight"),
                       v = piece("layers.0.attention.wv.weight"),
                       gate = piece("layers.0.feed_forward.w1.weight"),
                       up = piece("layers.0.feed_forward.w3.weight");
  EXPECT_EQ(map.tensor_of(q).name, "model.layers.0.self_attn.qkv_proj.weight");
  EXPECT_EQ(map.tensor_of(up).name, "model.layers.0.mlp.gate_up_proj.weight");
  EXPECT_EQ(q.tensor, v.tensor);
  EXPECT_EQ(q.view.offset, 0);
  EXPECT_EQ(k.view.offset, q.num_elements());
  EXPECT_EQ(v.view.offset, q.num_elements() + k.num_elements());
  EXPECT_EQ(gate.view.offset, 0);
  EXPECT_EQ(up.view.offset, gate.num_elements());
}

}  // namespace
}  // namespace lamina::testing
