// Models: published config.json files, model files, and keys declared at run time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "config/refusal.h"
#include "config/run_config.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::config {
namespace {

// Keys that a plugin might declare.
std::vector<Key> declared() {
  Key hidden_size{.name = "hidden_size", .aliases = {"n_embd"}, .type = Type::integer};
  hidden_size.min = 1;
  hidden_size.required = true;
  hidden_size.doc = "Width of the residual stream.";
  Key theta{.name = "rope_theta", .type = Type::number, .preset = Value(10000.0)};
  theta.min = 0;
  theta.min_excluded = true;
  Key factor{.name = "rope_scaling.factor", .type = Type::number, .preset = Value(1.0)};
  Key layers{.name = "engram_layers", .type = Type::list, .element = Type::integer};
  layers.min = 0;
  return {hidden_size, theta, factor, layers};
}

class ModelFiles : public ::testing::Test {
 protected:
  testing::TempDir folder_;
};

TEST_F(ModelFiles, Example) {
  folder_.write("hub/config.json", R"({"model_type": "simple", "architectures": ["Simple"],
      "hidden_size": 64, "rope_scaling": {"factor": 8}, "sliding_window": null, "use_cache": true})");
  ModelSource model = load_model(folder_ / "hub", {{"model.rope_theta=500000"}, {}});
  EXPECT_EQ(model.model_type, "simple");
  EXPECT_EQ(model.architectures, std::vector<std::string>{"Simple"});
  Resolved resolved = resolve_model(declared(), model.raw, model.where);
  EXPECT_EQ(resolved.values.integer("hidden_size"), 64);
  EXPECT_EQ(resolved.values.number("rope_scaling.factor"), 8.0);
  EXPECT_EQ(resolved.values.number("rope_theta"), 500000.0);
  EXPECT_EQ(resolved.values.where("hidden_size"), (folder_ / "hub/config.json") + ":2");
  ASSERT_EQ(resolved.unread.size(), 3u);  // model_type, architectures, use_cache; null is absent
  EXPECT_EQ(resolved.unread[2].key, "model.use_cache");
  ASSERT_EQ(model.raw.nulls.size(), 1u);  // for families in which null has a meaning
  EXPECT_EQ(model.raw.nulls[0].key, "model.sliding_window");
}

TEST_F(ModelFiles, TheFamilyIsNamedInTheHostsObject) {
  folder_.write("hub/config.json", R"({"model_type": "simple",
      "lamina": {"family": "twin", "x": 2}})");
  const ModelSource model = load_model(folder_ / "hub");
  EXPECT_EQ(model.family, "twin");
  EXPECT_EQ(model.family_where, (folder_ / "hub/config.json") + ":2");
  const auto has = [](const ModelSource& one, const char* key) {
    return std::ranges::find(one.raw.entries, key, &RawEntry::key) != one.raw.entries.end();
  };
  EXPECT_FALSE(has(model, "model.lamina.family"));
  EXPECT_TRUE(has(model, "model.lamina.x"));
  const ModelSource other = load_model(folder_ / "hub", {{"family=simple"}, {}});
  EXPECT_EQ(other.family, "simple");
  EXPECT_EQ(other.family_where, "--set family=simple");
  EXPECT_FALSE(has(other, "model.lamina.family"));
}

TEST_F(ModelFiles, AFamilyOfNullIsNone) {
  folder_.write("hub/config.json", R"({"model_type": "simple",
      "lamina": {"family": null, "x": null}})");
  const ModelSource model = load_model(folder_ / "hub");
  EXPECT_EQ(model.family, "");
  EXPECT_EQ(model.model_type, "simple");
  ASSERT_EQ(model.raw.nulls.size(), 1u);
  EXPECT_EQ(model.raw.nulls[0].key, "model.lamina.x");
}

// Training writes a changed key into text_config.
TEST_F(ModelFiles, TheHostsObjectInsideAWrapperLeavesTheOneOutside) {
  folder_.write("hub/config.json", R"({"text_config": {"lamina": {"a": 1}},
      "lamina": {"a": 2, "b": 3, "family": "twin"}})");
  const ModelSource model = load_model(folder_ / "hub");
  EXPECT_EQ(model.family, "twin");
  std::vector<std::string> keys;
  for (const RawEntry& entry : model.raw.entries)
    keys.push_back(fmt::format("{} = {}", entry.key, to_toml(entry.value)));
  EXPECT_EQ(keys, (std::vector<std::string>{"model.lamina.a = 1", "model.lamina.b = 3"}));
}

TEST_F(ModelFiles, KeysOfTheLanguageModelInAWrapper) {
  folder_.write("hub/config.json", R"({"model_type": "both", "architectures": ["Both"],
      "hidden_size": 99, "rope_theta": 5, "rope_scaling": {"factor": 2}, "image_token_id": 7,
      "text_config": {"model_type": "text", "hidden_size": 64, "rope_scaling": null},
      "vision_config": {"hidden_size": 32}})");
  ModelSource model = load_model(folder_ / "hub");
  EXPECT_EQ(model.model_type, "both");
  EXPECT_EQ(model.text_model_type, "text");
  EXPECT_EQ(model.architectures, std::vector<std::string>{"Both"});
  Resolved resolved = resolve_model(declared(), model.raw, model.where);
  EXPECT_EQ(resolved.values.integer("hidden_size"), 64);
  EXPECT_EQ(resolved.values.where("hidden_size"), (folder_ / "hub/config.json") + ":3");
  EXPECT_EQ(resolved.values.number("rope_theta"), 10000.0);       // ignored here
  EXPECT_EQ(resolved.values.number("rope_scaling.factor"), 1.0);  // null inside counts
  std::vector<std::string> unread;
  for (const RawEntry& entry : resolved.unread) unread.push_back(entry.key);
  EXPECT_EQ(unread,
            (std::vector<std::string>{
                "model.model_type", "model.architectures", "model.outside_text_config.rope_theta",
                "model.outside_text_config.image_token_id", "model.text_config.model_type",
                "model.outside_text_config.vision_config.hidden_size"}));
}

TEST_F(ModelFiles, TheLanguageModelOfAThinker) {
  folder_.write("hub/config.json", R"({"model_type": "speaks",
      "talker_config": {"text_config": {"hidden_size": 8}},
      "thinker_config": {"model_type": "thinks", "text_config":
          {"model_type": "text", "hidden_size": 64, "rope_scaling": {"factor": 3}}}})");
  ModelSource model = load_model(folder_ / "hub");
  EXPECT_EQ(model.model_type, "speaks");
  EXPECT_EQ(model.text_model_type, "text");
  Resolved resolved = resolve_model(declared(), model.raw, model.where);
  EXPECT_EQ(resolved.values.integer("hidden_size"), 64);
  EXPECT_EQ(resolved.values.number("rope_scaling.factor"), 3.0);
}

TEST_F(ModelFiles, TheHeadOfAWrapperIsTiedAsTheWrapperSays) {
  const Key tied{.name = "tie_word_embeddings", .type = Type::boolean};
  auto read = [&](const std::string& json) {
    std::string file = folder_.write("config.json", json);
    ModelSource model = load_model(file);
    return resolve_model({tied}, model.raw, file).values.boolean("tie_word_embeddings");
  };
  EXPECT_FALSE(
      read(R"({"tie_word_embeddings": false, "text_config": {"tie_word_embeddings": true}})"));
  EXPECT_TRUE(read(R"({"text_config": {"tie_word_embeddings": true}})"));
}

TEST_F(ModelFiles, AnAliasMayStandForSeveralNamesThatAgree) {
  Key width{.name = "global_head_dim", .aliases = {"per_layer.*.head_dim"}, .type = Type::integer};
  auto read = [&](const std::string& json) {
    std::string file = folder_.write("config.json", json);
    ModelSource model = load_model(file);
    return resolve_model({width}, model.raw, file).values.integer("global_head_dim");
  };
  EXPECT_EQ(read(R"({"per_layer": {"5": {"head_dim": 32}, "6": {"head_dim": 32}}})"), 32);
  EXPECT_EQ(read(R"({"per_layer": {"5": {"head_dim": 32}}, "global_head_dim": 16})"), 16);
  EXPECT_ERROR_SAYS(
      read("{\"per_layer\": {\"5\": {\"head_dim\": 32},\n\"6\": {\"head_dim\": 16}}}"),
      ExitCode::usage,
      (folder_ / "config.json") +
          ":2: 'per_layer.6.head_dim' is 16, but 'per_layer.5.head_dim' is 32; they must be equal\n"
          "  the other value is at " +
          (folder_ / "config.json") + ":1");
}

TEST_F(ModelFiles, RunFileOverridesTheModelItNames) {
  folder_.write("models/m.toml",
                "family = \"simple\"\n[model]\nhidden_size = 64\nrope_theta = 5\n");
  std::string run = folder_.write("train/r.toml",
                                  "[model]\npath = \"../models/m.toml\"\nrope_theta = 6\n"
                                  "[data]\ntrain = \"a.txt\"\n");
  RunConfig c = load_run(run);
  EXPECT_EQ(c.model.family, "simple");
  EXPECT_EQ(c.model.path, folder_ / "models/m.toml");
  Resolved resolved = resolve_model(declared(), c.model.raw, c.model.where);
  EXPECT_EQ(resolved.values.integer("hidden_size"), 64);
  EXPECT_EQ(resolved.values.number("rope_theta"), 6.0);
}

TEST_F(ModelFiles, ModelAtTheTopIsShortForItsPath) {
  folder_.write("m.toml", "family = \"simple\"\n[model]\nhidden_size = 64\n");
  std::string run = folder_.write("r.toml", "model = \"m.toml\"\n[data]\ntrain = \"a.txt\"\n");
  EXPECT_EQ(load_run(run).model.path, folder_ / "m.toml");
  EXPECT_EQ(load_run(run, {{"model=" + (folder_ / "m.toml")}, {}}).model.family, "simple");
}

TEST_F(ModelFiles, UnknownModelKeyIsRefusedWithSuggestion) {
  std::string path = folder_.write("m.toml", "family = \"simple\"\n[model]\nhiden_size = 64\n");
  ModelSource model = load_model(path);
  EXPECT_USER_ERROR(resolve_model(declared(), model.raw, model.where), 2,
                    path +
                        ":3: unknown key 'model.hiden_size'\n"
                        "  did you mean 'model.hidden_size'?\n"
                        "  also: " +
                        path +
                        ": missing key 'model.hidden_size'\n"
                        "    Width of the residual stream.");
}

TEST_F(ModelFiles, WrongValueInJsonIsNamedAsTheFileNamesIt) {
  std::string path = folder_.write("config.json", "{\n\"hidden_size\": \"big\"}");
  ModelSource model = load_model(path);
  EXPECT_USER_ERROR(
      resolve_model(declared(), model.raw, model.where), 2,
      path + ":2: 'hidden_size' must be an integer, at least 1, got \"big\" (a string)");
}

TEST_F(ModelFiles, EveryElementOfAListIsChecked) {
  std::string path = folder_.write("m.toml", "[model]\nhidden_size = 8\nengram_layers = [1, -2]\n");
  ModelSource model = load_model(path);
  EXPECT_USER_ERROR(resolve_model(declared(), model.raw, model.where), 2,
                    path + ":3: 'model.engram_layers[1]' must be an integer, at least 0, got -2");
}

TEST_F(ModelFiles, KeysOfAnotherKindAreRefusedInJson) {
  auto configure = [&](const std::string& members) {
    std::string file = folder_.write("config.json", "{\"hidden_size\": 8, " + members + "}");
    return resolve_model(declared(), load_model(file).raw, file).values;
  };
  const Refusal cases[] = {
      {R"("rope_scaling": "yarn")",
       "config.json:1: 'rope_scaling' must be an object, got \"yarn\" (a string)\n"
       "  an object with keys such as 'rope_scaling.factor'"},
      {R"("rope_scaling": true)", "'rope_scaling' must be an object, got true (a boolean)"},
      {R"("rope_scaling": -1)", "'rope_scaling' must be an object, got -1 (an integer)"},
      {R"("rope_scaling": [])", "'rope_scaling' must be an object, got [] (a list)"},
      {R"("rope_scaling": [{}])",
       "'rope_scaling' must be an object, got a list that contains nulls or objects"},
      {R"("rope_scaling": {"factor": {}})",
       "'rope_scaling.factor' must be a number, got an object"},
      {R"("rope_theta": {})", "'rope_theta' must be a number, greater than 0, got an object"},
      {R"("rope_theta": [null])",
       "'rope_theta' must be a number, greater than 0, got a list that contains nulls or objects"},
      {R"("engram_layers": {"0": 1})",
       "'engram_layers' must be a list of integers, each at least 0, got an object"},
      {R"("engram_layers": [1, null])", "'engram_layers' must be a list of integers"},
      {R"("text_config": {"rope_scaling": 3})", "'rope_scaling' must be an object, got 3"},
      {R"("text_config": {"rope_theta": {}})", "'rope_theta' must be a number"},
  };
  for (const Refusal& c : cases) {
    SCOPED_TRACE(c.text);
    EXPECT_ERROR_SAYS(configure(c.text), 2, c.says);
  }
  // Keys that identify the family are read with the file, whose errors have its code.
  const Refusal identities[] = {
      {R"("model_type": {})", "'model_type' must be a string, got an object"},
      {R"("model_type": 3)", "'model_type' must be a string, got 3 (an integer)"},
      {R"("architectures": [{}])", "'architectures' must be a list of strings"},
      {R"("text_config": "x")", "'text_config' must be an object, got \"x\" (a string)"},
  };
  for (const Refusal& c : identities) {
    SCOPED_TRACE(c.text);
    EXPECT_ERROR_SAYS(configure(c.text), 4, c.says);
  }
  // Values that are never read may be anything, and null means absent.
  EXPECT_EQ(configure(R"("rope_scaling": null, "rope_theta": null, "quantization_config": {},
      "task_specific_params": {"a": [{}, null]}, "id2label": [[]])")
                .number("rope_theta"),
            10000.0);
}

TEST_F(ModelFiles, VariablesOfRunsAreCheckedForModelsToo) {
  const std::string file =
      folder_.write("m.toml", "family = \"simple\"\n[model]\nhidden_size = 8\n");
  auto load = [&](const char* variable) { return load_model(file, {{}, {variable}}); };
  EXPECT_EQ(load("LAMINA_TRAIN__STEPS=10").raw.entries.size(), 1u);
  EXPECT_ERROR_SAYS(
      load("LAMINA_TRAIN__STPES=10"), 2,
      "LAMINA_TRAIN__STPES: unknown key 'train.stpes'\n  did you mean 'train.steps'?");
  EXPECT_ERROR_SAYS(load("LAMINA_TRAIN__STEPS=x"), 2, "'train.steps' must be an integer");
  EXPECT_ERROR_SAYS(load("LAMINA_NOWHERE__STEPS=1"), 2, "unknown key 'nowhere.steps'");
}

TEST_F(ModelFiles, AKeyOfRunFilesIsNamedAsOne) {
  const std::string file =
      folder_.write("m.toml", "family = \"simple\"\n[model]\nhidden_size = 8\n");
  EXPECT_USER_ERROR(load_model(file, {{"optimizer.lr=1"}, {}}), ExitCode::usage,
                    "--set optimizer.lr=1: unknown key 'optimizer.lr'\n"
                    "  a key of run files; without one, only keys of the model can be set: "
                    "model.KEY");
}

TEST_F(ModelFiles, AnotherModelCannotBeSet) {
  const std::string file =
      folder_.write("m.toml", "family = \"simple\"\n[model]\nhidden_size = 8\n");
  for (const char* set : {"model=other", "model.path=other"})
    EXPECT_USER_ERROR(load_model(file, {{set}, {}}), 2,
                      std::string("--set ") + set +
                          ": sets the model of a run file, but the command has a model\n"
                          "  give the command the other model, or set keys of this one: model.KEY");
  EXPECT_ERROR_SAYS(load_model(file, {{}, {"LAMINA_MODEL__PATH=other"}}), 2,
                    "LAMINA_MODEL__PATH: sets the model of a run file, but ");
}

TEST_F(ModelFiles, AliasIsTheSameKey) {
  std::string path = folder_.write("config.json", R"({"n_embd": 32})");
  ModelSource model = load_model(path, {{"model.hidden_size=48"}, {}});
  EXPECT_EQ(resolve_model(declared(), model.raw, "").values.integer("hidden_size"), 48);
  EXPECT_EQ(resolve_model(declared(), load_model(path).raw, "").values.integer("hidden_size"), 32);
}

TEST_F(ModelFiles, OneFileMayNotUseTwoNamesOfOneKey) {
  std::string path = folder_.write("m.toml", "[model]\nhidden_size = 8\nn_embd = 8\n");
  ModelSource model = load_model(path);
  EXPECT_USER_ERROR(resolve_model(declared(), model.raw, ""), 2,
                    path +
                        ":3: 'model.hidden_size' and 'model.n_embd' are names of the same key; "
                        "keep one\n"
                        "  the other is at " +
                        path + ":2");
}

TEST_F(ModelFiles, PublishedConfigPrefersTheMainName) {
  std::string path = folder_.write("config.json", R"({"hidden_size": 8, "n_embd": 9})");
  EXPECT_EQ(resolve_model(declared(), load_model(path).raw, "").values.integer("hidden_size"), 8);
}

TEST_F(ModelFiles, MissingModelSaysWhereItWasNamed) {
  std::string run = folder_.write("r.toml", "model = \"m.toml\"\n[data]\ntrain = \"a.txt\"\n");
  EXPECT_USER_ERROR(load_run(run), 2,
                    (folder_ / "m.toml") +
                        ": no such model file or directory\n"
                        "  named at " +
                        run + ":1");
}

TEST_F(ModelFiles, FolderWithoutConfigIsRefused) {
  EXPECT_USER_ERROR(load_model(folder_.path()), 4,
                    folder_.path() + ": has no config.json: not a model directory");
}

TEST_F(ModelFiles, RunWithoutModelIsRefused) {
  std::string run = folder_.write("r.toml", "[data]\ntrain = \"a.txt\"\n");
  EXPECT_USER_ERROR(load_run(run), 2,
                    run +
                        ": the model is missing\n"
                        "  set model = \"DIR or FILE.toml\", or family = \"...\" and [model]");
}

TEST_F(ModelFiles, ModelFileCannotReferToAnother) {
  std::string path = folder_.write("m.toml", "model = \"other.toml\"\n");
  EXPECT_USER_ERROR(load_model(path), 2, path + ":1: a model file cannot refer to another model");
}

TEST_F(ModelFiles, AFileThatRefersToAModelIsARunFile) {
  EXPECT_TRUE(is_run_file(folder_.write("short.toml", "model = \"other.toml\"\n")));
  EXPECT_TRUE(is_run_file(folder_.write("long.toml", "[model]\npath = \"other.toml\"\n")));
  EXPECT_FALSE(is_run_file(folder_.write("m.toml", "[model]\nhidden_size = 8\n")));
}

TEST_F(ModelFiles, UnreadIntegersMayHaveAnySize) {
  for (const std::string number :
       {"9223372036854775808", "18446744073709551615", "1000000000000000000000000000000"}) {
    const std::string file =
        folder_.write("config.json", R"({"hidden_size": 4, "odd": )" + number + "}");
    const ModelSource model = load_model(file);
    EXPECT_EQ(resolve_model(declared(), model.raw, file).values.integer("hidden_size"), 4);
    folder_.write("config.json", R"({"hidden_size": )" + number + "}");
    const ModelSource wide = load_model(file);
    EXPECT_ERROR_SAYS(resolve_model(declared(), wide.raw, file), 2,
                      "'hidden_size' must be an integer");
  }
}

}  // namespace
}  // namespace lamina::config
