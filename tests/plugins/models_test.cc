// The shipped plugins through the registry: every published checkpoint of a dense family in the
// goldens has exactly the tensors of its map, and no unknown key.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "io/weight_files.h"
#include "registry/library.h"
#include "registry/trace.h"
#include "support/paths.h"

namespace lamina::registry {
namespace {

namespace fs = std::filesystem;

const Catalog& shipped() {
  static const Catalog catalog =
      Catalog::scan({.folders = {fs::path(LAMINA_BUILD_DIR) / "lib/lamina/plugins"}});
  return catalog;
}

// Creates the graph's inputs, without their values.
class ShapesOnly : public BlockTrace {
 public:
  using BlockTrace::BlockTrace;

 protected:
  Tensor make_param(const ParamDesc& p) override { return add(p.name, DType::f32, p.shape); }
  void make_state(const StateDesc&, int) override {}
  Tensor make_input(InputKind kind) override {
    if (kind == InputKind::layer_index) return add("layer", DType::i32, {});
    return add("input", DType::i32, {2, 3});
  }
  Tensor make_layer_constant(const std::string& name, const std::vector<double>&) override {
    return add(name, DType::f32, {});
  }
  std::vector<Tensor> add_op(const Op& op, std::span<const Tensor> inputs, const NamedAttrs& attrs,
                             std::optional<int>) override {
    return BlockTrace::add_op(op, inputs, attrs, {});
  }
  void add_aux(const AuxDesc&) override {}
  void update(const UpdateDesc&) override {}

 private:
  Tensor add(const std::string& name, DType dtype, const Shape& shape) {
    return graph().add_input(name, {dtype, shape, {}});
  }
};

struct Parameter {
  std::uint32_t block;  // 0: the host's
  std::int64_t layer;
  std::string name;
  Shape shape;
};

// The parameters of a model: declared by its blocks, and created by the host for options of the
// family.
std::vector<Parameter> parameters_of(const Family& family, const ModelConfig& config) {
  const std::int64_t width = config.hidden_size();
  const OptionsSpec options = family.options(config);
  std::vector<Parameter> out = {{0, 0, "embed.weight", {config.vocab_size(), width}}};
  if (options.embed.positions == Positions::learned)
    out.push_back({0, 0, "positions.weight", {options.embed.max_positions, width}});
  if (options.head.norm.op && options.head.norm.weight)
    out.push_back({0, 0, "norm.weight", {width}});
  if (options.head.norm.op && options.head.norm.bias) out.push_back({0, 0, "norm.bias", {width}});
  if (!options.head.tied) out.push_back({0, 0, "head.weight", {config.vocab_size(), width}});

  std::int64_t layer = 0;
  for (const SegmentSpec& segment : family.plan(config).segments) {
    std::vector<std::pair<std::uint32_t, std::vector<ParamDesc>>> unit;
    for (const PositionSpec& position : segment.unit) {
      Graph graph;
      ShapesOnly trace(graph);
      Tensor x = graph.add_input("x", {DType::f32, {2, 3, width}, {}});
      BlockResult built = build_block(
          family, family.block(position.block), config, trace,
          {.carries = {x}, .overrides = position.overrides, .place = "layer 0, phase train"});
      unit.emplace_back(position.block, std::move(built.params));
    }
    for (std::int64_t time = 0; time < segment.times; ++time)
      for (const auto& [block, params] : unit) {
        for (const ParamDesc& p : params) out.push_back({block, layer, p.name, p.shape});
        ++layer;
      }
  }
  return out;
}

// The published name and shape of a parameter, by its row.
std::pair<std::string, Shape> published(const Family& family, const Parameter& p) {
  for (const TensorRow& row : family.tensor_rows()) {
    if (row.block != p.block || row.param != p.name) continue;
    std::string name = row.published;
    if (const std::size_t at = name.find("{L}"); at != std::string::npos)
      name.replace(at, 3, std::to_string(p.layer));
    Shape shape = p.shape;
    for (const Transform& t : row.transforms)
      if (t.kind == Transform::Kind::transpose) shape = Shape{shape[1], shape[0]};
    return {name, shape};
  }
  ADD_FAILURE() << "no row for " << p.name;
  return {};
}

// The names in a file, without unused tensors (masks, frequencies) and without GPT-2's prefix.
std::set<std::string> needed_names(const io::WeightFiles& files) {
  std::set<std::string> out;
  for (std::string_view name : files.names()) {
    std::string plain(name);
    if (plain.starts_with("transformer.")) plain.erase(0, 12);
    if (!plain.ends_with(".attn.bias") && !plain.ends_with(".inv_freq")) out.insert(plain);
  }
  return out;
}

// Keys of config.json that are neither keys of the family nor of every model.
std::vector<std::string> unknown_keys(const ModelConfig& config) {
  static const std::set<std::string> general = {
      "architectures", "bos_token_id",         "dtype",       "eos_token_id", "model_type",
      "pad_token_id",  "transformers_version", "torch_dtype", "use_cache"};
  std::vector<std::string> out;
  for (const std::string& key : config.unread())
    if (!general.contains(key.substr(0, key.find(' ')))) out.push_back(key);
  return out;
}

TEST(PublishedCheckpoints, HaveTheTensorsOfTheMap) {
  const char* from_user = std::getenv("LAMINA_GOLDENS");
  const fs::path goldens =
      fs::path(from_user ? from_user : LAMINA_SOURCE_DIR "/tests/golden") / "hf";
  if (!fs::exists(goldens)) GTEST_SKIP() << "no " << goldens;
  for (const auto& entry : fs::directory_iterator(goldens)) {
    if (!fs::exists(entry.path() / "config.json")) continue;
    for (const char* name : {"config.json", "config.v5.json"}) {
      SCOPED_TRACE(entry.path().filename().string() + "/" + name);
      if (!fs::exists(entry.path() / name)) continue;
      const config::ModelSource source = config::load_model(entry.path() / name);
      static const std::set<std::string> dense = {"gpt2",  "llama", "mistral", "olmo2",
                                                  "olmo3", "qwen2", "qwen3"};
      if (!dense.contains(source.model_type)) continue;
      const Family& family = load_family(shipped(), source);
      const ModelConfig config = family.configure(source.raw, source.where);
      const io::WeightFiles files(entry.path().string());
      std::set<std::string> expected;
      for (const Parameter& p : parameters_of(family, config)) {
        const auto [tensor, shape] = published(family, p);
        expected.insert(tensor);
        const std::string stored = files.contains(tensor) ? tensor : "transformer." + tensor;
        ASSERT_TRUE(files.contains(stored)) << tensor;
        EXPECT_EQ(files.tensor(stored).shape, shape) << tensor;
      }
      EXPECT_EQ(needed_names(files), expected);
      EXPECT_EQ(unknown_keys(config), std::vector<std::string>{});
    }
  }
}

}  // namespace
}  // namespace lamina::registry
