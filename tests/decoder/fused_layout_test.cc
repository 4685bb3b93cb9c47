// Files with several matrices of one input in one tensor: read like others, written on request.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/float16.h"
#include "support/packed_checkpoint.h"
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

// A model whose rows are multiples of 32 values.
decoder::Model model_of_blocks() {
  return open_description(
      "family = \"llama2\"\n[model]\nvocab_size = 48\nhidden_size = 64\n"
      "intermediate_size = 96\nnum_hidden_layers = 1\nnum_attention_heads = 4\n"
      "num_key_value_heads = 2\n");
}

bool is_matrix_of_layer(std::string_view tensor) {
  return tensor.find("_proj.") != std::string_view::npos;
}

// Writes its matrices in packed integers and its other tensors in f32.
void write_packed(const decoder::Model& model, const std::string& directory) {
  std::vector<FileBytes> tensors;
  unsigned seed = 0;
  for (const FileTensor& tensor : published_form(model, fresh_values(model))) {
    if (!is_matrix_of_layer(tensor.name)) {
      tensors.push_back(float_bytes(tensor.name, DType::f32, tensor.shape, tensor.values));
      continue;
    }
    const IntegerWeight w = random_weight(tensor.shape[0], tensor.shape[1], 4, 32, false, ++seed);
    const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
    for (FileBytes& part : as_words(module, w, DType::bf16, false))
      tensors.push_back(std::move(part));
  }
  std::filesystem::create_directories(directory);
  write_checkpoint(directory, tensors,
                   alone(compressed_tensors_config("pack-quantized", 4, "group", 32, true)));
}

TEST(FusedLayouts, PackedWeightsBecomeBfloat16) {
  const decoder::Model model = model_of_blocks();
  const TempDir folder;
  write_packed(model, folder / "packed");
  ParameterValues want = values_in(folder / "packed", model);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const decoder::Parameter& p = model.parameters().all()[i];
    if (p.layer < 0 || p.desc.shape.ndim() != 2) continue;
    for (float& value : want[i]) value = to_float(to_bfloat16(value));
  }
  for (const auto& [name, layout] :
       {std::pair("fused", Layout::fused), std::pair("published", Layout::published)}) {
    SCOPED_TRACE(name);
    weights::export_to_hf(model, folder / "packed", folder / name, {.layout = layout});
    const io::WeightFiles files(folder / name);
    EXPECT_EQ(files.contains("model.layers.0.self_attn.qkv_proj.weight"), layout == Layout::fused);
    for (std::string_view tensor : files.names())
      EXPECT_EQ(files.tensor(tensor).dtype, is_matrix_of_layer(tensor) ? DType::bf16 : DType::f32)
          << tensor;
    EXPECT_EQ(values_in(folder / name, model), want);
    EXPECT_EQ(folder.read(std::string(name) + "/config.json").find("quantization_config"),
              std::string::npos);
  }
}

TEST(FusedLayouts, KeepTheTypeOfTheFiles) {
  const decoder::Model model = model_of_blocks();
  for (const DType dtype : {DType::f16, DType::f64}) {
    SCOPED_TRACE(name(dtype));
    const TempDir folder;
    std::vector<FileBytes> tensors;
    for (const FileTensor& t : published_form(model, fresh_values(model)))
      tensors.push_back(dtype == DType::f16
                            ? float_bytes(t.name, dtype, t.shape, t.values)
                            : file_bytes(t.name, dtype, t.shape,
                                         std::vector<double>(t.values.begin(), t.values.end())));
    std::filesystem::create_directories(folder / "separate");
    write_checkpoint(folder / "separate", tensors, "{}");
    weights::export_to_hf(model, folder / "separate", folder / "fused", {.layout = Layout::fused});
    const io::WeightFiles files(folder / "fused");
    for (std::string_view tensor : files.names())
      EXPECT_EQ(files.tensor(tensor).dtype, dtype) << tensor;
    EXPECT_EQ(values_in(folder / "fused", model), values_in(folder / "separate", model));
  }
}

}  // namespace
}  // namespace lamina::testing
