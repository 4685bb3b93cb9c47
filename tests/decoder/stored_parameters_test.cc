// Storage of parameters: the types in graphs, and the segments of layers that have it in common.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/open.h"
#include "support/models.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

using Storages = std::vector<const formats::BlockFormat*>;

decoder::Model small_model() {
  const TempDir folder;
  const std::string file = folder.write(
      "small.toml",
      "family = \"llama2\"\n[model]\nvocab_size = 10\nhidden_size = 32\nintermediate_size = 64\n"
      "num_hidden_layers = 4\nnum_attention_heads = 2\nnum_key_value_heads = 1\n");
  return std::move(*model::open(file, built_plugins()).model);
}

const formats::BlockFormat* q8_0() { return formats::find_block_format(8); }

Storages one_stored(const decoder::Model& model, const std::string& name) {
  Storages out(model.parameters().all().size());
  out[static_cast<std::size_t>(model.parameters().find(name))] = q8_0();
  return out;
}

const Type& type_of(const decoder::ModelGraph& graph, int parameter) {
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    if (graph.inputs[i].role == decoder::Input::parameter &&
        std::ranges::count(graph.inputs[i].members, parameter) > 0)
      return graph.graph.type(graph.graph.inputs()[i].value);
  throw std::runtime_error("the graph has no such parameter");
}

TEST(StoredParameters, MatricesAndTablesAreStorableButNoGains) {
  const decoder::Model model = small_model();
  const std::vector<bool> storable = model.storable_parameters();
  for (std::size_t i = 0; i < storable.size(); ++i)
    EXPECT_EQ(storable[i], model.parameters().all()[i].desc.shape.ndim() == 2)
        << model.parameters().all()[i].name;
}

TEST(StoredParameters, TheLossReadsAHeadInBlocks) {
  const decoder::Model model = small_model();
  const auto head = static_cast<std::size_t>(model.parameters().find("head.weight"));
  EXPECT_TRUE(model.storable_parameters()[head]);
  EXPECT_TRUE(model.storable_parameters(/*losses=*/true)[head]);
}

TEST(StoredParameters, OnlyFrozenOnesAreStorableInTraining) {
  decoder::Model model = small_model();
  const decoder::ParameterTable& parameters = model.parameters();
  std::vector<decoder::Learning> learning(parameters.all().size());
  for (std::size_t i = 0; i < learning.size(); ++i)
    learning[i].frozen = parameters.all()[i].name.find("attention") != std::string::npos;
  model.set_learning(learning);
  const std::vector<bool> storable = model.storable_in_training();
  for (std::size_t i = 0; i < storable.size(); ++i)
    EXPECT_EQ(storable[i], learning[i].frozen && parameters.all()[i].desc.shape.ndim() == 2)
        << parameters.all()[i].name;
}

TEST(StoredParameters, SegmentsEndWhereTheStorageChanges) {
  decoder::Model model = small_model();
  ASSERT_EQ(model.stack().segments.size(), 1u);
  model.set_storage(one_stored(model, "layers.1.feed_forward.w2.weight"));
  EXPECT_EQ(model.stack().segments.size(), 3u);
  model.set_storage(Storages(model.parameters().all().size()));
  EXPECT_EQ(model.stack().segments.size(), 1u);
}

TEST(StoredParameters, GraphsWithoutTrainingHaveTheStorage) {
  decoder::Model model = small_model();
  model.set_storage(one_stored(model, "embed.weight"));
  const int embed = model.parameters().find("embed.weight");
  for (const decoder::ModelGraph& graph :
       {model.decode_graph({}, {}), model.forward_graph({}), model.loss_graph({})}) {
    verify(graph.graph, "building");
    EXPECT_EQ(type_of(graph, embed).storage, q8_0());
  }
  EXPECT_EQ(type_of(model.loss_graph({}, {.training = true}), embed).storage, nullptr);
}

TEST(StoredParameters, LearningKeepsTheStorage) {
  decoder::Model model = small_model();
  model.set_storage(one_stored(model, "embed.weight"));
  std::vector<decoder::Learning> learning(model.parameters().all().size());
  learning.back().frozen = true;
  model.set_learning(learning);
  EXPECT_EQ(model.parameters()[model.parameters().find("embed.weight")].storage, q8_0());
  model.set_storage(one_stored(model, "embed.weight"));
  EXPECT_TRUE(model.parameters().all().back().learning.frozen);
}

}  // namespace
}  // namespace lamina::testing
