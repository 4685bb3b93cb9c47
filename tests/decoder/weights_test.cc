// Published weights that do not match a config: one error with the tensor and the reason.
#include "weights/weights.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>

#include "backends/cpu/backend.h"
#include "support/expect_error.h"
#include "support/models.h"
#include "support/temp_dir.h"

namespace lamina::decoder {
namespace {

using testing::TempDir;

// A very small model with a separate matrix for its head.
const std::string kModel = R"(
family = "simple"
[model]
vocab_size = 5
hidden_size = 4
num_hidden_layers = 2
)";

// The tensors that kModel publishes; tests add, remove and change some.
std::map<std::string, io::TensorSpec> published() {
  Model model = testing::open_description(kModel);
  std::map<std::string, io::TensorSpec> out;
  const weights::TensorMap map = weights::published_tensors(model);
  for (const weights::PublishedTensor& t : map.tensors())
    out[t.name] = {t.name, DType::f32, t.shape};
  return out;
}

weights::Weights load(const std::string& folder,
                      const std::map<std::string, io::TensorSpec>& tensors,
                      DType compute = DType::f32) {
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, spec] : tensors) specs.push_back(spec);
  std::vector<std::byte> ones(4096, std::byte{1});
  io::write_weight_files(folder, specs, [&](const io::TensorSpec& spec) {
    return std::span<const std::byte>(ones).first(io::num_bytes(spec));
  });
  Model model = testing::open_description(kModel);
  return weights::Weights::load(model, std::make_shared<io::WeightFiles>(folder), compute,
                                cpu::cpu_backend());
}

TEST(Weights, Example) {
  TempDir folder;
  weights::Weights weights = load(folder.path(), published());
  EXPECT_EQ(weights.pointers().size(), 5u);
}

TEST(Weights, FilesOfTheComputeTypeAreUsedInPlace) {
  TempDir folder;
  std::map<std::string, io::TensorSpec> tensors = published();
  tensors["model.layers.0.weights.weight"].dtype = DType::bf16;
  weights::Weights weights = load(folder.path(), tensors, DType::bf16);
  int mapped = 0;
  for (int i = 0; i < 5; ++i) mapped += weights.is_mapped(i);
  EXPECT_EQ(mapped, 2);  // that matrix, and the norm's f32 vector
}

TEST(Weights, PagesAreMappedAheadUntilTheCallerStops) {
  TempDir folder;
  const weights::Weights weights = load(folder.path(), published());
  int num_mapped = 0, asked = 0;
  for (int i = 0; i < 5; ++i) num_mapped += weights.is_mapped(i);
  weights.map_pages([&] { return ++asked > 0; });
  EXPECT_EQ(asked, num_mapped) << "small parameters are a part each";
  asked = 0;
  weights.map_pages([&] { return ++asked < 2; });
  EXPECT_EQ(asked, 2);
}

TEST(Weights, MissingTensorIsNamedWithItsParameterAndTheNearestName) {
  TempDir folder;
  std::map<std::string, io::TensorSpec> tensors = published();
  tensors.erase("model.layers.1.weights.weight");
  EXPECT_USER_ERROR(load(folder.path(), tensors), ExitCode::checkpoint,
                    folder.path() +
                        ": tensor 'model.layers.1.weights.weight' is missing\n"
                        "  for parameter 'layers.1.weights.weight'\n"
                        "  the nearest existing name is 'model.layers.0.weights.weight'");
}

// A checkpoint of training has our names; a plugin may have got parameters since.
TEST(Weights, ACheckpointThatLacksParametersNamesThem) {
  TempDir folder;
  folder.write("model.toml", "");
  std::map<std::string, io::TensorSpec> tensors;
  for (const char* name : {"embed.weight", "norm.weight", "head.weight"})
    tensors[name] = {name, DType::f32, Shape{5, 4}};
  EXPECT_USER_ERROR(load(folder.path(), tensors), ExitCode::checkpoint,
                    folder.path() +
                        ": lacks 2 tensors of the model: 'layers.0.weights.weight', "
                        "'layers.1.weights.weight'\n"
                        "  the plugin or [model] has other parameters than those that trained "
                        "these: use the same ones, or start a new run with train.from and "
                        "train.fresh");
}

// The tensors, renamed by `wrap`.
std::map<std::string, io::TensorSpec> wrapped(
    const std::function<std::string(const std::string&)>& wrap) {
  std::map<std::string, io::TensorSpec> out;
  for (const auto& [name, spec] : published())
    out[wrap(name)] = {wrap(name), spec.dtype, spec.shape};
  return out;
}

TEST(Weights, NamesOfWrappedModulesAreRead) {
  for (const char* prefix : {"_orig_mod.", "module.", "module._orig_mod.", "_orig_mod.module."}) {
    TempDir folder;
    EXPECT_EQ(load(folder.path(), wrapped([&](const std::string& name) { return prefix + name; }))
                  .pointers()
                  .size(),
              5u)
        << prefix;
  }
  TempDir folder;
  const auto by_layer = wrapped([](const std::string& name) {
    const std::size_t at = name.find(".weights.");
    return at == name.npos ? name : name.substr(0, at) + "._orig_mod" + name.substr(at);
  });
  EXPECT_EQ(load(folder.path(), by_layer).pointers().size(), 5u);
}

TEST(Weights, AMissingTensorOfAWrappedModelHasTheNameOfTheOthers) {
  TempDir folder;
  auto tensors = wrapped([](const std::string& name) { return "_orig_mod." + name; });
  tensors.erase("_orig_mod.model.layers.1.weights.weight");
  EXPECT_ERROR_SAYS(load(folder.path(), tensors), ExitCode::checkpoint,
                    "tensor '_orig_mod.model.layers.1.weights.weight' is missing\n"
                    "  for parameter 'layers.1.weights.weight'\n"
                    "  the nearest existing name is '_orig_mod.model.layers.0.weights.weight'");
}

TEST(Weights, ScalesOfActivationsHaveNoEffectOnAWeightInF8) {
  TempDir folder;
  std::map<std::string, io::TensorSpec> tensors = published();
  const std::string module = "model.layers.0.weights.";
  tensors[module + "weight"].dtype = DType::f8_e4m3;
  for (const char* scale : {"weight_scale_inv", "activation_scale"})
    tensors[module + scale] = {module + scale, DType::f32, {}};
  EXPECT_EQ(load(folder.path(), tensors).pointers().size(), 5u);
  // Beside a weight of another type these tensors show that the files have another format.
  TempDir plain;
  tensors[module + "weight"].dtype = DType::f32;
  tensors.erase(module + "weight_scale_inv");
  EXPECT_ERROR_SAYS(load(plain.path(), tensors), ExitCode::checkpoint,
                    "1 tensor that family 'simple' does not use, eg "
                    "'model.layers.0.weights.activation_scale'");
}

TEST(Weights, AnIndexMayNameTensorsThatNothingNeeds) {
  TempDir folder;
  load(folder.path(), published());
  std::string map;
  for (const auto& [name, spec] : published()) map += "\"" + name + "\":\"part.safetensors\",";
  std::filesystem::rename(folder / "model.safetensors", folder / "part.safetensors");
  folder.write("model.safetensors.index.json",
               "{\"weight_map\":{" + map +
                   "\"model.layers.0.self_attn.rotary_emb.inv_freq\":\"part.safetensors\"}}");
  Model model = testing::open_description(kModel);
  const auto open = [&] {
    return weights::Weights::load(model, std::make_shared<io::WeightFiles>(folder.path()),
                                  DType::f32, cpu::cpu_backend());
  };
  EXPECT_EQ(open().pointers().size(), 5u);
  std::map<std::string, io::TensorSpec> less = published();
  less.erase("model.norm.weight");
  TempDir other;
  EXPECT_ERROR_SAYS(load(other.path(), less), ExitCode::checkpoint, "'model.norm.weight'");
  std::filesystem::rename(other / "model.safetensors", folder / "part.safetensors");
  EXPECT_ERROR_SAYS(open(), ExitCode::checkpoint,
                    "tensor 'model.norm.weight' is missing\n"
                    "  for parameter 'norm.weight'\n"
                    "  the index assigns it to '" +
                        folder.path() +
                        "/part.safetensors', which does not contain it: download that file again");
}

TEST(Weights, SurplusTensorsAreCountedAndOneIsNamed) {
  TempDir folder;
  std::map<std::string, io::TensorSpec> tensors = published();
  for (const char* name : {"model.layers.2.weights.weight", "model.layers.3.weights.weight"})
    tensors[name] = {name, DType::f32, {4, 4}};
  EXPECT_USER_ERROR(load(folder.path(), tensors), ExitCode::checkpoint,
                    folder.path() +
                        ": 2 tensors that family 'simple' does not use, eg "
                        "'model.layers.2.weights.weight'\n"
                        "  num_hidden_layers is 2; check that the config belongs to these weights\n"
                        "  also 'model.layers.3.weights.weight'");
}

TEST(Weights, SurplusTensorsOfItsLayersAreNotBlamedOnTheirNumber) {
  TempDir folder;
  std::map<std::string, io::TensorSpec> tensors = published();
  const std::string name = "model.layers.1.experts.7.bias";
  tensors[name] = {name, DType::f32, {4}};
  EXPECT_USER_ERROR(load(folder.path(), tensors), ExitCode::checkpoint,
                    folder.path() + ": 1 tensor that family 'simple' does not use, eg '" + name +
                        "'\n  a model of this config has no such tensors; check that the config "
                        "belongs to these weights");
}

TEST(Weights, SurplusTensorsMayHaveNoElements) {
  TempDir folder;
  std::map<std::string, io::TensorSpec> tensors = published();
  tensors["model.layers.0.shared.weight"] = {"model.layers.0.shared.weight", DType::f32, {0, 4}};
  EXPECT_EQ(load(folder.path(), tensors).pointers().size(), 5u);
}

TEST(Weights, WrongShapeIsShownBesideTheOneThatTheConfigAsksFor) {
  TempDir folder;
  std::map<std::string, io::TensorSpec> tensors = published();
  tensors["lm_head.weight"].shape = {6, 4};
  EXPECT_USER_ERROR(
      load(folder.path(), tensors), ExitCode::checkpoint,
      folder.path() +
          "/model.safetensors: tensor 'lm_head.weight' is [6, 4], but the config requires [5, 4]\n"
          "  for parameter 'head.weight'\n"
          "  use the config.json that belongs to these weights");
}

TEST(Weights, ElementTypeWithoutWeightsIsRefused) {
  TempDir folder;
  std::map<std::string, io::TensorSpec> tensors = published();
  tensors["model.norm.weight"].dtype = DType::i32;
  EXPECT_USER_ERROR(
      load(folder.path(), tensors), ExitCode::checkpoint,
      folder.path() +
          "/model.safetensors: tensor 'model.norm.weight' has element type i32; expected f32, f16, "
          "bf16 or f64\n"
          "  for parameter 'norm.weight'");
}

TEST(Weights, InitialValuesDependOnNameAndSeedAlone) {
  Model two = testing::open_description(kModel),
        unrolled = testing::open_description(kModel, false);
  weights::Weights a = weights::Weights::initialise(two, 3, DType::f32, cpu::cpu_backend());
  weights::Weights b = weights::Weights::initialise(unrolled, 3, DType::f32, cpu::cpu_backend());
  weights::Weights c = weights::Weights::initialise(two, 4, DType::f32, cpu::cpu_backend());
  auto values_a = testing::copy_of(two, a.pointers());
  auto values_b = testing::copy_of(unrolled, b.pointers());
  auto values_c = testing::copy_of(two, c.pointers());
  for (std::size_t i = 0; i < values_a.size(); ++i) {
    EXPECT_TRUE(testing::same_bits(values_a[i], values_b[i]));
    bool random = two.parameters().all()[i].desc.shape.ndim() == 2;
    EXPECT_EQ(testing::same_bits(values_a[i], values_c[i]), !random);
  }
}

}  // namespace
}  // namespace lamina::decoder
