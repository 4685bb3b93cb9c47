// The rules of the tree, and tests that the scripts which check them find violations.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "cli/shell/exit_codes.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace lamina {
namespace {

using lamina::testing::Finished;
using lamina::testing::run_process;
using lamina::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace fs = std::filesystem;

const std::string kSource = LAMINA_SOURCE_DIR;

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A small tree with the real table of layers.
class Tree {
 public:
  Tree() {
    folder_.write("docs/layers.txt", read(kSource + "/docs/layers.txt"));
    folder_.write("host/core/error.h", "#pragma once\n");
    folder_.write("host/config/key.h", "#pragma once\n");
    folder_.write("host/backends/cpu/norm/norm.h", "#pragma once\n");
    folder_.write("host/graph/graph.h", "#include \"core/error.h\"\n#include <dlfcn.h>\n");
    folder_.write("host/ops/split.cc", "bool is_scan = op->name == \"scan\";\n");
    folder_.write("host/decoder/graph/graph_builder.h",
                  "#pragma once\n#include \"core/error.h\"\n");
    folder_.write("host/decoder/model.cc", "#include \"decoder/graph/graph_builder.h\"\n");
    folder_.write("host/backends/cpu/norm/ops.cc",
                  "#include \"core/error.h\"\nbool is_norm = op.name == \"rms_norm\";\n");
    folder_.write("plugin_api/include/lamina/abi.h", "// llama is a citation\n");
    folder_.write("plugins/gpt_oss/model.cc", "");
    folder_.write("plugins/qwen/model.cc", "ModelDef m{.name = \"special\"};\n");
    folder_.write("plugins/llama/config.h", "");
    folder_.write("plugins/llama/model.cc", "#include \"config.h\"\n#include \"lamina/abi.h\"\n");
  }
  void write(const std::string& name, const std::string& text) { folder_.write(name, text); }
  Finished check() { return run_process({kSource + "/scripts/check_layers", folder_.path()}); }

 private:
  TempDir folder_;
};

TEST(Layers, HoldInThisTree) {
  Finished result = run_process({kSource + "/scripts/check_layers"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

TEST(Layers, RightTreePasses) {
  Finished result = Tree().check();
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_EQ(result.out, "layers: fine\n");
}

TEST(Layers, NameFoldersThatExist) {
  std::istringstream lines(read(kSource + "/docs/layers.txt"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, word;
    words >> kind;
    if (kind.empty() || kind == "#") continue;
    if (kind == "vendor") words >> word;  // the headers
    while (words >> word) {
      if (word.back() == ':') word.pop_back();
      EXPECT_TRUE(fs::is_directory(kSource + "/" + word)) << line << "\n" << word;
    }
  }
}

struct Violation {
  std::string file, text, says;
};

TEST(Layers, ViolationsAreNamedWithLine) {
  const Violation cases[] = {
      {"host/core/dtype.h", "\n#include \"graph/graph.h\"\n",
       "host/core/dtype.h:2: host/core may not include host/graph/graph.h\n"},
      {"plugins/simple/model.cc", "#include \"core/error.h\"\n",
       "plugins/simple/model.cc:1: plugins may not include host/core/error.h\n"},
      {"plugins/simple/model.cc", "#include \"../llama/config.h\"\n",
       "plugins/simple/model.cc:1: plugins may not include plugins/llama/config.h\n"},
      {"host/graph/node.cc", "#include <dnnl.hpp>\n",
       "host/graph/node.cc:1: host/graph may not include <dnnl.hpp>\n"},
      {"host/extra/x.cc", "#include \"core/error.h\"\n",
       "host/extra/x.cc:1: the folder is not in docs/layers.txt\n"},
      {"host/train/run.cc", "#include \"backends/cpu/norm/norm.h\"\n",
       "host/train/run.cc:1: host/train may not include host/backends/cpu/norm/norm.h\n"},
      {"host/backends/cpu/norm/ops.cc", "#include \"config/key.h\"\n",
       "host/backends/cpu/norm/ops.cc:1: host/backends/cpu may not include host/config/key.h\n"},
      {"host/graph/node.cc", "/* no */ int qwen3;\n", "host/graph/node.cc:1:  int qwen3;"},
      {"host/graph/node.cc", "int gpt_oss;\n", "<- names a model family\n"},
      {"host/graph/node.cc", "int special;\n", "<- names a model family\n"},
      {"host/decoder/stack/plan.cc", "#include \"decoder/graph/graph_builder.h\"\n",
       "host/decoder/stack/plan.cc:1: host/decoder/stack may not include "
       "host/decoder/graph/graph_builder.h\n"},
      {"host/program/run.cc", "#include \"decoder/graph/graph_builder.h\"\n",
       "host/program/run.cc:1: host/program may not include host/decoder/graph/graph_builder.h\n"},
      {"host/train/step.cc", "bool is_scan(const Op* op) { return op->name == \"scan\"; }\n",
       "host/train/step.cc:1: bool is_scan(const Op* op) { return op->name == \"scan\"; }"
       "   <- knows an op by its name\n"},
      {"host/cli/plan.cc", "if (op != \"scan\") return;\n", "<- knows an op by its name\n"},
      {"host/train/step.cc", "bool loops = op->code == OpCode::scan;\n",
       "host/train/step.cc:1: bool loops = op->code == OpCode::scan;"
       "   <- knows an op by its code; ask for a fact of its OpDef\n"},
      {"scripts/lists/op_code_users.txt", "host/train/step.cc: it is special\n",
       "scripts/lists/op_code_users.txt: host/train/step.cc knows no op by its code\n"},
      {"scripts/lists/op_code_users.txt", "host/train/step.cc:\n",
       "scripts/lists/op_code_users.txt: host/train/step.cc has no reason\n"},
      {"host/train/step.cc", "ValueId w = node.inputs[1];\n",
       "host/train/step.cc:1: ValueId w = node.inputs[1];"
       "   <- knows an operand by its number; use its name in ops/operands.h\n"},
      {"host/train/step.cc", "auto y = ops::call(\"exp\", {x});\n",
       "host/train/step.cc:1: auto y = ops::call(\"exp\", {x});   <- calls an op by its name"},
      {"host/ops/op.cc", "auto y = call_all(\n    \"exp\", {x});\n", "<- calls an op by its name"},
      {"host/train/step.cc", "if (bad) throw Surprise(\"x\");\n",
       "host/train/step.cc:1: if (bad) throw Surprise(\"x\");   <- throws Surprise; use a class of "
       "core/error.h, or list it in scripts/lists/exception_classes.txt\n"},
      {"scripts/lists/exception_classes.txt", "Surprise host/train: it is special\n",
       "scripts/lists/exception_classes.txt: Surprise is not thrown in host/train\n"},
      {"scripts/lists/exception_classes.txt", "Surprise host/train: it is special\n",
       "scripts/lists/exception_classes.txt: Surprise is not caught in host/train\n"},
      {"scripts/lists/exception_classes.txt", "Surprise\n",
       "scripts/lists/exception_classes.txt: expected CLASS FOLDER: REASON, got: Surprise\n"},
      {"plugins/llama/fast.cc", "\nbool cuda = true;\n", "plugins/llama/fast.cc:2: bool cuda"},
  };
  for (const Violation& c : cases) {
    Tree tree;
    tree.write(c.file, c.text);
    Finished result = tree.check();
    EXPECT_EQ(result.code, 1) << c.text;
    EXPECT_THAT(result.out, HasSubstr(c.says));
  }
}

TEST(Layers, UnknownLinesOfTheTableAreNamed) {
  Tree tree;
  tree.write("docs/layers.txt", "flor host/core\n" + read(kSource + "/docs/layers.txt"));
  Finished result = tree.check();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("docs/layers.txt: expected floor, only, forbid or vendor, got: "
                                    "flor host/core\n"));
}

TEST(Layers, FilesThatAreListedMayKnowAnOpByItsCode) {
  Tree tree;
  tree.write("scripts/lists/op_code_users.txt",
             "# path: reason\nhost/train/step.cc: it is special\n");
  tree.write("host/train/step.cc", "bool loops = op->code == OpCode::scan;\n");
  EXPECT_EQ(tree.check().out, "layers: fine\n");
}

TEST(Layers, ClassesThatAreListedMayBeThrownInTheirFolder) {
  Tree tree;
  tree.write("scripts/lists/exception_classes.txt",
             "# CLASS FOLDER: REASON\nSurprise host/train: it is special\n");
  tree.write("host/train/step.cc", "if (bad) throw Surprise(1);\n");
  tree.write("host/train/loop.cc", "} catch (const train::Surprise& surprise) {\n");
  EXPECT_EQ(tree.check().out, "layers: fine\n");
  tree.write("host/cli/run.cc", "if (bad) throw Surprise(1);\n");
  EXPECT_THAT(tree.check().out, StartsWith("host/cli/run.cc:1: if (bad) throw Surprise(1);"));
}

TEST(Layers, ClassesDerivedFromTheFourMayBeThrown) {
  Tree tree;
  tree.write("host/train/step.h", "class BadStep : public UserError {};\n");
  tree.write("host/train/step.cc", "throw train::BadStep(text);\nthrow UserError(code, text);\n");
  EXPECT_EQ(tree.check().out, "layers: fine\n");
}

TEST(Layers, TypesOfTheHostHaveUniqueNames) {
  Tree tree;
  tree.write("host/train/step.h", "namespace lamina::train {\n\nstruct Part {\n};\n");
  tree.write("host/train/step.cc", "namespace {\n\nstruct Local {};\n\n}  // namespace\n");
  tree.write("host/data/part.cc", "namespace {\nclass Part {};\nstruct Local {};\n");
  tree.write("host/data/part.h", "struct Part;  // of another file\nusing Part = train::Part;\n");
  EXPECT_EQ(tree.check().out, "layers: fine\n");
  tree.write("host/text/part.h", "enum class Part { none };\n");
  EXPECT_EQ(tree.check().out,
            "type Part has several meanings: host/text/part.h:1 host/train/step.h:3"
            "   <- give each a name of its kind\n");
  tree.write("scripts/lists/shared_type_names.txt", "Part: the term of both fields\n");
  EXPECT_EQ(tree.check().out, "layers: fine\n");
  tree.write("scripts/lists/shared_type_names.txt",
             "Part: the term of both fields\nStep: likewise\n");
  EXPECT_EQ(tree.check().out, "scripts/lists/shared_type_names.txt: Step is the name of no type\n");
}

TEST(Layers, CommentsAndTheRopeScalingMayNameAFamily) {
  Tree tree;
  tree.write("host/graph/node.cc",
             "int x;  // as in gemma\n/* qwen\n   mistral */\n"
             "const char* scaling = \"llama3\";\n");
  EXPECT_EQ(tree.check().code, 0);
}

// A small tree for scripts/check_prose.
class Prose {
 public:
  void write(const std::string& name, const std::string& text) { folder_.write(name, text); }
  Finished check(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {kSource + "/scripts/check_prose", "--tree", folder_.path()};
    words.insert(words.end(), more.begin(), more.end());
    return run_process(words);
  }

 private:
  TempDir folder_;
};

TEST(Prose, PlainSentencesPass) {
  Prose tree;
  tree.write("host/core/row.h",
             "// Returns the tokens of a row, one of which is the first. `goes into` is code.\n"
             "// What is the longest row? A question may begin with any word.\n"
             "// A file of so many rows that they are divided.\n"
             "const char* kHelp = \"cannot be combined with --chat\";  // it's\n"
             "const char kQuote = '\"'; int goes_into_row = 1'000;\n");
  tree.write("docs/rows.md", "# What a row is\n\nA row is\n\n```\nWhat stands in code\n```\n");
  tree.write("tests/core/row_test.cc",
             "const char* kFound = \"what the product tells\";\nTEST(Row, OfAFileIsRead) {}\n");
  Finished result = tree.check();
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_EQ(result.out, "prose: fine\n");
}

TEST(Prose, EveryPlaceIsReadAndNamedWithLine) {
  const Violation cases[] = {
      {"host/core/a.h", "int x;\n// Rows. What a row has.\n", "host/core/a.h:2: \"What\": "},
      {"host/core/a.h", "// The row goes\n// into the file.\n", "host/core/a.h:1: \"goes into\": "},
      {"host/core/a.h", "int x;  // one is nobody\n        // told\n",
       "host/core/a.h:2: \"told\": "},
      {"host/core/a.cc", "/* A\n * row that somebody has. */\n",
       "host/core/a.cc:2: \"somebody\": "},
      {"plugins/p/a.cc", "f(\"one \\\"row\\\" lies \"\n  \"in {}\");\n",
       "plugins/p/a.cc:1: \"lies in\": "},
      {"host/core/a.cc", "auto s = R\"(a\nthat is told)\";\n", "host/core/a.cc:2: \"told\": "},
      {"host/core/a.def", "ROW(\"a\", \"Rows.\\nWhether it is one.\")\n", "a.def:1: \"Whether\": "},
      {"tests/core/a.cc", "\n// Of a row.\n", "tests/core/a.cc:2: \"Of\": "},
      {"tests/core/a.cc", "\nTEST(Row, KeysAreThoseOfTheFile) {\n",
       "tests/core/a.cc:2: \"those of\": "},
      {"tests/core/a.cc", "TEST_F(Row, AChangedFileIsSaid) {\n",
       "tests/core/a.cc:1: \"is said\": "},
      {"docs/a.md", "Rows\nand those\nof tables.\n", "docs/a.md:2: \"those of\": "},
      {"docs/a.md", "| say | why |\n|---|---|\n| x | Where it is |\n", "docs/a.md:3: \"Where\": "},
      {"README.md", "- one thing\n- What is another.\n", "README.md:2: \"What\": "},
      {"scripts/run", "#!/bin/sh\n# What runs.\necho \"a file is told\"\n",
       "scripts/run:2: \"What\": "},
      {"scripts/run", "#!/bin/sh\necho \"a file is told\"\n", "scripts/run:2: \"told\": "},
      {"host/core/CMakeLists.txt", "add(x)  # Of a row.\n", "host/core/CMakeLists.txt:1: \"Of\": "},
      {"configs/a.toml", "# Whose row.\n", "configs/a.toml:1: \"Whose\": "},
  };
  for (const Violation& c : cases) {
    Prose tree;
    tree.write(c.file, c.text);
    Finished result = tree.check();
    EXPECT_EQ(result.code, 1) << c.text;
    EXPECT_THAT(result.out, HasSubstr(c.says)) << c.text << result.err;
  }
}

TEST(Prose, EveryPatternFindsItsSentence) {
  const std::vector<std::string> sentences = {
      "What a row has.",
      "Of a row.",
      "Whether it is a row.",
      "Where a row ends, a file begins.",
      "Whoever reads this.",
      "How many rows a file has.",
      "It goes into a file.",
      "They go with a file.",
      "They went on.",
      "It lies in a file.",
      "It stands in a file.",
      "It tells a fact.",
      "They tell of a fact.",
      "Nothing that nobody has.",
      "Given to who asks.",
      "Given to whoever is first.",
      "It has a row of its own.",
      "The row is that of a file.",
      "It is left as that is.",
      "As far as it is long.",
      "It begins with one of the system.",
      "Weight in what is minimised.",
      "Nothing comes of it.",
      "The rule says what becomes of rows.",
      "It does not say of rows.",
      "They are of a file.",
      "A file, of which the rows are read.",
      "It is written with what is left.",
      "The file that the row is of.",
      "Half as many must be there.",
      "A row is not there.",
      "It has one a row.",
      "It depends upon a row.",
      "A file and the rows therein.",
      "It holds no row.",
      "left out: no row",
      "Set the key, or leave it out.",
      "Rows and the like.",
      "It fails, there being no row.",
      "All but for rows.",
      "It reads a file of so many rows.",
  };
  std::string page;
  for (const std::string& sentence : sentences) page += sentence + "\n\n";
  Prose tree;
  tree.write("docs/a.md", page);
  Finished result = tree.check();
  for (std::size_t i = 0; i < sentences.size(); ++i)
    EXPECT_THAT(result.out, HasSubstr(fmt::format("docs/a.md:{}: ", 2 * i + 1))) << sentences[i];

  std::istringstream script(read(kSource + "/scripts/check_prose"));
  std::size_t patterns = 0;
  for (std::string line; std::getline(script, line);)
    patterns += line.rfind("opening\t", 0) == 0 || line.rfind("any\t", 0) == 0;
  EXPECT_EQ(patterns, sentences.size());
}

TEST(Prose, AllowedSentenceIsNotReported) {
  Prose tree;
  tree.write("docs/a.md", "The paper says: rows of their own.\n\nRows of their own.\n");
  tree.write("scripts/lists/prose_allowed.txt",
             "# path | text | reason\ndocs/a.md | says: rows of their own | a citation\n");
  Finished result = tree.check();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, StartsWith("docs/a.md:3: "));
  tree.write("docs/a.md", "The paper says: rows of their own.\n");
  EXPECT_EQ(tree.check().out, "prose: fine\n");
}

TEST(Prose, AllowedSentenceMustHaveReasonAndBeNeeded) {
  Prose tree;
  tree.write("docs/a.md", "Rows.\n");
  tree.write("scripts/lists/prose_allowed.txt",
             "docs/a.md | of their own | a citation\ndocs/a.md | told\n");
  Finished result = tree.check();
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("scripts/lists/prose_allowed.txt:1: is not needed: docs/a.md"));
  EXPECT_THAT(result.out,
              HasSubstr("scripts/lists/prose_allowed.txt:2: expected \"path | text | reason\""));
}

TEST(Prose, OptionStringsLeavesCommentsAlone) {
  Prose tree;
  tree.write("host/core/a.cc", "// What is told.\nf(\"a row is told\");\n");
  EXPECT_THAT(tree.check({"--strings"}).out, StartsWith("host/core/a.cc:2: "));
}

TEST(Comments, NameFilesThatExist) {
  const std::regex comment("^ *(//|/?\\*)(.*)|  //(.*)"),
      name("[^\"a-z0-9_/]((?:[a-z0-9_]+/)+[a-z0-9_]+\\.(?:h|cc|cu|cuh))\\b");
  const std::string roots[] = {"",
                               "/host",
                               "/host/backends/cpu",
                               "/host/backends/cuda",
                               "/plugin_api/include",
                               "/plugin_api/include/lamina",
                               "/tests"};
  std::size_t checked = 0;
  for (const char* folder : {"/host", "/plugins", "/plugin_api/include", "/tests"})
    for (const auto& entry : fs::recursive_directory_iterator(kSource + folder)) {
      if (entry.path().extension() != ".h" && !entry.path().extension().string().starts_with(".c"))
        continue;
      std::istringstream lines(read(entry.path().string()));
      for (std::string line; std::getline(lines, line);) {
        std::smatch words, found;
        if (!std::regex_search(line, words, comment)) continue;
        const std::string text = words.str();
        if (!std::regex_search(text, found, name)) continue;
        ++checked;
        const std::string cited = "/" + found.str(1);
        EXPECT_TRUE(std::ranges::any_of(roots,
                                        [&](const std::string& root) {
                                          return fs::exists(kSource + root + cited);
                                        }) ||
                    fs::exists(entry.path().parent_path().string() + cited) ||
                    fs::exists(entry.path().parent_path().parent_path().string() + cited) ||
                    fs::exists(LAMINA_BUILD_DIR "/host/ops/generated" + cited))
            << entry.path() << " names " << found.str(1);
      }
    }
  EXPECT_GT(checked, 100u);
}

TEST(Readme, ListsTheFoldersOfTheHost) {
  const std::string page = read(kSource + "/README.md");
  const std::size_t begin = page.find("\nhost/ "), end = page.find("\nexamples/ ", begin);
  ASSERT_LT(end, page.size());
  const std::string tree = page.substr(begin, end - begin);
  for (const auto& entry : fs::directory_iterator(kSource + "/host"))
    if (entry.is_directory()) {
      EXPECT_TRUE(std::regex_search(
          tree, std::regex("[\n ]" + entry.path().filename().string() + "[ \n/]")))
          << entry.path();
    }
}

TEST(ExitCodes, PageHasTheTableOfTheProgram) {
  std::string page = read(kSource + "/docs/exit_codes.md");
  for (const cli::ExitCodeMeaning& row : cli::exit_codes())
    EXPECT_THAT(page, HasSubstr(fmt::format("\n| {} | {} | {} |\n", static_cast<int>(row.code),
                                            row.name, row.meaning)));
}

// GCC leaves unwind entries for cold parts that turned out empty. A linker that keeps one beside
// the entry of the function at the same address (mold 1.10 does) hides that function from the
// unwinder: an exception from it ends the process despite any handler.
TEST(Build, NoUnwindEntryIsHiddenByAnEmptyOne) {
  Finished result = lamina::testing::run_shell(
      "readelf --debug-dump=frames " LAMINA_BUILD_DIR
      "/bin/lamina | sed -nE 's/.* pc=([0-9a-f]+)\\.\\.([0-9a-f]+)$/\\1 \\2/p' |"
      "awk '{ ++all; if ($1 == $2) empty[$1] = 1; else full[$1] = 1 }"
      "     END { for (at in empty) hidden += at in full; print (all > 1000), hidden + 0 }'");
  EXPECT_EQ(result.out, "1 0\n") << result.err;
}

// The commands of compile_commands.json, without the path of the build folder.
std::set<std::string> compile_commands(const std::string& build) {
  std::set<std::string> commands;
  std::istringstream lines(read(build + "/compile_commands.json"));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"command\":") == std::string::npos) continue;
    for (std::size_t at; (at = line.find(build)) != std::string::npos;)
      line.replace(at, build.size(), "BUILD");
    commands.insert(line);
  }
  return commands;
}

// scripts/quickstart and scripts/test build in two folders. The second one must find all objects of
// the program in the compiler cache.
TEST(Build, ProgramIsCompiledAlikeWithAndWithoutTests) {
  const std::string cache = read(LAMINA_BUILD_DIR "/CMakeCache.txt");
  if (cache.find("LAMINA_PRECOMPILE:BOOL=ON\n") == std::string::npos)
    GTEST_SKIP() << "this build has other options than the preset 'test'";
  TempDir folder;
  Finished configured =
      run_process({"cmake", "--preset", "release", "-S", kSource, "-B", folder.path()});
  ASSERT_EQ(configured.code, 0) << configured.out << configured.err;
  const std::set<std::string> release = compile_commands(folder.path()),
                              test = compile_commands(LAMINA_BUILD_DIR);
  EXPECT_GT(release.size(), 500u);
  for (const std::string& command : release) EXPECT_EQ(test.count(command), 1u) << command;
}

TEST(Scripts, AreExecutableAndParse) {
  std::vector<std::string> scripts = {kSource + "/tests/fixtures/plugins/build"};
  for (const char* folder : {"/scripts", "/.ci"})
    for (const auto& entry : std::filesystem::directory_iterator(kSource + folder))
      if (entry.is_regular_file()) scripts.push_back(entry.path().string());
  EXPECT_GT(scripts.size(), 10u);
  for (const std::string& script : scripts) {
    EXPECT_EQ(access(script.c_str(), X_OK), 0) << script;
    if (script.ends_with(".py")) {  // a tool for developers: tests need no Python
      EXPECT_THAT(read(script), StartsWith("#!/usr/bin/env python3\n")) << script;
      continue;
    }
    EXPECT_THAT(read(script), StartsWith("#!/usr/bin/env bash\n")) << script;
    EXPECT_EQ(run_process({"bash", "-n", script}).code, 0) << script;
  }
}

}  // namespace
}  // namespace lamina
