// The tensor map: parameters sliced, stacked and transposed from published tensors, and back.
#include "weights/publish/published.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "backends/cpu/backend.h"
#include "config/run_config.h"
#include "lamina/sdk.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "support/tensors.h"
#include "weights/weights.h"

namespace lamina::decoder {
namespace {

namespace sdk = lamina::sdk;
using testing::TempDir;

// A family whose map is set by each test. Layer 0 has block 1, layer 1 block 2.
struct Config {
  std::int64_t vocab_size, hidden_size, num_hidden_layers;
};
constexpr std::int64_t kExperts = 2, kFeed = 3, kWidth = 4;

std::vector<sdk::Weight> rows;

sdk::Tensor with_experts(sdk::Scope s, const Config&, sdk::Tensor x, const sdk::Step&) {
  for (const char* name : {"gate", "up"})
    s.param(name, {kExperts, kFeed, kWidth},
            {.axes = {sdk::axis::experts, sdk::axis::expert_mlp, sdk::axis::embed}});
  s.param("bias", {kFeed}, {.axes = {sdk::axis::mlp}, .role = sdk::Role::bias});
  return x;
}
sdk::Tensor with_a_matrix(sdk::Scope s, const Config&, sdk::Tensor x, const sdk::Step&) {
  s.param("conv", {kWidth, kFeed}, {.axes = {sdk::axis::embed, sdk::axis::conv}});
  s.param("long", {2, kWidth}, {.axes = {sdk::axis::mlp, sdk::axis::embed}});
  return x;
}

constexpr sdk::Model<Config> kFamily = {
    .family = {.name = "cuts", .hf_prefixes = {"model."}},
    .keys =
        [](sdk::Schema<Config>& key) {
          key("vocab_size", &Config::vocab_size, {.fallback = 5, .doc = "A number."});
          key("hidden_size", &Config::hidden_size, {.fallback = kWidth, .doc = "A number."});
          key("num_hidden_layers", &Config::num_hidden_layers, {.fallback = 2, .doc = "A number."});
        },
    .blocks =
        [] {
          return std::vector<sdk::Block<Config>>{{1, "experts", with_experts},
                                                 {2, "matrix", with_a_matrix}};
        },
    .plan =
        [](const Config&) {
          return sdk::prefix("a", sdk::unit(1), 1) + sdk::prefix("b", sdk::unit(2), 1);
        },
    .head = [](const Config&) { return sdk::Head{.tied = true}; },
    .weights = [] { return rows; },
};

std::vector<sdk::Weight> with(std::vector<sdk::Weight> more) {
  more.push_back({0, LAMINA_NAME_EMBED, "model.embed.weight"});
  return more;
}

// Rows that the tests do not change.
const std::vector<sdk::Weight> kMatrix = {{2, "conv", "layers.{L}.conv", {sdk::squeezed(1)}},
                                          {2, "long", "layers.{L}.long"}};
const std::vector<sdk::Weight> kApart = {{1, "gate", "layers.{L}.experts.{E}.gate"},
                                         {1, "up", "layers.{L}.experts.{E}.up"},
                                         {1, "bias", "layers.{L}.bias"}};

std::vector<sdk::Weight> joined(std::vector<sdk::Weight> a, const std::vector<sdk::Weight>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return with(a);
}

// A model of the family with `map` as its tensor map.
class Made {
 public:
  explicit Made(std::vector<sdk::Weight> map)
      : tables_((rows = std::move(map), kFamily)),
        family_(std::make_shared<registry::Family>(tables_.family(),
                                                   std::make_shared<registry::PluginIdentity>())),
        model(family_, family_->configure({}, "test")) {}

 private:
  sdk::FamilyTables<Config> tables_;
  std::shared_ptr<const registry::Family> family_;

 public:
  Model model;
};

TEST(TensorMap, WithoutARowForAParameterIsRefused) {
  EXPECT_ERROR_SAYS(
      weights::published_tensors(Made(joined({{1, "gate", "layers.{L}.experts.{E}.gate"},
                                              {1, "up", "layers.{L}.experts.{E}.up"},
                                              {1, "bais", "layers.{L}.bias"}},
                                             kMatrix))
                                     .model),
      ExitCode::plugin,
      "family 'cuts': the tensor map lacks a row for 'bias', the parameter 'layers.0.bias'\n"
      "  it has a row for 'bais', which this model does not have");
}

TEST(TensorMap, OfAFamilyWithoutOneHasLaminaNames) {
  const Made made({});
  const weights::TensorMap map = weights::published_tensors(made.model);
  ASSERT_EQ(map.tensors().size(), made.model.parameters().all().size());
  for (std::size_t i = 0; i < map.tensors().size(); ++i) {
    const decoder::Parameter& parameter = made.model.parameters()[static_cast<int>(i)];
    EXPECT_EQ(map.tensors()[i].name, parameter.name);
    EXPECT_EQ(map.tensors()[i].shape, parameter.desc.shape);
  }
}

using TensorShapes = std::map<std::string, Shape>;

// Files whose tensor i contains 1000 i, 1000 i + 1, ...
io::WeightFiles written(const TempDir& dir, const TensorShapes& tensors) {
  std::vector<io::TensorSpec> specs;
  std::map<std::string, std::vector<float>> values;
  for (const auto& [name, shape] : tensors) {
    std::vector<float>& v = values[name];
    v.resize(static_cast<std::size_t>(shape.num_elements()));
    std::iota(v.begin(), v.end(), 1000.f * static_cast<float>(values.size() - 1));
    specs.push_back({name, DType::f32, shape});
  }
  io::write_weight_files(dir.path(), specs, [&](const io::TensorSpec& spec) {
    return std::as_bytes(std::span(values.at(spec.name)));
  });
  return io::WeightFiles(dir.path());
}

std::vector<float> parameter(const Model& model, const io::WeightFiles& files,
                             const std::string& name) {
  const int index = model.parameters().find(name);
  std::vector<float> out(static_cast<std::size_t>(model.parameters()[index].num_elements()));
  weights::read_parameter(weights::match_weights(model, files), files, index, 0, out);
  return out;
}

// Expects the tensors written from the parameters to equal the files'.
void expect_round_trip(const Model& model, const io::WeightFiles& files) {
  const weights::TensorMap map = weights::match_weights(model, files);
  for (std::size_t i = 0; i < map.tensors().size(); ++i) {
    std::vector<float> ours;
    const std::vector<float> got = weights::assemble(
        map, static_cast<int>(i), [&](int p, std::int64_t first, std::int64_t count) {
          ours.resize(static_cast<std::size_t>(count));
          weights::read_parameter(map, files, p, first, ours);
          return std::span<const float>(ours);
        });
    std::vector<float> want(got.size());
    const auto bytes = files.tensor(map.tensors()[i].name).bytes;
    std::memcpy(want.data(), bytes.data(), bytes.size());
    EXPECT_EQ(got, want) << map.tensors()[i].name;
  }
}

const TensorShapes kOthers = {{"model.embed.weight", {5, 4}},
                              {"layers.0.bias", {3}},
                              {"layers.1.conv", {4, 1, 3}},
                              {"layers.1.long", {2, 4}}};
TensorShapes others_and(TensorShapes more) {
  more.insert(kOthers.begin(), kOthers.end());
  return more;
}

TEST(TensorMap, Example) {
  Made made(joined(kApart, kMatrix));
  TempDir dir;
  const io::WeightFiles files = written(dir, others_and({{"layers.0.experts.0.gate", {3, 4}},
                                                         {"layers.0.experts.1.gate", {3, 4}},
                                                         {"layers.0.experts.0.up", {3, 4}},
                                                         {"layers.0.experts.1.up", {3, 4}}}));
  const std::vector<float> gate = parameter(made.model, files, "layers.0.gate");
  EXPECT_EQ(gate[0], 1000);   // experts.0.gate
  EXPECT_EQ(gate[12], 3000);  // experts.1.gate
  expect_round_trip(made.model, files);
}

TEST(TensorMap, PartsLieOneAfterTheOther) {
  Made made(joined({{1, "gate", "layers.{L}.gate_up", {sdk::part(0, 1)}},
                    {1, "up", "layers.{L}.gate_up", {sdk::part(1, 1)}},
                    {1, "bias", "layers.{L}.bias"}},
                   kMatrix));
  TempDir dir;
  const io::WeightFiles files = written(dir, others_and({{"layers.0.gate_up", {2, 6, 4}}}));
  EXPECT_EQ(parameter(made.model, files, "layers.0.up")[0], 1000 + 3 * 4);
  EXPECT_EQ(parameter(made.model, files, "layers.0.gate")[12], 1000 + 6 * 4);
  expect_round_trip(made.model, files);
}

TEST(TensorMap, InterleavedAndTransposedParts) {
  Made made(joined({{1, "gate", "layers.{L}.gate_up", {sdk::strided(0, 2, -1), sdk::kTranspose}},
                    {1, "up", "layers.{L}.gate_up", {sdk::strided(1, 2, -1), sdk::kTranspose}},
                    {1, "bias", "layers.{L}.bias"}},
                   kMatrix));
  TempDir dir;
  const io::WeightFiles files = written(dir, others_and({{"layers.0.gate_up", {2, 4, 6}}}));
  const std::vector<float> up = parameter(made.model, files, "layers.0.up");
  EXPECT_EQ(up[0], 1001);               // [0, 0, 1]
  EXPECT_EQ(up[1], 1007);               // [0, 1, 1]: our last dim is their middle one
  EXPECT_EQ(up[4], 1003);               // [0, 0, 3]
  EXPECT_EQ(up[12], 1000 + 4 * 6 + 1);  // the next expert
  expect_round_trip(made.model, files);
}

TEST(TensorMap, DimsAreSqueezedAndSplit) {
  Made made(joined({{1, "gate", "layers.{L}.gate", {sdk::split(0)}},
                    {1, "up", "layers.{L}.up", {sdk::kTranspose, sdk::split(0)}},
                    {1, "bias", "layers.{L}.bias", {sdk::multiplied(2), sdk::added(1)}}},
                   kMatrix));
  TempDir dir;
  const io::WeightFiles files =
      written(dir, others_and({{"layers.0.gate", {6, 4}}, {"layers.0.up", {4, 6}}}));
  EXPECT_EQ(parameter(made.model, files, "layers.0.up")[13], 2000 + 6 + 3);  // [1, 0, 1]
  EXPECT_EQ(parameter(made.model, files, "layers.0.bias")[1], 2 * 1 + 1);
  expect_round_trip(made.model, files);
}

TEST(TensorMap, DimsAreMergedAndMoved) {
  Made made(joined({{1, "gate", "layers.{L}.gate", {sdk::merged(2, 2)}},
                    {1, "up", "layers.{L}.up", {sdk::moved(0, 2)}},
                    {1, "bias", "layers.{L}.bias"}},
                   kMatrix));
  TempDir dir;
  const io::WeightFiles files =
      written(dir, others_and({{"layers.0.gate", {2, 3, 2, 2}}, {"layers.0.up", {4, 2, 3}}}));
  const std::vector<float> gate = parameter(made.model, files, "layers.0.gate"),
                           up = parameter(made.model, files, "layers.0.up");
  for (std::size_t i = 0; i < gate.size(); ++i) EXPECT_EQ(gate[i] - gate[0], float(i));
  EXPECT_EQ(up[1] - up[0], 6);   // [0, 0, 1]: our last dim is their first
  EXPECT_EQ(up[4] - up[0], 1);   // [0, 1, 0]
  EXPECT_EQ(up[12] - up[0], 3);  // [1, 0, 0]
  expect_round_trip(made.model, files);
}

TEST(TensorMap, MergedDimsAreNeighboursInMemory) {
  Made made(joined({{1, "gate", "layers.{L}.gate", {sdk::moved(0, 2), sdk::merged(2, 2)}},
                    {1, "up", "layers.{L}.up"},
                    {1, "bias", "layers.{L}.bias"}},
                   kMatrix));
  EXPECT_ERROR_SAYS(weights::published_tensors(made.model), ExitCode::plugin,
                    "tensor row 'layers.{L}.gate': its transforms do not match parameter");
}

TEST(TensorMap, TheFirstAlternativeThatIsThereIsRead) {
  std::vector<sdk::Weight> map = kApart;
  map.push_back({1, "gate", "layers.{L}.gate_up", {sdk::part(0, 1)}});
  map.push_back({1, "up", "layers.{L}.gate_up", {sdk::part(1, 1)}});
  Made made(joined(map, kMatrix));
  TempDir dir;
  const io::WeightFiles files = written(dir, others_and({{"model.layers.0.gate_up", {2, 6, 4}}}));
  EXPECT_EQ(weights::match_weights(made.model, files).tensors().size(), 5u);
  const weights::TensorMap published = weights::published_tensors(made.model);
  EXPECT_TRUE(std::ranges::any_of(published.tensors(), [](const weights::PublishedTensor& tensor) {
    return tensor.name == "layers.0.experts.0.gate";
  }));
  expect_round_trip(made.model, files);
}

TEST(TensorMap, OneExpertThatIsMissingIsNamed) {
  Made made(joined(kApart, kMatrix));
  TempDir dir;
  const io::WeightFiles files = written(dir, others_and({{"layers.0.experts.0.gate", {3, 4}}}));
  EXPECT_ERROR_SAYS(weights::match_weights(made.model, files), ExitCode::checkpoint,
                    "tensor 'layers.0.experts.1.gate' is missing\n"
                    "  for parameter 'layers.0.gate'");
}

TEST(TensorMap, APrefixThatTheFamilyDoesNotReadIsNamed) {
  Made made(joined(kApart, kMatrix));
  TempDir dir;
  TensorShapes tensors{{"model.embed.weight", {5, 4}}};
  for (const auto& [name, shape] : others_and({{"layers.0.experts.0.gate", {3, 4}},
                                               {"layers.0.experts.1.gate", {3, 4}},
                                               {"layers.0.experts.0.up", {3, 4}},
                                               {"layers.0.experts.1.up", {3, 4}}}))
    if (name.starts_with("layers.")) tensors.emplace("text." + name, shape);
  EXPECT_ERROR_SAYS(weights::match_weights(made.model, written(dir, tensors)), ExitCode::checkpoint,
                    "tensors are under 'text.', which family 'cuts' does not read\n"
                    "  expected names such as 'layers.0.");
}

TEST(TensorMap, AFusedTensorOfAnotherShapeShowsBoth) {
  Made made(joined({{1, "gate", "layers.{L}.gate_up", {sdk::part(0, 1)}},
                    {1, "up", "layers.{L}.gate_up", {sdk::part(1, 1)}},
                    {1, "bias", "layers.{L}.bias"}},
                   kMatrix));
  TempDir dir;
  const io::WeightFiles files = written(dir, others_and({{"layers.0.gate_up", {2, 8, 4}}}));
  EXPECT_ERROR_SAYS(weights::match_weights(made.model, files), ExitCode::checkpoint,
                    dir.path() +
                        "/model.safetensors: tensor 'layers.0.gate_up' is [2, 8, 4], but the "
                        "config requires [2, 6, 4]");
}

// The names that match_weights() refuses besides the required ones.
std::string left_over(std::vector<sdk::Weight> more, const std::string& name) {
  Made made(joined(joined(kApart, kMatrix), more));
  TempDir dir;
  TensorShapes tensors = others_and({{"layers.0.experts.0.gate", {3, 4}},
                                     {"layers.0.experts.1.gate", {3, 4}},
                                     {"layers.0.experts.0.up", {3, 4}},
                                     {"layers.0.experts.1.up", {3, 4}}});
  tensors[name] = {1};
  try {
    weights::match_weights(made.model, written(dir, tensors));
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(TensorMap, OneTensorForTwoParametersIsThePluginsFault) {
  Made made(joined({{1, "gate", "layers.{L}.gate"},
                    {1, "up", "layers.{L}.gate"},
                    {1, "bias", "layers.{L}.bias"}},
                   kMatrix));
  EXPECT_ERROR_SAYS(weights::published_tensors(made.model), ExitCode::plugin,
                    "published tensor 'layers.0.gate': is mapped to parameter 'layers.0.gate' and "
                    "again to 'layers.0.up' by rows of family 'cuts'");
}

TEST(TensorMap, PatternsWithManyStarsTakeNoLongerThanTheirLengths) {
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "*a";
  pattern += "b";
  Made made(joined(kApart, kMatrix));
  std::vector<sdk::Weight> map = rows;
  map.push_back({.hf = pattern, .flags = LAMINA_HF_IGNORE});
  Made with_stars(map);
  TempDir dir;
  TensorShapes tensors = others_and({{"layers.0.experts.0.gate", {3, 4}},
                                     {"layers.0.experts.1.gate", {3, 4}},
                                     {"layers.0.experts.0.up", {3, 4}},
                                     {"layers.0.experts.1.up", {3, 4}}});
  tensors[std::string(2000, 'a')] = {1};
  EXPECT_ERROR_SAYS(weights::match_weights(with_stars.model, written(dir, tensors)),
                    ExitCode::checkpoint, "1 tensor that family 'cuts' does not use");
}

TEST(TensorMap, TensorsAreIgnoredByNameLayerAndBlock) {
  using sdk::ignored, sdk::ignored_beyond;
  EXPECT_NE(left_over({}, "layers.1.bias"), "");
  EXPECT_EQ(left_over({ignored("layers.{L}.bias")}, "layers.1.bias"), "");
  EXPECT_EQ(left_over({ignored("vision.*.bias")}, "vision.layers.1.bias"), "");
  EXPECT_NE(left_over({ignored("layers.{L}.bias")}, "layers.x.bias"), "");
  EXPECT_NE(left_over({ignored_beyond("layers.{L}.*")}, "layers.1.bias"), "");
  EXPECT_EQ(left_over({ignored_beyond("layers.{L}.*")}, "layers.2.bias"), "");
  EXPECT_EQ(left_over({ignored_beyond("mtp.{P}.*")}, "mtp.0.bias"), "");
  EXPECT_NE(left_over({ignored_beyond("mtp.{P}.*")}, "mtp.x.bias"), "");
  const sdk::Weight of_block_2{.block = 2, .hf = "layers.{L}.x", .flags = LAMINA_HF_IGNORE};
  EXPECT_EQ(left_over({of_block_2}, "layers.1.x"), "");
  EXPECT_NE(left_over({of_block_2}, "layers.0.x"), "");
  // A tensor of one kind of layer that is also published for another kind.
  const sdk::Weight surplus{1, "bias", "layers.{L}.bias", {}, LAMINA_HF_SURPLUS};
  EXPECT_EQ(left_over({surplus}, "layers.1.bias"), "");
  EXPECT_NE(left_over({surplus}, "layers.2.bias"), "");
}

TEST(TensorMap, PiecesOfOneTensorAreReadInPlace) {
  Made made(joined({{1, "gate", "layers.{L}.both", {sdk::part(0, 0)}},
                    {1, "up", "layers.{L}.both", {sdk::part(1, 0)}},
                    {1, "bias", "layers.{L}.bias"}},
                   kMatrix));
  TempDir dir;
  auto files =
      std::make_shared<io::WeightFiles>(written(dir, others_and({{"layers.0.both", {4, 3, 4}}})));
  const weights::Weights weights =
      weights::Weights::load(made.model, files, DType::f32, cpu::cpu_backend());
  for (int i = 0; i < static_cast<int>(weights.pointers().size()); ++i)
    EXPECT_TRUE(weights.is_mapped(i)) << made.model.parameters()[i].name;
  EXPECT_EQ(lamina::testing::floats(weights.pointers()[static_cast<std::size_t>(
                made.model.parameters().find("layers.0.up"))])[0],
            1000 + 2 * 3 * 4);
}

// A tied head's tensor in the files, as values of the table plus `more`.
std::string with_head(const io::TensorSpec& head, float more) {
  Made made(joined(joined(kApart, kMatrix),
                   {{0, LAMINA_NAME_HEAD, "lm_head.weight", {}, LAMINA_HF_TIED}}));
  TensorShapes tensors = others_and({{"layers.0.experts.0.gate", {3, 4}},
                                     {"layers.0.experts.1.gate", {3, 4}},
                                     {"layers.0.experts.0.up", {3, 4}},
                                     {"layers.0.experts.1.up", {3, 4}}});
  std::vector<io::TensorSpec> specs{head};
  for (const auto& [name, shape] : tensors) specs.push_back({name, DType::f32, shape});
  std::vector<float> values(20);
  std::iota(values.begin(), values.end(), 0.f);
  std::vector<double> doubles(values.begin(), values.end());
  std::vector<float> head_values = values;
  head_values.back() += more;
  TempDir dir;
  io::write_weight_files(dir.path(), specs, [&](const io::TensorSpec& spec) {
    const auto all = spec.dtype == DType::f64        ? std::as_bytes(std::span(doubles))
                     : spec.name == "lm_head.weight" ? std::as_bytes(std::span(head_values))
                                                     : std::as_bytes(std::span(values));
    return all.first(static_cast<std::size_t>(io::num_bytes(spec)));
  });
  try {
    weights::match_weights(made.model, io::WeightFiles(dir.path()));
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ExitCode::checkpoint);
    return std::string(e.what()).substr(dir.path().size());
  }
  return "";
}

TEST(TensorMap, ATiedTableMayHaveTheNameOfTheHead) {
  const Made made(joined(joined(kApart, kMatrix),
                         {{0, LAMINA_NAME_HEAD, "lm_head.weight", {}, LAMINA_HF_TIED}}));
  TensorShapes tensors = others_and({{"layers.0.experts.0.gate", {3, 4}},
                                     {"layers.0.experts.1.gate", {3, 4}},
                                     {"layers.0.experts.0.up", {3, 4}},
                                     {"layers.0.experts.1.up", {3, 4}},
                                     {"lm_head.weight", {5, 4}}});
  tensors.erase("model.embed.weight");
  TempDir dir;
  expect_round_trip(made.model, written(dir, tensors));
}

TEST(TensorMap, ATiedHeadThatDiffersFromTheTableIsRefused) {
  EXPECT_EQ(with_head({"lm_head.weight", DType::f32, {5, 4}}, 0), "");
  EXPECT_EQ(with_head({"model.lm_head.weight", DType::f64, {5, 4}}, 0), "");
  EXPECT_EQ(
      with_head({"lm_head.weight", DType::f32, {5, 4}}, 1),
      "/model.safetensors: tensor 'lm_head.weight' differs from 'model.embed.weight', but the "
      "config says that the head is the token table\n"
      "  tie_word_embeddings = false, or the file's older name for it, uses both; if the head is "
      "not "
      "wanted, remove 'lm_head.weight'");
  EXPECT_NE(with_head({"lm_head.weight", DType::f32, {4, 5}}, 0), "");
}

}  // namespace
}  // namespace lamina::decoder
