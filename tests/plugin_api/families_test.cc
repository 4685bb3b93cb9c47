// The plugins of this tree, loaded and driven by the recorder.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "plugin_api/recorder.h"
#include "support/paths.h"

namespace lamina::testing {
namespace {

using ::testing::Contains;
using ::testing::Not;

class Library {
 public:
  explicit Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_) throw std::runtime_error(dlerror());
    plugin_ = static_cast<const lamina_plugin_t*>(dlsym(handle_, LAMINA_PLUGIN_SYMBOL));
  }
  ~Library() { dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  const lamina_plugin_t& plugin() const { return *plugin_; }

 private:
  void* handle_;
  const lamina_plugin_t* plugin_;
};

std::string path_of(const std::string& name) {
  return std::string(LAMINA_BUILD_DIR) + "/lib/lamina/plugins/" + name + ".lamina.so";
}

// A plugin between init and deinit.
class Loaded {
 public:
  explicit Loaded(const std::string& path) : library_(path) {
    EXPECT_EQ(library_.plugin().init(&recording_host()), LAMINA_OK);
  }
  ~Loaded() { library_.plugin().deinit(); }

  const lamina_family_t& family(std::string_view name) const {
    const std::string_view id = LAMINA_FAMILIES_ID;
    const auto* families = static_cast<const lamina_families_t*>(
        library_.plugin().get_interface({id.data(), id.size()}));
    for (std::uint32_t i = 0; i < families->families.count; ++i) {
      const auto* family = static_cast<const lamina_family_t*>(families->families.ptr) + i;
      if (copy(family->name) == name) return *family;
    }
    throw std::runtime_error("no family " + std::string(name));
  }

 private:
  Library library_;
};

std::map<std::string, Value> small() {
  return {{"vocab_size", std::int64_t{131}},
          {"hidden_size", std::int64_t{48}},
          {"num_hidden_layers", std::int64_t{3}},
          {"num_attention_heads", std::int64_t{4}},
          {"num_key_value_heads", std::int64_t{2}},
          {"intermediate_size", std::int64_t{88}},
          {"attention_bias", true},
          {"mlp_bias", true},
          {"head_dim", std::int64_t{20}}};
}

RecordingBuild trace(const lamina_family_t& family, std::map<std::string, Value> values) {
  const RecordingConfig config = configure(family, std::move(values));
  RecordingBuild build(48);
  const lamina_tensor_t in = 1;
  lamina_tensor_t out = 0;
  const lamina_io_t io{sizeof io, 1, &in, &out, 1, 0, nullptr};
  const auto& block = *static_cast<const lamina_block_t*>(family.blocks.ptr);
  EXPECT_EQ(block.build(block.user, &build, &config, &io), LAMINA_OK) << build.message;
  EXPECT_NE(out, 0u);
  if (!out) return build;
  EXPECT_EQ(build.shapes.at(out - 1), (std::vector<std::int64_t>{-1, -2, 48}));
  EXPECT_TRUE(build.scopes.empty());
  return build;
}

struct Case {
  std::string plugin, family;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.family; }
};

class Families : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    All, Families,
    ::testing::Values(Case{"llama", "llama2"}, Case{"llama", "default"}, Case{"llama", "llama2lti"},
                      Case{"mistral", "mistral"}, Case{"qwen", "qwen2"}, Case{"qwen", "qwen3"},
                      Case{"qwen", "qwen3_vl"}, Case{"olmo", "olmo2"}, Case{"olmo", "olmo3"},
                      Case{"gpt3", "gpt3"}, Case{"cohere", "cohere"}, Case{"cohere", "cohere2"},
                      Case{"lfm2", "lfm2"}, Case{"simple", "simple"}, Case{"simple", "simple_mlp"}),
    [](const auto& one) { return one.param.family; });

TEST_P(Families, EveryParameterHasAnAxisPerDimAndARole) {
  const Loaded plugin(path_of(GetParam().plugin));
  const RecordingBuild build = trace(plugin.family(GetParam().family), small());
  EXPECT_FALSE(build.params.empty());
  std::set<std::string> names;
  for (const Parameter& p : build.params) {
    EXPECT_EQ(p.axes.size(), p.dims.size()) << p.name;
    EXPECT_NE(p.role, 0u) << p.name;
    EXPECT_TRUE(names.insert(p.name).second) << p.name << " is declared twice";
  }
}

TEST_P(Families, TensorMapCoversTheParametersOfTheBlock) {
  const Loaded plugin(path_of(GetParam().plugin));
  const lamina_family_t& family = plugin.family(GetParam().family);
  std::set<std::string> mapped;
  for (std::uint32_t i = 0; i < family.hf_tensors.count; ++i) {
    const auto& row = static_cast<const lamina_hf_tensor_t*>(family.hf_tensors.ptr)[i];
    if (row.block != 0) mapped.insert(copy(row.param));
  }
  for (const Parameter& p : trace(family, small()).params)
    EXPECT_TRUE(mapped.contains(p.name)) << p.name;
}

TEST_P(Families, PlanCoversTheLayers) {
  const Loaded plugin(path_of(GetParam().plugin));
  const lamina_family_t& family = plugin.family(GetParam().family);
  RecordingReply reply;
  const RecordingConfig config = configure(family, small());
  EXPECT_EQ(family.plan(family.user, &config, &reply), LAMINA_OK);
  std::size_t layers = 0;
  for (const RecordedSegment& s : reply.segments) layers += s.unit.size() * s.times;
  EXPECT_EQ(layers, 3u);
}

TEST_P(Families, EveryKeyIsDocumented) {
  const Loaded plugin(path_of(GetParam().plugin));
  const lamina_family_t& family = plugin.family(GetParam().family);
  for (std::uint32_t i = 0; i < family.keys.count; ++i) {
    const auto& key = static_cast<const lamina_key_t*>(family.keys.ptr)[i];
    EXPECT_TRUE(key.doc.len > 0 || (key.flags & LAMINA_KEY_IGNORED)) << copy(key.name);
  }
}

std::vector<std::pair<std::string, std::string>> problems_of(const lamina_family_t& family,
                                                             std::map<std::string, Value> values) {
  RecordingReply reply;
  const RecordingConfig config = configure(family, std::move(values));
  EXPECT_EQ(family.validate(family.user, &config, &reply), LAMINA_OK);
  return reply.problems;
}

TEST(Llama, WindowReachesAttentionAndItsState) {
  const Loaded plugin(path_of("llama"));
  auto values = small();
  values["sliding_window"] = std::int64_t{8};
  const RecordingBuild build = trace(plugin.family("llama2"), values);
  ASSERT_EQ(build.states.size(), 1u);
  EXPECT_EQ(build.states[0].kind, LAMINA_STATE_KV);
  EXPECT_EQ(build.states[0].dims, (std::vector<std::int64_t>{2, 20, 20}));
  EXPECT_EQ(build.states[0].window, 8);
}

TEST(Llama, HeadWidthIsDerived) {
  const Loaded plugin(path_of("llama"));
  auto values = small();
  values.erase("head_dim");
  const RecordingConfig config = configure(plugin.family("llama2"), values);
  EXPECT_EQ(config.values.at("head_dim"), Value(std::int64_t{12}));
}

TEST(Llama, HeadsThatDoNotDivideAreExplained) {
  const Loaded plugin(path_of("llama"));
  auto values = small();
  values["num_key_value_heads"] = std::int64_t{3};
  values["head_dim"] = std::int64_t{15};
  const auto problems = problems_of(plugin.family("llama2"), values);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].first, "num_key_value_heads");
  EXPECT_EQ(problems[0].second, "got 3; it must divide num_attention_heads = 4");
  EXPECT_EQ(problems[1].first, "head_dim");
  EXPECT_EQ(problems[1].second,
            "got 15 with hidden_size = 48 and num_attention_heads = 4; rotary positions need an "
            "even head_dim");
}

TEST(Llama, MistralHasAWindowByDefault) {
  const Loaded plugin(path_of("mistral")), llamas(path_of("llama"));
  const RecordingConfig mistral = configure(plugin.family("mistral"), small());
  const RecordingConfig llama = configure(llamas.family("llama2"), small());
  EXPECT_EQ(mistral.values.at("sliding_window"), Value(std::int64_t{4096}));
  EXPECT_EQ(llama.values.at("sliding_window"), Value(std::int64_t{0}));
}

// Also for a layer after the last, which predicts.
TEST(Gpt3, InverseLayerIndexUsesTheLayersIndex) {
  const Loaded plugin(path_of("gpt3"));
  auto values = small();
  auto asked = [&] { return trace(plugin.family("gpt3"), values).inputs; };
  EXPECT_THAT(asked(), Not(Contains(LAMINA_INPUT_LAYER_INDEX)));
  values["scale_attn_by_inverse_layer_idx"] = true;
  EXPECT_THAT(asked(), Contains(LAMINA_INPUT_LAYER_INDEX));
}

TEST(Gpt3, NormsMayHoldGainMinusOne) {
  const Loaded plugin(path_of("gpt3"));
  const lamina_family_t& family = plugin.family("gpt3");
  auto values = small();
  values["layer_norm_offset"] = 1.0;
  for (const Parameter& p : trace(family, values).params)
    EXPECT_TRUE(p.name != "ln_1.weight" || p.init_a == 0) << p.init_a;
  RecordingReply reply;
  const RecordingConfig config = configure(family, values);
  ASSERT_EQ(family.options(family.user, &config, &reply), LAMINA_OK);
  EXPECT_EQ(reply.norm.flags, LAMINA_NORM_BIAS);
  EXPECT_EQ(reply.head.flags, LAMINA_HEAD_TIED);
  EXPECT_EQ(reply.norm_attrs.at(2), Value(1.0));
  EXPECT_EQ(reply.embed.positions, LAMINA_POSITIONS_LEARNED);
  EXPECT_EQ(reply.embed.max_positions, 1024);
}

TEST(Options, NeedTheInterfacesThatTheyUse) {
  const Loaded plugin(path_of("llama"));
  const lamina_family_t& family = plugin.family("llama2");
  std::map<std::string, Value> values = small();
  values["num_nextn_predict_layers"] = std::int64_t{1};
  RecordingConfig config = configure(family, values);
  RecordingReply reply;
  EXPECT_EQ(family.options(family.user, &config, &reply), LAMINA_ERROR_UNSUPPORTED);
  EXPECT_EQ(reply.message, "this host has no interface 'lamina.mtp/1'; use a newer host");
}

TEST(PluginBorder, EntryIsFilledIn) {
  const Library library(path_of("llama"));
  const lamina_plugin_t& p = library.plugin();
  EXPECT_EQ(p.magic, LAMINA_PLUGIN_MAGIC);
  EXPECT_EQ(p.size, sizeof(lamina_plugin_t));
  EXPECT_EQ(p.abi_major, LAMINA_ABI_MAJOR);
  EXPECT_EQ(p.abi_built, LAMINA_ABI_MINOR);
  EXPECT_EQ(copy(p.id), "org.lamina.llama");
}

TEST(PluginBorder, ProblemsOfAPlanBecomeAStatus) {
  const Loaded plugin(path_of("llama"));
  const lamina_family_t& family = plugin.family("llama2");
  RecordingConfig config;  // declares nothing
  RecordingReply reply;
  EXPECT_EQ(family.plan(family.user, &config, &reply), LAMINA_ERROR_NOT_FOUND);
}

}  // namespace
}  // namespace lamina::testing
