// Text that is not TOML 1.0 is refused with line, column and a caret; the program never aborts.
#include <gtest/gtest.h>

#include "config/raw.h"
#include "config/refusal.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::config {
namespace {

Raw parse(std::string_view text) { return parse_toml(text, "run.toml", Origin::Kind::run_file); }

TEST(Syntax, Example) {
  Raw raw = parse("[model]\nrope_scaling = {factor = 2.0, type = \"yarn\"}\n");
  ASSERT_EQ(raw.entries.size(), 2u);
  EXPECT_EQ(raw.entries[0].key, "model.rope_scaling.factor");
  EXPECT_EQ(raw.entries[0].value, Value(2.0));
  EXPECT_EQ(raw.entries[0].origin.text, "run.toml:2");
}

TEST(Syntax, EntriesKeepTheOrderOfTheFile) {
  Raw raw = parse("z = 1\na = 2\n[y]\nb = 3\n[x]\nc = 4\n");
  std::string keys;
  for (const RawEntry& entry : raw.entries) keys += entry.key + " ";
  EXPECT_EQ(keys, "z a y.b x.c ");
}

TEST(Syntax, ByteOrderMarkAndDosLineEndsAreFine) {
  EXPECT_EQ(parse("\xef\xbb\xbf"
                  "a = 1\r\nb = 2\r\n")
                .entries.size(),
            2u);
}

TEST(Syntax, MistakesAreShownWithACaret) {
  const Refusal cases[] = {
      {"[train]\nsteps = \n",
       "run.toml:2:9: not TOML 1.0: key-value pair: expected value, saw '\\n'\n"
       "  steps =\n"
       "          ^"},
      {"[", "run.toml:1:2: not TOML 1.0: table header: encountered end-of-file\n  [\n   ^"},
      {"[.]",
       "run.toml:1:2: not TOML 1.0: key: expected bare key starting character or string "
       "delimiter, saw '.'\n  [.]\n   ^"},
      {"a = 1\na = 2",
       "run.toml:2:5: not TOML 1.0: key-value pair: cannot redefine existing integer 'a'\n"
       "  a = 2\n"
       "      ^"},
      {"[a]\n[a]\n",
       "run.toml:2:1: not TOML 1.0: table header: cannot redefine existing table 'a'\n  [a]\n  ^"},
      {"a = 99999999999999999999",
       "run.toml:1:25: not TOML 1.0: decimal integer: '99999999999999999999' is not representable "
       "in 64 bits\n  a = 99999999999999999999\n                          ^"},
      {"a = \"\xff\"",
       "run.toml:1:5: not TOML 1.0: encountered invalid utf-8 sequence\n  a = \" \"\n      ^"},
  };
  for (const Refusal& c : cases) EXPECT_USER_ERROR(parse(c.text), 2, c.says);
}

TEST(Syntax, MistakesOfOtherFormatsHaveAdvice) {
  for (const char* text :
       {"a = some/name", "a = name", "a = [x.txt]", "a = false_friend", "a = nano"})
    EXPECT_ERROR_SAYS(parse(text), 2, "\n  a text needs quotes, eg key = \"text\"");
  for (const char* text : {"a = { b = 1,\n c = 2 }", "a = {\r\n b = 1 }", "a = { b = 1\n}"})
    EXPECT_ERROR_SAYS(parse(text), 2,
                      "\n  a table in { } must be on one line; for several lines write a section, "
                      "eg [model]");
  EXPECT_USER_ERROR(parse("a = 1x"), 2,
                    "run.toml:1:6: not TOML 1.0: decimal integer: expected digit, saw 'x'\n"
                    "  a = 1x\n       ^");
}

TEST(Syntax, HostileTextIsAnErrorAndNoAbort) {
  const std::string cases[] = {"[[[",
                               "[a",
                               "a =",
                               "= 1",
                               "a",
                               "a = 1 b = 2",
                               "a = 1e400",
                               "a = 1\rb = 2",
                               "a = \"\\ud800\"",
                               std::string("a = \0", 5)};
  for (const std::string& text : cases) {
    SCOPED_TRACE(text.substr(0, 40));
    EXPECT_ERROR_SAYS(parse(text), 2, "not TOML 1.0");
  }
}

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(Nesting, DeepTextIsRefusedBeforeAnythingRecurses) {
  const std::string cases[] = {
      "a" + repeated(".b", 30000) + " = 1",
      "[a" + repeated(".b", 30000) + "]",
      "[[a" + repeated(".b", 30000) + "]]",
      "a = " + repeated("{b = ", 30000),
      "a" + repeated(".b", 20) + " = {c" + repeated(".d", 20) + " = 1}",
      "[a" + repeated(".b", 20) + "]\nc" + repeated(".d", 20) + " = 1",
      repeated("[", 100000),
      "a = " + repeated("[", 300),
      "a = [\n" + repeated("{b = [", 30) + "1",
  };
  for (const std::string& text : cases) {
    SCOPED_TRACE(text.substr(0, 40));
    EXPECT_ERROR_SAYS(parse(text), 2, "is nested deeper than 32 levels");
  }
  EXPECT_ERROR_SAYS(parse("x = 1\n  a" + repeated(".b", 40) + " = 1"), 2, "run.toml:2:");
  EXPECT_ERROR_SAYS(parse_override("a.b=" + repeated("[", 300)), 2,
                    "the value is nested deeper than 32 levels");
}

TEST(Nesting, IgnoresDotsOfPathsAndSentences) {
  for (const std::string& text :
       {repeated("../", 40) + "a.txt", "Wait" + repeated(".", 40) + " what", repeated(".", 40)}) {
    const RawEntry entry = parse_override("data.train=" + text).entries.at(0);
    EXPECT_EQ(entry.value, Value(text));
    EXPECT_EQ(entry.source, text);
  }
  EXPECT_ERROR_SAYS(parse_override("a.b= {c" + repeated(".d", 40) + " = 1}"), 2,
                    "the value is nested deeper than 32 levels");
}

TEST(Nesting, IsCountedOutsideOfStringsAndComments) {
  const std::string dots = repeated(".", 100) + repeated("[", 100);
  Raw raw = parse("# " + dots + "\na = \"\\\"" + dots + "\"\nb = '" + dots + "'\nc = \"\"\"\n" +
                  dots + "\"\"\"\nd = [" + repeated("1.5, ", 100) + "]\n");
  EXPECT_EQ(raw.entries.size(), 4u);
  raw =
      parse(repeated("[a.b]\nc.d = {e = [1, [2]]}\n[f]\n", 1) + "a" + repeated(".b", 30) + " = 1");
  EXPECT_EQ(raw.entries.size(), 2u);
}

TEST(Syntax, FileAboveOneMebibyteIsRefused) {
  testing::TempDir folder;
  std::string path = folder.write("big.toml", std::string((1 << 20) + 1, '#'));
  EXPECT_ERROR_SAYS(read_toml(path, Origin::Kind::run_file), 2, "the maximum is 1048576");
}

TEST(Syntax, FolderAndMissingFileAreNamed) {
  testing::TempDir folder;
  EXPECT_ERROR_SAYS(read_toml(folder.path(), Origin::Kind::run_file), 2,
                    folder.path() + ": is a directory");
  EXPECT_ERROR_SAYS(read_toml(folder / "none.toml", Origin::Kind::run_file), 2,
                    (folder / "none.toml") + ": cannot be read: no such file");
}

TEST(Override, BareWordsAreStrings) {
  EXPECT_EQ(parse_override("run.name=abc").entries.at(0).value, Value("abc"));
  EXPECT_EQ(parse_override("run.out=../x/y").entries.at(0).value, Value("../x/y"));
  EXPECT_EQ(parse_override("run.name=").entries.at(0).value, Value(""));
  EXPECT_EQ(parse_override("train.steps=1_000").entries.at(0).value, Value(1000));
  EXPECT_EQ(parse_override("data.train=[\"a\", \"b\"]").entries.at(0).value, Value(List{"a", "b"}));
}

TEST(Override, DatesAndTimesAreStrings) {
  for (const std::string text :
       {"2025-11-30", "07:32:00", "2025-11-30T07:32:00", "2025-11-30T07:32:00Z"}) {
    const RawEntry entry = parse_override("run.name=" + text).entries.at(0);
    EXPECT_EQ(entry.value, Value(text));
    EXPECT_EQ(entry.source, text);
  }
  const Raw variable = parse_environment({"LAMINA_RUN__NAME=2025-11-30"});
  EXPECT_EQ(variable.entries.at(0).value, Value("2025-11-30"));
  EXPECT_ERROR_SAYS(parse_override("data.train=[2025-11-30]"), 2, "'data.train' is a date or time");
}

TEST(Override, InlineTableSetsItsKeys) {
  Raw raw = parse_override("model.rope_scaling={factor = 2}");
  EXPECT_EQ(raw.entries.at(0).key, "model.rope_scaling.factor");
  EXPECT_EQ(raw.entries.at(0).source, "");
}

TEST(Override, TextThatIsNotAnAssignmentIsRefused) {
  const std::string cases[] = {"a.b", "=1", "", ".a=1", "a..b=1", "a b=1"};
  for (const std::string& text : cases)
    EXPECT_USER_ERROR(parse_override(text), 2,
                      "--set " + text +
                          ": is not section.key=value\n"
                          "  eg: --set train.steps=100");
}

TEST(Override, BrokenListIsRefused) {
  EXPECT_USER_ERROR(parse_override("a.b=[1,"), 2,
                    "--set a.b=[1,: the value is not TOML 1.0: array: encountered end-of-file");
}

TEST(Environment, DoubleUnderscoreSeparatesSectionAndKey) {
  Raw raw = parse_environment({"LAMINA_MODEL__ROPE_SCALING__FACTOR=2.0", "LAMINA_PLUGIN_PATH=/x"});
  ASSERT_EQ(raw.entries.size(), 1u);
  EXPECT_EQ(raw.entries[0].key, "model.rope_scaling.factor");
}

TEST(Environment, NamesNearKeysAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"LAMINA_TRAIN_STEPS=10",
       "LAMINA_TRAIN_STEPS is not a lamina variable\n  did you mean LAMINA_TRAIN__STEPS?"},
      {"LAMINA_FAMILY=x",
       "LAMINA_FAMILY sets no key: variables set keys of sections\n  give it in a run file, or to "
       "train with --set family=..., or unset the variable"},
      {"LAMINA_CHECKPOINT_KEEP=3", "did you mean LAMINA_CHECKPOINT__KEEP?"},
      {"LAMINA_PLUGINPATH=/x", "did you mean LAMINA_PLUGIN_PATH?"},
      {"LAMINA__=1", "LAMINA__ is not LAMINA_SECTION__KEY"},
      {"LAMINA__TRAIN__STEPS=1", "LAMINA__TRAIN__STEPS is not LAMINA_SECTION__KEY"},
      {"LAMINA_TRAIN__=1", "LAMINA_TRAIN__ is not LAMINA_SECTION__KEY"},
      {"LAMINA_RUN__NAME=\xff", "LAMINA_RUN__NAME is '\\xff', which is not UTF-8"},
  };
  for (const auto& [variable, says] : cases) {
    SCOPED_TRACE(variable);
    EXPECT_ERROR_SAYS(parse_environment({variable}), 2, says);
  }
}

TEST(Environment, SwitchesHaveListedValues) {
  EXPECT_ERROR_SAYS(parse_environment({"LAMINA_GPU_TF32=yes"}), 2,
                    "LAMINA_GPU_TF32 is 'yes'\n  use 0 or 1, or unset it");
  EXPECT_ERROR_SAYS(parse_environment({"LAMINA_GPU_FP8=yes"}), 2,
                    "LAMINA_GPU_FP8 is 'yes'\n  use 0 or 1, or unset it");
  EXPECT_ERROR_SAYS(parse_environment({"LAMINA_CHECK=1"}), 2,
                    "LAMINA_CHECK is '1'\n  use max, or unset it");
  EXPECT_TRUE(parse_environment({"LAMINA_GPU_GRAPHS=", "LAMINA_PLUGIN_KERNELS=1"}).entries.empty());
}

TEST(Environment, VariablesOfOtherProgramsAreIgnored) {
  EXPECT_TRUE(parse_environment({"LAMINA_CHECK=max", "LAMINA_GOLDENS=/x", "LAMINA_PIN=0",
                                 "LAMINA_TRUST_PLUGINS=1", "LAMINA_CPU_ISA=avx2",
                                 "LAMINA_CPU_TILES=none", "LAMINA=x", "LAMINA_DIR=/x",
                                 "LAMINA_ACCEPT_GOLDENS=/x", "XLAMINA_TRAIN_STEPS=1"})
                  .entries.empty());
}

TEST(Environment, NamesThatBeginLikeAKeyGiveAWarning) {
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(parse_environment({"LAMINA_MODEL_HIDDEN_SIZE=8"}).entries.empty());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: LAMINA_MODEL_HIDDEN_SIZE has no effect; expected two underscores between "
            "section and key: LAMINA_MODEL__HIDDEN_SIZE\n");
}

TEST(Environment, KeysWithoutTheirSectionAndOptionsGiveAWarning) {
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(
      parse_environment({"LAMINA_SEED=1", "LAMINA_SEED=1", "LAMINA_STEPS=3", "LAMINA_DEVICE=cpu"})
          .entries.empty());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: LAMINA_SEED has no effect; expected LAMINA_RUN__SEED\n"
            "warning: LAMINA_STEPS has no effect; expected LAMINA_TRAIN__STEPS or "
            "LAMINA_SCHEDULE__STEPS\n"
            "warning: LAMINA_DEVICE has no effect; use the option --device\n");
}

}  // namespace
}  // namespace lamina::config
