// Wrong values in the config.json of a model, in the metadata of a GGUF file, and in settings.
#include "errors/workplace.h"
#include "support/gguf_conversion.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

// A golden model in the folder "m", whose config.json changes.
class PublishedConfig : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path from = golden_model("llama3_gqa");
    fs::create_directory(w_.path("m"));
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy(from / name, w_.path("m") / name);
      fs::permissions(w_.path("m") / name, fs::perms::owner_all);
    }
    config_ = w_.read("m/config.json");
  }

  void write_config(const std::string& key, const std::string& value) const {
    const std::string quoted = "\"" + key + "\": ";
    std::string changed = config_;
    if (const std::size_t at = config_.find(quoted); at == config_.npos)
      changed.insert(changed.find('{') + 1, quoted + value + ",");
    else
      changed.replace(at + quoted.size(),
                      config_.find_first_of(",\n}", at + quoted.size()) - at - quoted.size(),
                      value);
    w_.write("m/config.json", changed);
  }

  Workplace w_;
  std::string config_;
};

TEST_F(PublishedConfig, WrongValuesHaveTheCodeOfModels) {
  const struct {
    const char *key, *value, *says;
  } cases[] = {
      {"hidden_act", "\"foo\"", "'hidden_act' must be \"silu\""},
      {"vocab_size", "0", "'vocab_size' must be an integer, at least 1, got 0"},
      {"rms_norm_eps", "\"x\"", "'rms_norm_eps' must be a number"},
      {"num_key_value_heads", "5", "got 5; it must divide num_attention_heads = 4"},
      {"head_dim", "7", "'head_dim': got 7 with hidden_size = 48"},
      {"model_type", "5", "'model_type' must be a string, got 5"},
      {"tie_word_embeddings", "3", "'tie_word_embeddings' must be true or false, got 3"},
      {"path", "5", "'path' must be a string, got 5"},
      {"lamina", R"({"attention_type": "chunk"})", "'chunk_attn_window_size' is not given"},
      {"lamina", R"({"partial_rotary_factor": 0.01})", "model.partial_rotary_factor: "},
      {"lamina", R"({"ffn_scale": 4.0})", "'lamina.ffn_scale' changes the model, but family"},
      {"lamina", R"({"rms_norm_eps": 1e-5})",
       "'lamina.rms_norm_eps' has no effect: family 'llama2' reads 'rms_norm_eps' outside of"},
      {"lamina", R"({"family": 5})", "'lamina.family' must be a string, got 5"},
  };
  for (const auto& c : cases) {
    write_config(c.key, c.value);
    w_.expect({{"decode", "-m", "m", "--ids", "1"}, 4, {"m/config.json:", c.says}});
    w_.expect({{"plan", "m"}, 4, {"m/config.json:", c.says}});
  }
  write_config("lamina", R"({"family": null})");
  EXPECT_EQ(w_.lamina({"plan", "m"}).code, 0);
  w_.write("m/config.json", "{}");
  w_.expect({{"decode", "-m", "m", "--ids", "1"},
             4,
             {"m/config.json: contains no family", "\"model_type\""}});
}

TEST_F(PublishedConfig, ABaseThatYarnCannotStretchHasItsPlace) {
  w_.write("m/config.json", R"({"model_type": "llama", "vocab_size": 149, "hidden_size": 48,
      "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "rope_theta": 1.0, "rope_scaling": {"rope_type": "yarn", "factor": 2.0}})");
  w_.expect({{"plan", "m"},
             4,
             {"m/config.json:3: 'rope_theta' is 1; yarn needs another base, because the powers of "
              "1 are equal\n  rope_scaling.rope_type is given at m/config.json:3"}});
}

// A family names the keys of its declaration in a text; the file may call them otherwise.
TEST_F(PublishedConfig, PlacesOfAllKeysInATextAreNamed) {
  write_config("num_attention_heads", "7");
  w_.expect({{"plan", "m"},
             4,
             {"m/config.json:16: 'head_dim': expected a value, because num_attention_heads = 7",
              "\n  hidden_size is given at m/config.json:10\n",
              "also: m/config.json:18: 'num_key_value_heads': got 2; it must divide "
              "num_attention_heads = 7\n    num_attention_heads is given at m/config.json:16\n"}});
  w_.write("m/config.json", R"({"model_type": "gpt2", "vocab_size": 149, "n_embd": 48,
                               "n_layer": 2,
                               "n_head": 7})");
  w_.expect({{"plan", "m"},
             4,
             {"m/config.json:3: 'num_attention_heads': got 7, which does not divide hidden_size = "
              "48",
              "\n  num_attention_heads is given as 'n_head' at m/config.json:3\n",
              "\n  hidden_size is given as 'n_embd' at m/config.json:1\n"}});
  w_.write("m/config.json", R"({"model_type": "gpt2", "n_layer": 2, "n_head": 7})");
  w_.expect({{"plan", "m"},
             4,
             {"m/config.json: missing key 'vocab_size'",
              "also: m/config.json: missing key 'hidden_size' or 'n_embd'"}});
}

TEST_F(PublishedConfig, ASettingIsTheCauseIfTheFileIsRight) {
  w_.expect({{"plan", "m", "--set", "model.num_attention_heads=7"},
             2,
             {"error: --set model.num_attention_heads=7: 'head_dim': expected a value",
              "also: --set model.num_attention_heads=7: 'num_key_value_heads': got 2",
              "num_key_value_heads is given at m/config.json:18"}});
}

// The architecture chooses the family; a contradiction is logged once.
TEST_F(PublishedConfig, AnUnknownModelTypeIsNamed) {
  write_config("model_type", "\"foo\"");
  const Finished f = w_.lamina({"plan", "m"});
  EXPECT_EQ(f.code, 0) << f.err;
  const std::string says = "'model_type' is 'foo', which family 'llama2' does not have";
  EXPECT_THAT(f.err, HasSubstr(says));
  EXPECT_EQ(f.err.find(says), f.err.rfind(says));
}

TEST_F(PublishedConfig, WrongSettingsHaveTheCodeOfCommandLines) {
  for (const auto& [setting, says] : {
           std::pair{"model.num_key_value_heads=5", "got 5; it must divide num_attention_heads"},
           std::pair{"model.hidden_act=foo", "'model.hidden_act' must be"},
           std::pair{"model.vocab_size=0", "'model.vocab_size' must be"},
           std::pair{"model.attention_type=chunk", "'chunk_attn_window_size' is not given"},
           std::pair{"model.partial_rotary_factor=0.01", "model.partial_rotary_factor: "},
       })
    w_.expect({{"plan", "m", "--set", setting}, 2, {std::string("--set ") + setting, says}});
  w_.write("tuned.toml",
           "model = { path = \"m\", num_key_value_heads = 5 }\n"
           "data = { train = [\"text.txt\"], tokenizer = \"byte\" }\n");
  w_.expect({{"train", "tuned.toml"}, 2, {"tuned.toml:1: ", "it must divide"}});
}

TEST_F(PublishedConfig, ASettingDoesNotExcuseTheFile) {
  write_config("num_key_value_heads", "5");
  w_.expect({{"plan", "m", "--set", "model.dropout_rate=0.1"}, 4, {"m/config.json:"}});
  w_.write("tuned.toml",
           "model = { path = \"m\" }\ndata = { train = [\"text.txt\"], tokenizer = \"byte\" }\n");
  w_.expect({{"train", "tuned.toml"}, 4, {"m/config.json:", "it must divide"}});
}

TEST_F(PublishedConfig, MetadataIsNamedAsTheFileNamesIt) {
  const struct {
    const char *key, *value, *says;
  } cases[] = {
      {"num_hidden_layers", "0", "m.gguf: llama.block_count: 'num_hidden_layers' must be"},
      {"max_position_embeddings", "0",
       "m.gguf: llama.context_length: 'max_position_embeddings' must be"},
      {"num_attention_heads", "3", "m.gguf: llama.attention.head_count_kv: 'num_key_value_heads'"},
      {"rms_norm_eps", "-1.0",
       "m.gguf: llama.attention.layer_norm_rms_epsilon: 'rms_norm_eps' must be"},
  };
  for (const auto& c : cases) {
    write_config(c.key, c.value);
    GgufConversion file(w_.path("m"), "llama");
    file.common_keys().copy_count("feed_forward_length", "intermediate_size").outer_tensors();
    w_.write("m.gguf", file.gguf.bytes());
    w_.expect({{"decode", "-m", "m.gguf", "--ids", "1"}, 4, {c.says}});
  }
  write_config("num_attention_heads", "3");
  GgufConversion odd(w_.path("m"), "llama");
  odd.common_keys().copy_count("feed_forward_length", "intermediate_size").outer_tensors();
  w_.write("odd.gguf", odd.gguf.bytes());
  w_.expect({{"plan", "odd.gguf"},
             4,
             {"num_attention_heads is given at odd.gguf: llama.attention.head_count\n"}});
  w_.expect(
      {{"plan", "m.gguf", "--set", "model.rms_norm_eps=1e-5", "--set", "model.num_hidden_layers=0"},
       2,
       {"--set model.num_hidden_layers=0"}});
}

// The key of biases is for queries, keys, values and the output together.
TEST_F(PublishedConfig, BiasesWithoutAnOutputBiasAreRefused) {
  GgufConversion file = as_llama(w_.path("m"));
  file.layers(kFeedForwardNames);
  for (const auto& [name, width] : {std::pair{"q", 48}, {"k", 24}, {"v", 24}})
    for (int layer = 0; layer < 3; ++layer)
      file.gguf.tensor(fmt::format("blk.{}.attn_{}.bias", layer, name), {width},
                       Floats(static_cast<std::size_t>(width), 1.f));
  w_.write("m.gguf", file.gguf.bytes());
  w_.expect({{"decode", "-m", "m.gguf", "--ids", "1"},
             4,
             {"m.gguf: 9 tensors that family 'llama2' does not use, eg '",
              "\n  a model of this metadata has no such tensors; use the safetensors files"}});
}

}  // namespace
}  // namespace lamina::testing
