// The built program: exit codes, streams and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/json.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::run_process;
using lamina::testing::run_shell;
using lamina::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kProgram = LAMINA_BUILD_DIR "/bin/lamina";

Finished lamina(std::vector<std::string> words, std::vector<std::string> environment = {}) {
  words.insert(words.begin(), kProgram);
  return run_process(words, {.environment = std::move(environment)});
}

std::string write_run(const TempDir& folder, const std::string& rest = "") {
  return folder.write("run.toml",
                      "family = \"simple\"\n[model]\nvocab_size = 258\nhidden_size = 8\n"
                      "num_hidden_layers = 1\n[data]\ntrain = \"a.txt\"\n" +
                          rest);
}

TEST(Program, Example) {
  Finished result = lamina({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, StartsWith("lamina 0."));
  EXPECT_EQ(result.err, "");
}

TEST(Program, VersionIsOneLineOrOneObject) {
  std::string text = lamina({"--version"}).out;
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  EXPECT_THAT(lamina({"--version", "--json"}).out,
              StartsWith("{\"name\":\"lamina\",\"version\":\"0."));
}

TEST(Program, WithoutArgumentsShowsHelpOnStderrAndFails) {
  Finished result = lamina({});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("usage: lamina COMMAND [options]"));
}

TEST(Program, HelpIsOnStdoutEvenWithInvalidArguments) {
  for (std::vector<std::string> words : {std::vector<std::string>{"--help"},
                                         {"-h"},
                                         {"help"},
                                         {"config", "-h", "--nonsense"},
                                         {"help", "config"},
                                         {"help", "config", "show"},
                                         {"config", "show", "--help"}}) {
    Finished result = lamina(words);
    EXPECT_EQ(result.code, 0) << words.back();
    EXPECT_THAT(result.out, HasSubstr("usage: lamina"));
    EXPECT_EQ(result.err, "");
  }
}

struct Refusal {
  std::vector<std::string> words;
  std::string says;  // the whole of stderr
};

TEST(Program, MistakesOnTheCommandLineExitWith2AndNameTheRightForm) {
  const Refusal cases[] = {
      {{"confg"}, "error: unknown command 'confg'\n  did you mean `lamina config`?\n"},
      {{"config", "shwo"},
       "error: unknown command 'config shwo'\n  did you mean `lamina config show`?\n"},
      {{"config", "zzzzzzzz"},
       "error: unknown command 'config zzzzzzzz'\n  there are: show, explain, import\n"},
      {{"export", "run", "--to", "model"},
       "error: unknown command 'export'\n  did you mean `lamina ckpt export`?\n"},
      {{"import"}, "error: unknown command 'import'\n  did you mean `lamina config import`?\n"},
      {{"ls"}, "error: unknown command 'ls'\n  did you mean `lamina ckpt ls`?\n"},
      {{"show", "run.toml"},
       "error: unknown command 'show'\n  did you mean `lamina data show` or `lamina config "
       "show`?\n"},
      {{"evaluate"}, "error: unknown command 'evaluate'\n  did you mean `lamina eval`?\n"},
      {{"ckpt", "list"}, "error: unknown command 'ckpt list'\n  did you mean `lamina ckpt ls`?\n"},
      {{"plan", "-m", "model"},
       "error: unknown option '-m'\n  give the model without -m: lamina plan MODEL\n"},
      {{"quantize", "--model", "model"},
       "error: unknown option '--model'\n  give the model without --model: lamina quantize DIR\n"},
      {{"decode", "-m", "model", "-p", "x", "--device", "cuda:h100"},
       "error: --device: cuda:h100 is known only by its data sheet: it computes nothing\n  "
       "`lamina explain`, `lamina plan`, and `lamina train` with --dry-run or --fit take it\n"},
      {{"decode", "-m", "model", "--quantize", "int4", "--target-bits", "5"},
       "error: unknown option '--target-bits'\n  only `lamina quantize` has it, which writes a "
       "model "
       "with 8-bit or 4-bit weights\n"},
      {{"decode", "-m", "model", "--temperature", "0"},
       "error: unknown option '--temperature'\n  did you mean '--temp'?\n"},
      {{"decode", "-m", "model", "--n-predict", "8"},
       "error: unknown option '--n-predict'\n  did you mean '-n'?\n"},
      {{"train", "run.toml", "--lr", "1e-3"},
       "error: unknown option '--lr'\n  a key of run files: --set optimizer.lr=VALUE\n"},
      {{"plan", "model", "--quantize-rules", "head=int8"},
       "error: unknown option '--quantize-rules'\n  did you mean '--quantize-rule'?\n"},
      {{"train", "run.toml", "--quantize_rules=head=int8"},
       "error: unknown option '--quantize_rules'\n  did you mean '--quantize-rule'?\n"},
      {{"bench", "decode", "--lr", "1e-3"},
       "error: unknown option '--lr'\n  -h lists the options\n"},
      {{"bench", "decode", "--engram-layers", "1"},
       "error: unknown option '--engram-layers'\n  a key of the model: --set "
       "model.engram_layers=VALUE\n"},
      {{"report", "x", "--out", "y"},
       "error: unknown option '--out'\n  did you mean '--output'?\n"},
      {{"embed", "-m", "x", "--to", "y"},
       "error: unknown option '--to'\n  did you mean '--output'?\n"},
      {{"--versoin"}, "error: unknown option '--versoin'\n  did you mean '--version'?\n"},
      {{"config", "show", "x", "--jsn"},
       "error: unknown option '--jsn'\n  did you mean '--json'?\n"},
      {{"config", "show", "x", "--jso"},
       "error: unknown option '--jso'\n  did you mean '--json'?\n"},
      {{"config", "show"},
       "error: missing RUN.toml\n  usage: lamina config show RUN.toml [options]\n  see `lamina "
       "config show --help`\n"},
      {{"config", "show", "x", "y"},
       "error: unexpected argument 'y'\n  see `lamina config show --help`\n"},
      {{"config", "show", "x", "--set"}, "error: option '--set' needs KEY=VALUE\n"},
      {{"config", "show", "x", "--set="}, "error: option '--set' needs KEY=VALUE\n"},
      {{"config", "show", "x", "--set", "--quiet"}, "error: option '--set' needs KEY=VALUE\n"},
      {{"config", "show", "x", "--quiet=1"}, "error: option '--quiet' takes no value\n"},
      {{"config", "show", "x", "-t", "1", "--threads", "2"},
       "error: option '--threads' is given twice\n  keep one\n"},
      {{"completion", "tcsh"}, "error: completion: unknown shell 'tcsh'; there is: bash\n"},
      {{"config", "explain", "train.stpes"},
       "error: unknown key 'train.stpes'\n  did you mean 'train.steps'?\n"},
      {{"config", "explain", "model.rope_theta"},
       "error: unknown key 'model.rope_theta'\n  keys of [model] belong to a family; `lamina "
       "plugin "
       "inspect NAME` lists them\n"},
      {{"config", "show", "a\xff"}, "error: argument 'a\\xff' is not UTF-8\n"},
  };
  for (const Refusal& c : cases) {
    Finished result = lamina(c.words);
    EXPECT_EQ(result.code, 2) << c.says;
    EXPECT_EQ(result.err, c.says);
    EXPECT_EQ(result.out, "");
  }
}

TEST(Program, NumbersAreStrictAndShowTheirLimits) {
  const std::pair<std::string, std::string> cases[] = {
      {"0", "0"},
      {"-1", "-1"},
      {"+5", "\"+5\" (a string)"},
      {"1e3", "1e3 (a number)"},
      {"0x10", "\"0x10\" (a string)"},
      {"99999999999999999999", "99999999999999999999, which is more than 2^63-1"},
      {" 5", "\" 5\" (a string)"},
      {"1,5", "\"1,5\" (a string)"}};
  for (const auto& [typed, shown] : cases) {
    Finished result = lamina({"config", "explain", "-t", typed});
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(
        result.err,
        "error: '--threads' must be an integer, at least 1 and at most 1024, got " + shown + "\n");
  }
}

TEST(Program, NegativeNumbersAndDashesCanBeValues) {
  EXPECT_EQ(lamina({"config", "explain", "--threads=4"}).code, 0);
  EXPECT_EQ(lamina({"config", "explain", "-t4"}).code, 0);
  EXPECT_EQ(lamina({"-t", "4", "config", "explain"}).code, 0);
}

TEST(Program, UnderscoresInOptionNamesAreDashes) {
  EXPECT_EQ(lamina({"config", "explain", "--plugin_path=/x"}).code, 0);
  EXPECT_EQ(lamina({"config", "explain", "--plugin_path", "/x_y"}).code, 0);
}

TEST(Program, TypoInSetSuggestsTheKey) {
  TempDir folder;
  Finished result = lamina({"config", "show", write_run(folder), "--set", "train.stepz=3"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "error: --set train.stepz=3: unknown key 'train.stepz'\n"
            "  did you mean 'train.steps'?\n");
}

TEST(Program, ConfigShowReadsBackAsTheSameRun) {
  TempDir folder;
  std::string shown = lamina({"config", "show", write_run(folder, "[train]\nsteps = 7\n")}).out;
  std::string copy = folder.write("copy.toml", shown);
  Finished again = lamina({"config", "show", copy});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("steps = 7"));
}

TEST(Program, ConfigShowHasEveryValueOfTheModel) {
  const TempDir folder;
  const std::string run = write_run(folder);
  EXPECT_THAT(lamina({"config", "show", run}).out, HasSubstr("\nrms_norm_eps = 1e-05 "));
  const Finished unknown = lamina({"config", "show", run, "--set", "model.hiden_size=5"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("unknown key 'model.hiden_size'"));
  const Finished without = lamina({"config", "show", run, "--set", "family=unknown_family"});
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_THAT(without.err, HasSubstr("no plugin has family 'unknown_family'"));
  EXPECT_THAT(without.err, HasSubstr("[model] has only the given keys"));
  EXPECT_THAT(without.out, HasSubstr("hidden_size = 8 "));
  const Finished missing = lamina({"config", "show", run, "--set", "train.from=nowhere"});
  EXPECT_EQ(missing.code, 0) << missing.err;
  EXPECT_THAT(missing.err, HasSubstr("nowhere: no such file or directory"));
}

TEST(Program, EnvironmentReachesTheConfig) {
  TempDir folder;
  Finished result = lamina({"config", "show", write_run(folder)}, {"LAMINA_TRAIN__STEPS=5"});
  EXPECT_THAT(result.out,
              HasSubstr("steps = 5                               # LAMINA_TRAIN__STEPS"));
}

TEST(Program, ErrorIsAnObjectWithJson) {
  TempDir folder;
  Finished result =
      lamina({"config", "show", write_run(folder), "--json", "--set", "train.steps=0"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out,
            "{\"error\":{\"code\":2,\"class\":\"usage\",\"where\":\"--set train.steps=0\",\"what\":"
            "\"'train.steps' must be an integer, at least 1 and at most 1000000000000, got 0\","
            "\"notes\":[]}}\n");
  EXPECT_THAT(result.err, StartsWith("error: --set train.steps=0: 'train.steps' must be"));
}

TEST(Program, MissingFileAndFolderAreNamed) {
  TempDir folder;
  Finished missing = lamina({"config", "show", folder / "none.toml"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, StartsWith("error: " + (folder / "none.toml") +
                                      ": cannot be read: no such file or directory\n"));
  Finished directory = lamina({"config", "show", folder.path()});
  EXPECT_EQ(directory.code, 2);
  EXPECT_THAT(directory.err, HasSubstr("is a directory"));
}

TEST(Program, AnArgumentThatBelongsToAMissingOptionIsNamed) {
  const Finished result = lamina({"decode", "runs/a b"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, StartsWith("error: missing option '--model DIR', or -m\n"
                                     "  did you mean `-m 'runs/a b'`?\n"));
  EXPECT_THAT(lamina({"decode"}).err, Not(HasSubstr("did you mean")));
}

TEST(Program, AFamilyInTheSectionOfTheModelIsNamed) {
  const TempDir folder;
  const std::string file = folder.write(
      "run.toml", "[model]\nfamily = \"llama2\"\nhidden_size = 8\n[data]\ntrain = \"a.txt\"\n");
  const Finished result = lamina({"train", file});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "error: " + file +
                            ": missing key 'family'\n"
                            "  it belongs above all sections, not in [model] (" +
                            file +
                            ":2)\n"
                            "  `lamina plugin list` prints the families\n");
}

TEST(Program, ARunDirectoryInThePlaceOfARunFileIsNamed) {
  const TempDir folder;
  folder.write("run/config.toml", "");
  const Finished result = lamina({"train", folder / "run"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "error: " + (folder / "run") +
                            ": is the directory of a run; expected a run file\n"
                            "  `lamina train " +
                            (folder / "run/config.toml") + "` continues the run in it\n");
}

TEST(Program, ADirectoryInThePlaceOfARunFileIsNamedByEveryCommand) {
  const TempDir folder;
  folder.write("run/config.toml", "");
  folder.write("published/config.json", "{}");
  folder.write("checkpoint/model.toml", "");
  const std::string run = folder / "run";
  for (const char* group : {"config", "data"}) {
    const Finished result = lamina({group, "show", run});
    EXPECT_EQ(result.code, 2) << group;
    EXPECT_EQ(result.err, "error: " + run +
                              ": is the directory of a run; expected a run file\n"
                              "  give its config.toml\n");
  }
  for (const char* name : {"published", "checkpoint"}) {
    const std::string model = folder / name;
    const Finished result = lamina({"train", model});
    EXPECT_EQ(result.code, 2) << name;
    EXPECT_EQ(result.err, "error: " + model +
                              ": is the directory of a model; expected a run file\n"
                              "  name it in a run file, eg: train.from = \"" +
                              model + "\"\n");
  }
}

TEST(Program, ARemovedCurrentDirectoryIsNamed) {
  const TempDir folder;
  write_run(folder);
  const std::string program = kProgram;
  const Finished result = run_process(
      {"sh", "-c",
       "mkdir gone && cd gone && rmdir ../gone && " + program + " train ../run.toml --out x"},
      {.folder = folder.path()});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.err,
            "error: the current directory: cannot be accessed: no such file or directory\n"
            "  it may have been removed: go to another one\n");
}

TEST(Program, AFileWithALeadingDashIsNoOptionInAPrintedCommand) {
  const TempDir folder;
  folder.write("-run/config.toml", "");
  const Finished result = run_process({kProgram, "train", "--", "-run"}, {.folder = folder.path()});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("`lamina train ./-run/config.toml` continues the run in it"));
}

TEST(Program, NoOtherThreadRunsWhileAPluginIsLoaded) {
  const TempDir folder;
  folder.write("config.json",
               "{\"model_type\": \"tiny_type\", \"vocab_size\": 300, \"hidden_size\": 4, "
               "\"num_hidden_layers\": 1}");
  std::string vocabulary;  // reading it takes longer than finding the plugin
  for (int i = 0; i < 300000; ++i)
    vocabulary += (i == 0 ? "\"t" : ", \"t") + std::to_string(i) + "\": " + std::to_string(i);
  folder.write("tokenizer.json",
               "{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {" + vocabulary + "}}}");
  const Finished result = lamina({"decode", "-m", folder.path(), "-p", "t", "-t", "1", "--plugin",
                                  LAMINA_BUILD_DIR "/tests/registry/zoo/init_threads.lamina.so"});
  EXPECT_THAT(result.err, HasSubstr("family 'tiny': "));  // it is loaded, and has no tensor map
  EXPECT_THAT(result.err, Not(HasSubstr("other threads run")));
}

TEST(Program, ReaderThatGoesAwayEndsItQuietly) {
  Finished result =
      run_shell("set -o pipefail; (sleep 0.2; exec " + kProgram + " config explain) | true");
  EXPECT_EQ(result.code, 141);
  EXPECT_EQ(result.err, "");
}

TEST(Program, KeysOfTablesAreListedAndExplained) {
  const std::string name = "optimizer.groups[].lr_scale";
  const Finished one = lamina({"config", "explain", name});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr(name + "\n  Learning rate, as a multiple of the schedule's.\n"));
  EXPECT_THAT(one.out, HasSubstr("  limits   > 0\n"));
  EXPECT_EQ(lamina({"config", "explain", "optimizer.groups.lr_scale"}).out, one.out);
  for (const char* shorter : {"optimizer.groups", "optimizer"})
    EXPECT_THAT(lamina({"config", "explain", shorter}).out, HasSubstr("  groups[].lr_scale = none"))
        << shorter;
  const Finished json = lamina({"config", "explain", name, "--json"});
  const JsonDocument keys = JsonDocument::parse(json.out, "explain");
  EXPECT_EQ(keys.root().at(name).at("type").as_string(), "number");
  EXPECT_THAT(json.out, Not(HasSubstr("\"optimizer.groups\"")));
  EXPECT_THAT(lamina({"config", "explain", "optimizer", "--json"}).out,
              HasSubstr("\"" + name + "\""));
  EXPECT_EQ(lamina({"config", "explain", "optimizer.groups[].lr_scal"}).code, 2);
}

TEST(Program, OneKeyOrSectionIsExplainedInJson) {
  const Finished key = lamina({"config", "explain", "train.steps", "--json"});
  const JsonDocument json = JsonDocument::parse(key.out, "explain");
  EXPECT_EQ(json.root().at("train.steps").at("type").as_string(), "integer");
  EXPECT_THAT(key.out, Not(HasSubstr("train.from")));
  const Finished section = lamina({"config", "explain", "train", "--json"});
  EXPECT_THAT(section.out, HasSubstr("\"train.from\""));
  EXPECT_THAT(section.out, Not(HasSubstr("\"optimizer.lr\"")));
  EXPECT_EQ(lamina({"config", "explain", "train.stpes", "--json"}).code, 2);
  EXPECT_EQ(lamina({"config", "explain", "train.steps", "--markdown"}).code, 2);
}

TEST(Program, FullDiskBehindStdoutIsAnError) {
  Finished result = run_shell(kProgram + " config explain > /dev/full");
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.err, "error: stdout: cannot write output: no space left on device\n");
}

TEST(Program, ClosedStdoutIsAnError) {
  Finished result = run_shell(kProgram + " config explain >&-");
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.err, "error: stdout: cannot write output: bad file descriptor\n");
}

TEST(Program, ErrorsHaveNoColourInAPipeUnlessAskedFor) {
  EXPECT_THAT(lamina({"config", "show", "/none"}).err, Not(HasSubstr("\033")));
  EXPECT_THAT(lamina({"config", "show", "/none", "--color=always"}).err,
              StartsWith("\033[1;31merror:\033[0m "));
  EXPECT_THAT(lamina({"config", "show", "/none"}, {"CLICOLOR_FORCE=1", "NO_COLOR=1"}).err,
              Not(HasSubstr("\033")));
}

TEST(Program, CompletionScriptCompletesCommandsAndOptions) {
  std::string complete = "source <(" + kProgram +
                         " completion bash); COMP_WORDS=(lamina config sh); "
                         "COMP_CWORD=2; _lamina; echo ${COMPREPLY[@]}; "
                         "COMP_WORDS=(lamina config show --js); COMP_CWORD=3; _lamina; "
                         "echo ${COMPREPLY[@]}";
  EXPECT_EQ(run_shell(complete).out, "show\n--json\n");
}

}  // namespace
}  // namespace lamina::cli
