// Files saved by Transformers 5 that differ from those on the Hub.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "model/open.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "support/published_weights.h"
#include "support/temp_dir.h"
#include "support/wrong_index.h"
#include "weights/publish/published_form.h"

namespace lamina::testing {
namespace {

// [E, A, B] to [E, B, A].
FileTensor transposed_experts(const FileTensor& from) {
  FileTensor out = from;
  const std::int64_t e = from.shape[0], a = from.shape[1], b = from.shape[2];
  out.shape = Shape{e, b, a};
  for (std::int64_t i = 0; i < from.shape.num_elements(); ++i)
    out.values[static_cast<std::size_t>(i / (a * b) * a * b + i % b * a + i / b % a)] =
        from.values[static_cast<std::size_t>(i)];
  return out;
}

struct FusedExperts {
  decoder::Model model;
  ParameterValues values;
  std::vector<FileTensor> hub, saved;  // [E, D, 2 F] and [E, F, D]; [E, 2 F, D] and [E, D, F]
};

// Experts of width f in a model of width 24.
FusedExperts fused_experts(std::int64_t f) {
  FusedExperts out{
      open_description(fmt::format(
          "family = \"qwen3_vl_moe\"\n[model]\nvocab_size = 61\nhidden_size = 24\n"
          "num_hidden_layers = 2\nmoe_intermediate_size = {}\nnum_attention_heads = 4\n"
          "num_key_value_heads = 2\nhead_dim = 12\nnum_experts = 6\nnum_experts_per_tok = 2\n"
          "rope_scaling.mrope_section = [2, 2, 2]\nrope_scaling.mrope_interleaved = true\n",
          f)),
      {},
      {},
      {}};
  out.values = fresh_values(out.model);
  const auto& parameters = out.model.parameters().all();
  std::map<std::string, std::vector<const std::vector<float>*>> experts;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].desc.name;
    if (!name.starts_with("moe.experts.")) continue;
    const std::int64_t layer = parameters[i].layer;
    experts[fmt::format("model.layers.{}.mlp.experts.{}", layer,
                        name.find("w2") == name.npos ? "gate_up_proj" : "down_proj")]
        .push_back(&out.values[i]);
  }
  for (const FileTensor& tensor : published_form(out.model, out.values))
    if (tensor.name.find(".experts.") == tensor.name.npos) {
      out.hub.push_back(tensor);
      out.saved.push_back(tensor);
    }
  for (const auto& [name, parts] : experts) {
    const std::int64_t e = 6, d = 24;
    FileTensor joined{name, parts.size() == 2 ? Shape{e, 2 * f, d} : Shape{e, d, f}, {}};
    const std::size_t each = static_cast<std::size_t>(f * d);
    for (std::size_t expert = 0; expert < static_cast<std::size_t>(e); ++expert)
      for (const std::vector<float>* part : parts)  // w1, then w3
        joined.values.insert(joined.values.end(),
                             part->begin() + static_cast<std::ptrdiff_t>(expert * each),
                             part->begin() + static_cast<std::ptrdiff_t>((expert + 1) * each));
    out.saved.push_back(joined);
    out.hub.push_back(transposed_experts(joined));
  }
  return out;
}

ParameterValues read_back(const decoder::Model& model, const std::vector<FileTensor>& tensors) {
  TempDir folder;
  write_tensors(folder / "model.safetensors", tensors);
  return values_in(folder.path(), model);
}

// Transformers 5 saves the layout of its computation.
TEST(Transformers5, ExpertsOfQwen3VlAreReadEitherWay) {
  const FusedExperts experts = fused_experts(14);
  EXPECT_EQ(read_back(experts.model, experts.hub), experts.values);
  EXPECT_EQ(read_back(experts.model, experts.saved), experts.values);
}

// Transformers transposes only tensors that do not have the shape of its computation.
TEST(Transformers5, SquareExpertsOfQwen3VlAreNotTransposed) {
  for (const std::int64_t width : {12, 24}) {  // gate_up_proj is square; down_proj is
    const FusedExperts experts = fused_experts(width);
    EXPECT_EQ(read_back(experts.model, experts.saved), experts.values) << width;
  }
}

// Names alone, as an export has them, mean the layout of the Hub unless a matrix is square.
TEST(Transformers5, ExpertsOfQwen3VlAreExportedAsOnTheHub) {
  for (const std::int64_t width : {12, 14, 24}) {
    const FusedExperts experts = fused_experts(width);
    std::vector<std::string_view> names;
    for (const FileTensor& tensor : experts.hub) names.push_back(tensor.name);
    const weights::TensorMap map = weights::match_names(experts.model, "form", names);
    for (const weights::PublishedTensor& tensor : map.tensors()) {
      const auto file = std::ranges::find(experts.hub, tensor.name, &FileTensor::name);
      ASSERT_NE(file, experts.hub.end()) << tensor.name;
      EXPECT_EQ(tensor.shape, file->shape) << tensor.name;
    }
  }
}

// Transformers takes the key at the top alone, whose default depends on the class of the whole; a
// head with other values than the table is not tied all the same.
TEST(Transformers5, AWrapperThatDoesNotSayIfTheHeadIsTiedLeavesItToTheWeights) {
  bool is_indexed = true;
  const auto is_tied = [&](const std::string& inside, const std::string& outside, bool has_head) {
    TempDir folder;
    const std::string text =
        R"("model_type": "qwen3_vl_text", "vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 1,
        "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 4,
        "head_dim": 6)" +
        inside;
    folder.write("config.json",
                 R"({"model_type": "qwen3_vl", "text_config": {)" + text + "}" + outside + "}");
    const decoder::Model untied = open_description(
        "family = \"qwen3_vl\"\n[model]\nvocab_size = 61\nhidden_size = 24\n"
        "num_hidden_layers = 1\nintermediate_size = 24\nnum_attention_heads = 4\n"
        "num_key_value_heads = 4\nhead_dim = 6\n");
    std::vector<FileTensor> tensors = published_form(untied, fresh_values(untied));
    if (!has_head) std::erase_if(tensors, [](const auto& t) { return t.name == "lm_head.weight"; });
    write_tensors(folder / "model.safetensors", tensors);
    if (!is_indexed)
      write_wrong_index(folder.path(),
                        [](std::string_view name) { return name == "lm_head.weight"; });
    return model::open(folder.path(), built_plugins()).model->options().head.tied;
  };
  const std::string tied = R"(, "tie_word_embeddings": true)";
  for (const std::string& inside : {std::string(), tied}) {
    EXPECT_FALSE(is_tied(inside, "", true)) << inside;
    EXPECT_TRUE(is_tied(inside, "", false)) << inside;
  }
  EXPECT_TRUE(is_tied("", tied, true));  // refused when the weights are read
  is_indexed = false;
  EXPECT_ERROR_SAYS(is_tied("", "", true), ExitCode::checkpoint,
                    "tensor 'lm_head.weight' is missing\n  the index assigns it to '");
}

// Older files have one tensor per layer, others one for all.
TEST(Transformers5, FrequenciesOfRotaryPositionsAreNoWeights) {
  const decoder::Model model = open_description(
      "family = \"llama2\"\n[model]\nvocab_size = 61\nhidden_size = 24\nnum_hidden_layers = 1\n"
      "intermediate_size = 24\nnum_attention_heads = 4\n");
  const ParameterValues ours = fresh_values(model);
  std::vector<FileTensor> tensors = published_form(model, ours);
  for (const char* name :
       {"model.rotary_emb.inv_freq", "model.layers.0.self_attn.rotary_emb.inv_freq"})
    tensors.push_back({name, Shape{3}, {1, 0.5f, 0.25f}});
  EXPECT_EQ(read_back(model, tensors), ours);
}

// Without a kernel for MXFP4, Transformers 5 decompresses gpt-oss and saves the values under the
// names of the blocks. The shape of a square matrix does not show its layout.
TEST(Transformers5, ExpertsOfGptOssOutOfTheirBlocksAreRead) {
  const decoder::Model model = open_description(
      "family = \"gpt_oss\"\n[model]\nvocab_size = 61\nhidden_size = 24\nnum_hidden_layers = 2\n"
      "intermediate_size = 24\nnum_attention_heads = 4\nnum_key_value_heads = 2\nhead_dim = 6\n"
      "num_local_experts = 5\nnum_experts_per_tok = 2\n");
  const ParameterValues ours = fresh_values(model);
  std::vector<FileTensor> saved = published_form(model, ours);
  int renamed = 0;
  for (FileTensor& tensor : saved)
    if (tensor.name.ends_with(".gate_up_proj") || tensor.name.ends_with(".down_proj")) {
      tensor.name += "_blocks";
      ++renamed;
    }
  EXPECT_EQ(renamed, 4);
  TempDir folder;
  write_tensors(folder / "model.safetensors", saved);
  EXPECT_EQ(values_in(folder.path(), model), ours);
}

// A model read from MXFP4 is exported in bfloat16, with the layout and names of such files.
TEST(Transformers5, AnExportOutOfMxfp4HasTheNamesOfValues) {
  const std::string folder = LAMINA_SOURCE_DIR "/tests/golden/hf/gpt_oss_mxfp4";
  const decoder::Model model = open_model(folder);
  const io::WeightFiles files(folder);
  TempDir made;
  const std::string path = made.write(
      "published.json",
      weights::published_form(model, model, files, weights::match_weights(model, files)));
  const weights::PublishedForm form(path);
  const std::string experts = "model.layers.1.mlp.experts.";
  EXPECT_EQ(form.dtype(experts + "down_proj"), DType::bf16);
  EXPECT_EQ(form.dtype(experts + "down_proj_blocks"), std::nullopt);
  const weights::TensorMap map = weights::match_names(model, "form", form.names());
  for (const weights::PublishedTensor& tensor : map.tensors())
    if (tensor.name == experts + "down_proj") {
      EXPECT_EQ(tensor.shape, (Shape{5, 96, 64}));
    }
}

std::int64_t global_width(const std::string& more) {
  TempDir folder;
  folder.write("config.json",
               R"({"model_type": "gemma4_text", "architectures": ["Gemma4ForCausalLM"],
    "vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 6, "intermediate_size": 36,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "hidden_size_per_layer_input": 0)" +
                   more + "}");
  return open_model(folder.path()).config().values().integer("global_head_dim");
}

// It saves an attribute per layer only if a layer differs from the common value.
TEST(Transformers5, LayersOfGemma4MayOmitTheCommonHeadWidth) {
  EXPECT_EQ(global_width(R"(, "per_layer_config": {})"), 8);
  EXPECT_EQ(global_width(R"(, "per_layer_config": {"5": {"head_dim": 12}})"), 12);
  EXPECT_EQ(global_width(R"(, "global_head_dim": 16)"), 16);
  EXPECT_EQ(global_width(""), 512);
}

}  // namespace
}  // namespace lamina::testing
