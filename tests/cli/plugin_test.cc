// lamina plugin: output, refusals and exit codes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/json.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/sanitizers.h"
#include "support/temp_dir.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::run_process;
using lamina::testing::run_shell;
using lamina::testing::TempDir;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTiny = LAMINA_BUILD_DIR "/tests/registry/zoo/tiny.lamina.so";

// Searches for plugins in `folder` first, then in the program's folder.
Finished plugin(const TempDir& folder, std::vector<std::string> words) {
  words.insert(words.begin(), {LAMINA_BUILD_DIR "/bin/lamina", "plugin"});
  return run_process(words, {.environment = {"LAMINA_PLUGIN_PATH=" + folder.path()}});
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(PluginList, ShowsFamiliesAndUnusableFiles) {
  const TempDir folder;
  folder.write("tiny.lamina.so", bytes_of(kTiny));
  folder.write("cut.lamina.so", bytes_of(kTiny).substr(0, 5000));
  const Finished result = plugin(folder, {"list"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, ContainsRegex("tiny +org.example.tiny +1.0 +0[.]"));
  EXPECT_THAT(result.out, HasSubstr("unusable:\n  "));
  EXPECT_THAT(result.out, HasSubstr("cut.lamina.so: file has 5,000 bytes, but its "));
}

TEST(PluginList, JsonHasTheSameFacts) {
  const TempDir folder;
  folder.write("tiny.lamina.so", bytes_of(kTiny));
  const JsonDocument json = JsonDocument::parse(plugin(folder, {"list", "--json"}).out, "stdout");
  const JsonValue first = *json.root().at("plugins").elements().begin();
  EXPECT_EQ(first.at("id").as_string(), "org.example.tiny");
  EXPECT_EQ((*first.at("families").elements().begin()).at("name").as_string(), "tiny");
  EXPECT_EQ(json.root().at("unusable").size(), 0u);
}

TEST(PluginList, NamesTheSearchedFoldersIfItFindsNone) {
  const TempDir folder;
  std::filesystem::create_directories(folder.path() + "/bin");
  const std::string program = folder.path() + "/bin/lamina";
  std::filesystem::copy_file(LAMINA_BUILD_DIR "/bin/lamina", program);
  const Finished result = run_process(
      {program, "plugin", "list"},
      {.environment = {"LAMINA_PLUGIN_PATH=" + folder.path(), "XDG_DATA_HOME=" + folder.path()}});
  EXPECT_EQ(result.code, 0);
  const std::string real = std::filesystem::canonical(folder.path()).string();
  EXPECT_EQ(result.out, "no plugins in: " + folder.path() + ", " + folder.path() +
                            "/lamina/plugins, " + real + "/lib/lamina/plugins\n");
}

const std::string kOwnSignals = "handle_segv=0:handle_sigfpe=0:handle_abort=0:use_sigaltstack=0";

// `lamina plan` of a model of the tiny family whose block has the given fault.
Finished plan_with_fault(int fault, const std::vector<std::string>& options = {}) {
  const TempDir folder;
  const std::string model = folder.write(
      "tiny.toml", fmt::format("family = \"tiny\"\n[model]\nvocab_size = 11\nhidden_size = 8\n"
                               "num_hidden_layers = 3\nfault = {}\n",
                               fault));
  std::vector<std::string> words = {LAMINA_BUILD_DIR "/bin/lamina", "plan", model, "--plugin",
                                    kTiny};
  words.insert(words.end(), options.begin(), options.end());
  // A sanitizer leaves these signals to the program.
  return run_process(
      words, {.environment = {"ASAN_OPTIONS=" + kOwnSignals, "TSAN_OPTIONS=" + kOwnSignals}});
}

TEST(PluginDeath, NamesPluginFamilyAndFunctionAndExitsWith8) {
  static constexpr std::pair<int, const char*> kDeaths[] = {{50, " died: aborted\n"},
                                                            {51, " called exit()\n"},
                                                            {52, " died: segmentation fault\n"},
                                                            {53, " died: segmentation fault\n"},
                                                            {54, " died: arithmetic exception\n"},
                                                            {70, " called _exit()\n"},
                                                            {71, " called _Exit()\n"},
                                                            {72, " called quick_exit()\n"}};
  for (const auto& [fault, how] : kDeaths) {
    SCOPED_TRACE(fault);
    const Finished result = plan_with_fault(fault);
    EXPECT_EQ(result.code, 8);
    EXPECT_THAT(result.err, HasSubstr("error: plugin 'org.example.tiny' 1.0, family 'tiny' ("));
    EXPECT_THAT(result.err, HasSubstr("): its build of block 'layer'" + std::string(how)));
  }
}

TEST(PluginDeath, ACallThatDoesNotReturnIsNamed) {
  EXPECT_THAT(plan_with_fault(55).err,
              HasSubstr("its build of block 'layer' has not returned for 5 "
                        "seconds; Ctrl-C ends it"));
}

// Standard output contains only the program's output, here its error: tiny maps no tensors.
TEST(PluginOutput, IsOnStderr) {
  const Finished result = plan_with_fault(73, {"--json"});
  const JsonDocument json = JsonDocument::parse(result.out, "stdout");
  EXPECT_EQ(json.root().at("error").at("code").as_int64(), 8);
  EXPECT_THAT(result.err, HasSubstr("tiny is built\n"));
}

TEST(PluginInspect, ShowsFileBlocksAndKeys) {
  const TempDir folder;
  const Finished result = plugin(folder, {"inspect", kTiny});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("exports     lamina_plugin_v0\n"));
  EXPECT_THAT(result.out, HasSubstr("blocks         layer\n"));
  EXPECT_THAT(result.out, HasSubstr("hidden_size = required"));
}

TEST(PluginInspect, TakesTheNameOfAFamilyAPluginOrAFile) {
  const TempDir folder;
  folder.write("file.lamina.so", bytes_of(kTiny));
  for (const char* name : {"tiny", "tiny_alias", "org.example.tiny", "file"}) {
    const Finished result = plugin(folder, {"inspect", name, "--json"});
    EXPECT_EQ(result.code, 0) << name << result.err;
    const JsonDocument json = JsonDocument::parse(result.out, "stdout");
    EXPECT_EQ(json.root().at("id").as_string(), "org.example.tiny");
  }
}

TEST(PluginInspect, ShowsOneFamilyOfAFile) {
  const TempDir folder;
  const std::string llama = LAMINA_BUILD_DIR "/lib/lamina/plugins/llama.lamina.so";
  const Finished result = plugin(folder, {"inspect", llama, "llama4"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nfamily llama4\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("\nfamily llama2\n")));
  const Finished wrong = plugin(folder, {"inspect", llama, "llama9"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr(": the plugin has no family 'llama9'\n  there are: "));
}

TEST(PluginCheck, AMissingFileIsOneError) {
  const TempDir folder;
  const std::string file = folder / "none.lamina.so";
  const Finished missing = plugin(folder, {"check", file});
  EXPECT_EQ(missing.code, 8);
  EXPECT_EQ(missing.out, "");
  EXPECT_EQ(missing.err, "error: " + file + ": no such file\n  check the path\n");
  EXPECT_THAT(plugin(folder, {"check", folder.path() + "/"}).err, HasSubstr("is a directory"));
}

TEST(PluginCheck, RefusesAFamilyThatThePluginLacks) {
  const TempDir folder;
  const std::string llama = LAMINA_BUILD_DIR "/lib/lamina/plugins/llama.lamina.so";
  for (const std::string& what : {std::string("llama2"), llama}) {
    const Finished wrong = plugin(folder, {"check", what, "--only", "FIL-1", "--family", "llama9"});
    EXPECT_EQ(wrong.code, 2);
    EXPECT_EQ(wrong.out, "");
    EXPECT_THAT(wrong.err, HasSubstr(": the plugin has no family 'llama9'\n  its manifest lists "));
  }
}

TEST(PluginCheck, RefusesAModelOfAnotherFamilyThanTheCheckedOne) {
  const TempDir folder;
  const std::string llama = LAMINA_BUILD_DIR "/lib/lamina/plugins/llama.lamina.so";
  const std::string model =
      folder.write("four.toml", "family = \"llama4\"\n[model]\nvocab_size = 5\n");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"llama2"}, {llama, "--family", "llama2"}}) {
    std::vector<std::string> all = {"check"};
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), {"--only", "FIL-1", "--model", model});
    const Finished wrong = plugin(folder, all);
    EXPECT_EQ(wrong.code, 2);
    EXPECT_EQ(wrong.out, "");
    EXPECT_THAT(wrong.err,
                HasSubstr("is a model of family 'llama4', but only family 'llama2' is checked\n"
                          "  check family 'llama4', or llama.lamina.so with all its families\n"));
  }
  EXPECT_EQ(plugin(folder, {"check", llama, "--only", "FIL-1", "--model", model}).code, 0);
}

TEST(PluginCheck, ReadsTheFamilyFromAConfigJson) {
  const TempDir folder;
  const auto with = [&](const std::string& name, const std::string& members) {
    folder.write(name + "/config.json",
                 "{" + members +
                     R"("vocab_size": 61, "hidden_size": 24, "intermediate_size": 36,)"
                     R"("num_hidden_layers": 2, "num_attention_heads": 4})");
    return folder / name;
  };
  const auto check = [&](const char* family, const std::string& model) {
    return plugin(folder, {"check", family, "--only", "PLN-1", "--model", model});
  };
  const std::string llama =
      with("llama", R"("model_type": "llama", "architectures": ["LlamaForCausalLM"],)");
  const Finished right = check("llama2", llama);
  EXPECT_EQ(right.code, 0) << right.out << right.err;
  EXPECT_THAT(check("llama4", llama).err, HasSubstr("is a model of family 'llama2', but only family"
                                                    " 'llama4' is checked\n"));
  const Finished other = check("llama2", with("other", R"("model_type": "other",)"));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("is a model of model_type 'other' and architecture none, which "
                                   "llama.lamina.so does not read\n  its manifest lists "));
  const Finished silent = check("llama2", with("silent", ""));
  EXPECT_EQ(silent.code, 2);
  EXPECT_THAT(silent.err, HasSubstr("does not name its family; expected 'family' in a .toml file, "
                                    "'model_type' or 'architectures' in a config.json\n"));
}

TEST(PluginInspect, RefusesATruncatedFileAndAnUnknownNameWithEight) {
  const TempDir folder;
  const std::string cut = folder.write("cut.lamina.so", bytes_of(kTiny).substr(0, 5000));
  Finished result = plugin(folder, {"inspect", cut});
  EXPECT_EQ(result.code, 8);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("error: " + cut + ": file has 5,000 bytes, but its "));
  result = plugin(folder, {"inspect", "lama"});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("no plugin has family 'lama'; found: "));
  EXPECT_THAT(result.err, HasSubstr("could not read " + cut));
}

// `lamina plugin new my_family` makes a folder that is easily taken for the plugin.
TEST(PluginInspect, SaysThatAFolderOrAnotherFileIsNoPlugin) {
  const TempDir folder;
  folder.write("my_family/model.cc", "");
  folder.write("notes", "");
  for (const auto& [name, kind] :
       {std::pair{"my_family", "folder"}, std::pair{"notes", "file of another kind"}}) {
    const Finished result = run_process({LAMINA_BUILD_DIR "/bin/lamina", "plugin", "inspect", name},
                                        {.folder = folder.path()});
    EXPECT_EQ(result.code, 8);
    EXPECT_EQ(result.err,
              fmt::format("error: {}: is a {}; expected a .lamina.so or the name of a family\n"
                          "  give the path of the .lamina.so that its build makes\n",
                          name, kind));
  }
}

TEST(PluginNew, CopiesTheTemplateUnderTheName) {
  const TempDir folder;
  const Finished result = plugin(folder, {"new", "two_towers", "--dir", folder.path()});
  EXPECT_EQ(result.code, 0) << result.err;
  const std::string model = folder.read("two_towers/model.cc");
  EXPECT_THAT(model, HasSubstr("two_towers::kModel"));
  EXPECT_THAT(model, HasSubstr("TwoTowersForCausalLM"));
  EXPECT_THAT(model, Not(HasSubstr("my_family")));
  EXPECT_THAT(folder.read("two_towers/CMakeLists.txt"),
              HasSubstr("lamina_add_plugin(two_towers CHECK)"));
  EXPECT_THAT(folder.read("two_towers/check/two_towers.toml"),
              HasSubstr("family = \"two_towers\""));
}

TEST(PluginNew, StartsFromAShippedPluginWithNewFamilies) {
  const TempDir folder;
  const Finished result =
      plugin(folder, {"new", "two_towers", "--from", "mistral", "--dir", folder.path()});
  EXPECT_EQ(result.code, 0) << result.err;
  const std::string model = folder.read("two_towers/model.cc");
  EXPECT_THAT(model, HasSubstr(".name = \"two_towers\""));
  EXPECT_THAT(model, HasSubstr(".name = \"two_towers_mixtral\""));
  EXPECT_THAT(model, HasSubstr("LAMINA_PLUGIN(\"org.example.two_towers\""));
  EXPECT_THAT(folder.read("two_towers/CMakeLists.txt"),
              HasSubstr("lamina_add_plugin(two_towers CHECK)"));
  EXPECT_THAT(folder.read("two_towers/check/mixtral_predicts.toml"),
              HasSubstr("family = \"two_towers_mixtral\""));
}

TEST(PluginNew, StartsFromAnExampleWithARecurrence) {
  const TempDir folder;
  const Finished result =
      plugin(folder, {"new", "two_towers", "--from", "griffin", "--dir", folder.path()});
  EXPECT_EQ(result.code, 0) << result.err;
  const std::string model = folder.read("two_towers/model.cc");
  EXPECT_THAT(model, HasSubstr(".name = \"two_towers\""));
  EXPECT_THAT(model, HasSubstr("LAMINA_PLUGIN(\"org.example.two_towers\""));
  EXPECT_THAT(model, HasSubstr("linear_scan("));
  EXPECT_THAT(folder.read("two_towers/check/two_towers.toml"),
              HasSubstr("family = \"two_towers\""));
}

TEST(PluginNew, KeepsPublishedNamesOfTheShippedPlugin) {
  const TempDir folder;
  const Finished result =
      plugin(folder, {"new", "mine2", "--from", "llama", "--dir", folder.path()});
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string model = folder.read("mine2/model.cc");
  EXPECT_THAT(model, HasSubstr(".name = \"mine2\""));
  EXPECT_THAT(model, HasSubstr("namespace mine2 {"));
  EXPECT_THAT(model, HasSubstr("mine2::kLlama2,"));
  EXPECT_THAT(model, HasSubstr(".hf_model_types = {\"llama\"}"));
  EXPECT_THAT(model, HasSubstr("\"LlamaForCausalLM\""));
  EXPECT_THAT(model, Not(HasSubstr(".aliases")));
  EXPECT_THAT(folder.read("mine2/llama4.h"), HasSubstr(".name = \"mine2_llama4\""));
  EXPECT_THAT(folder.read("mine2/families.h"), HasSubstr(".name = \"mine2_llama2lti\""));
  EXPECT_THAT(folder.read("mine2/families.h"), HasSubstr(".exports_as = \"mine2\""));
  EXPECT_THAT(folder.read("mine2/config.cc"), HasSubstr(".aliases = {LAMINA_GGUF_KEY}"));
  EXPECT_THAT(folder.read("mine2/check/llama4_interleaved.toml"),
              HasSubstr("family = \"mine2_llama4\""));
  EXPECT_THAT(folder.read("mine2/README.md"), HasSubstr("none, linear, dynamic, llama3, yarn"));
  EXPECT_THAT(folder.read("mine2/README.md"),
              HasSubstr("plugin `llama`. Family `llama2` is here `mine2`."));
  EXPECT_THAT(folder.read("mine2/README.md"), HasSubstr("(docs/from_maxtext.md of lamina)"));
  EXPECT_THAT(result.out, HasSubstr("The copy still has the published names of llama: change "
                                    "hf_model_types and\n  hf_architectures once"));
  EXPECT_THAT(
      folder.read("mine2/README.md"),
      HasSubstr("The copy still has the published names of `llama`: change `hf_model_types`"));
}

TEST(PluginNew, CommandsOnThePageNameTheCopy) {
  const TempDir folder;
  const Finished result =
      plugin(folder, {"new", "mine3", "--from", "xielu", "--dir", folder.path()});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("published names")));  // it has none
  const std::string page = folder.read("mine3/README.md");
  EXPECT_THAT(page, Not(HasSubstr("published names")));
  EXPECT_THAT(page, HasSubstr("inspect build/lib/lamina/plugins/mine3.lamina.so mine3\n"));
  EXPECT_THAT(page, Not(HasSubstr("../docs")));
}

TEST(PluginNew, BuildsWithTheOptionsOfTheSource) {
  const TempDir folder;
  const std::string to = folder / "a b";
  const Finished f = plugin(folder, {"new", "mine4", "--from", "xielu", "--dir", to});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(folder.read("a b/mine4/CMakeLists.txt"),
              HasSubstr("lamina_add_plugin(mine4 CHECK full GPU_KERNELS kernels.cu)"));
  EXPECT_THAT(f.out, HasSubstr(fmt::format("cmake -S '{0}/mine4' -B '{0}/mine4/build'", to)));
  ASSERT_EQ(plugin(folder, {"new", "mine5", "--from", "llama", "--dir", to}).code, 0);
  EXPECT_THAT(folder.read("a b/mine5/CMakeLists.txt"), HasSubstr("lamina_add_plugin(mine5 CHECK)"));
}

TEST(PluginCheck, GoldenCasesAreComparedAtEveryLevel) {
  const TempDir folder;
  const Finished none = plugin(folder, {"check", "simple", "--golden", "/none"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("--golden: '/none' is not a directory"));
  const Finished other = plugin(
      folder, {"check", "simple", "--golden", LAMINA_SOURCE_DIR "/tests/golden/hf/llama3_gqa"});
  EXPECT_EQ(other.code, 8) << other.err;
  EXPECT_THAT(other.out + other.err, HasSubstr("1 failed (NUM-3)"));
}

TEST(PluginNew, KeepsKeysOfGgufFiles) {
  const TempDir folder;
  ASSERT_EQ(plugin(folder, {"new", "my_olmo", "--from", "olmo", "--dir", folder.path()}).code, 0);
  EXPECT_THAT(folder.read("my_olmo/model.cc"), HasSubstr("\"olmo2.attention.sliding_window\""));
  EXPECT_THAT(folder.read("my_olmo/model.cc"), HasSubstr(".name = \"my_olmo_olmo3\""));
}

TEST(PluginNew, RefusesFamiliesOfShippedPlugins) {
  const TempDir folder;
  for (const char* name : {"llama2", "llama", "qwen3"}) {
    const Finished result = plugin(folder, {"new", name, "--dir", folder.path()});
    EXPECT_EQ(result.code, 2) << name;
    EXPECT_THAT(result.err,
                HasSubstr(fmt::format("plugin new: '{}' is a family of lamina's plugin", name)));
    EXPECT_THAT(result.err, HasSubstr(fmt::format("choose another name, eg: my_{};", name)));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(PluginNew, SaysWhichPluginsThereAreToStartFrom) {
  const TempDir folder;
  const Finished result =
      plugin(folder, {"new", "two_towers", "--from", "nothing", "--dir", folder.path()});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--from: lamina has no plugin 'nothing'\n  there are: "));
  const Finished plain =
      plugin(folder, {"new", "two_towers", "--from", "plain_c", "--dir", folder.path()});
  EXPECT_EQ(plain.code, 2);
  EXPECT_THAT(plain.err, HasSubstr("--from: 'plain_c' is not in C++; only plugins in C++ can be "
                                   "copied\n  its sources are in "));
  const Finished near =
      plugin(folder, {"new", "two_towers", "--from", "mamba", "--dir", folder.path()});
  EXPECT_THAT(near.err, HasSubstr("has no plugin 'mamba'\n  did you mean 'mamba2'?\n"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(PluginNew, NeverOverwrites) {
  const TempDir folder;
  std::filesystem::create_directory(folder / "there");
  const Finished result = plugin(folder, {"new", "there", "--dir", folder.path()});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("there: exists already and is not overwritten"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "there"));
}

// Like every other file that lamina writes.
TEST(PluginNew, AFolderThatCannotBeCreatedEndsWith4) {
  const TempDir folder;
  const Finished result = plugin(folder, {"new", "there", "--dir", folder.write("file", "")});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("file/there: cannot be created: not a directory\n"
                                    "  choose another folder with --dir\n"));
}

TEST(PluginNew, RefusesReservedNamesOfCpp) {
  const TempDir folder;
  for (const char* name : {"concept", "nullptr", "constexpr", "co_await", "wchar_t", "int8_t",
                           "size_t", "and_eq", "exp", "printf", "index", "errno", "a__b"}) {
    const Finished result = plugin(folder, {"new", name, "--dir", folder.path()});
    EXPECT_EQ(result.code, 2) << name;
    EXPECT_THAT(result.err, HasSubstr(fmt::format("plugin new: '{}' ", name)));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(PluginList, FindsPluginsWithoutProc) {
  LAMINA_SKIP_IF_SANITIZED("it reads /proc itself");
  const std::string without_proc =
      "unshare -rm bash -c 'mount -t tmpfs none /proc && exec \"$@\"' bash ";
  if (run_shell(without_proc + "true").code != 0) GTEST_SKIP() << "no mounts may be changed here";
  const Finished result = run_shell(without_proc + LAMINA_BUILD_DIR "/bin/lamina plugin list");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("llama2"));
}

// With these the project did not compile: the SDK's names became ambiguous.
TEST(PluginNew, RefusesNamesOfTheSdkAndOfTheSources) {
  const TempDir folder;
  struct Case {
    std::vector<std::string> words;
    const char* says;
  };
  for (const Case& c :
       {Case{{"axis"}, "'axis' is a name in model.cc of the template"},
        {{"tags"}, "'tags' is a name in model.cc of the template"},
        {{"split_heads"}, "'split_heads' is a name in model.cc of the template"},
        {{"softmax"}, "'softmax' is a reserved name in C++, its library or lamina"},
        {{"rope"}, "'rope' is a reserved name in C++, its library or lamina"},
        {{"init", "--from", "griffin"}, "'init' is a name in model.cc of griffin"},
        {{"block_sum", "--from", "xielu"}, "'block_sum' is a name in kernels.cu of xielu"}}) {
    std::vector<std::string> words = {"new", "--dir", folder.path()};
    words.insert(words.end(), c.words.begin(), c.words.end());
    const Finished result = plugin(folder, words);
    EXPECT_EQ(result.code, 2) << c.says;
    EXPECT_THAT(result.err, HasSubstr(std::string("plugin new: ") + c.says));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  // A word of comments and strings only is no name.
  EXPECT_EQ(plugin(folder, {"new", "describe", "--dir", folder.path()}).code, 0);
  EXPECT_EQ(plugin(folder, {"new", "my_family", "--dir", folder.path()}).code, 0);
}

TEST(PluginNew, RefusesNamesThatAreNoNamespace) {
  const TempDir folder;
  for (const char* name : {"../up", "Upper", "1st", "a b", "class", "lamina"}) {
    const Finished result = plugin(folder, {"new", name, "--dir", folder.path()});
    EXPECT_EQ(result.code, 2) << name;
    EXPECT_THAT(result.err, HasSubstr(fmt::format("plugin new: '{}' is ", name)));
  }
  EXPECT_EQ(plugin(folder, {"new", "", "--dir", folder.path()}).err,
            "error: NAME must not be empty\n");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Names in a manifest have at most 64 characters: "org.example.NAME", and "NAME_qwen3_custom_moe"
// in a copy of qwen.
TEST(PluginNew, RefusesNamesThatAreTooLongForAPlugin) {
  const TempDir folder;
  const auto make = [&](std::size_t length, std::vector<std::string> more) {
    more.insert(more.begin(), {"new", std::string(length, 'a'), "--dir", folder.path()});
    return plugin(folder, more);
  };
  const Finished longer = make(53, {});
  EXPECT_EQ(longer.code, 2);
  EXPECT_THAT(longer.err, HasSubstr("it must be lower-case letters, digits and '_', at most 52, "));
  const Finished copy = make(48, {"--from", "qwen"});
  EXPECT_EQ(copy.code, 2);
  EXPECT_EQ(copy.err, fmt::format("error: plugin new: '{0}' has 48 characters; with --from qwen it "
                                  "must have at most 47\n"
                                  "  a family of the copy would be called '{0}_qwen3_custom_moe', "
                                  "and names have at most 64 characters\n",
                                  std::string(48, 'a')));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(make(52, {}).code, 0);
  EXPECT_EQ(make(47, {"--from", "qwen"}).code, 0);
}

}  // namespace
}  // namespace lamina::cli
