// The rules of the tree, and that the scripts which check them would notice.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

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
    folder_.write("host/graph/graph.h", "#include \"core/error.h\"\n#include <dlfcn.h>\n");
    folder_.write("host/ops/split.cc", "bool is_scan = op->name == \"scan\";\n");
    folder_.write("host/decoder/graph/assembler.h", "#pragma once\n#include \"core/error.h\"\n");
    folder_.write("host/decoder/model.cc", "#include \"decoder/graph/assembler.h\"\n");
    folder_.write("host/backends/cpu/norm/ops.cc",
                  "#include \"core/error.h\"\nbool is_norm = op.name == \"rms_norm\";\n");
    folder_.write("plugin_api/include/lamina/abi.h", "// llama is a citation\n");
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
      {"host/graph/node.cc", "/* no */ int qwen3;\n", "host/graph/node.cc:1:  int qwen3;"},
      {"host/graph/node.cc", "int gpt_oss;\n", "<- names a model family\n"},
      {"host/decoder/stack/plan.cc", "#include \"decoder/graph/assembler.h\"\n",
       "host/decoder/stack/plan.cc:1: host/decoder/stack may not include "
       "host/decoder/graph/assembler.h\n"},
      {"host/program/run.cc", "#include \"decoder/graph/assembler.h\"\n",
       "host/program/run.cc:1: host/program may not include host/decoder/graph/assembler.h\n"},
      {"host/train/step.cc", "bool is_scan(const Op* op) { return op->name == \"scan\"; }\n",
       "host/train/step.cc:1: bool is_scan(const Op* op) { return op->name == \"scan\"; }"
       "   <- knows an op by its name\n"},
      {"host/cli/plan.cc", "if (op != \"scan\") return;\n", "<- knows an op by its name\n"},
      {"host/train/step.cc", "auto y = ops::call(\"exp\", {x});\n",
       "host/train/step.cc:1: auto y = ops::call(\"exp\", {x});   <- calls an op by its name"},
      {"host/ops/op.cc", "auto y = call_all(\n    \"exp\", {x});\n", "<- calls an op by its name"},
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

TEST(Layers, CommentsAndTheRopeScalingMayNameAFamily) {
  Tree tree;
  tree.write("host/graph/node.cc",
             "int x;  // as in gemma\n/* qwen\n   mistral */\n"
             "const char* scaling = \"llama3\";\n");
  EXPECT_EQ(tree.check().code, 0);
}

TEST(ExitCodes, PageHasTheTableOfTheProgram) {
  std::string page = read(kSource + "/docs/exit_codes.md");
  for (const cli::ExitCodeMeaning& row : cli::exit_codes())
    EXPECT_THAT(page, HasSubstr(fmt::format("\n| {} | {} | {} |\n", static_cast<int>(row.code),
                                            row.name, row.meaning)));
}

// GCC leaves unwind entries for cold parts that turned out empty. A linker that keeps one beside
// the entry of the function at the same address (mold 1.10 does) hides that function from the
// unwinder: what it throws ends the process, whoever would have caught it.
TEST(Build, NoUnwindEntryIsHiddenByAnEmptyOne) {
  Finished result = lamina::testing::run_shell(
      "readelf --debug-dump=frames " LAMINA_BUILD_DIR
      "/bin/lamina | sed -nE 's/.* pc=([0-9a-f]+)\\.\\.([0-9a-f]+)$/\\1 \\2/p' |"
      "awk '{ ++all; if ($1 == $2) empty[$1] = 1; else full[$1] = 1 }"
      "     END { for (at in empty) hidden += at in full; print (all > 1000), hidden + 0 }'");
  EXPECT_EQ(result.out, "1 0\n") << result.err;
}

TEST(Scripts, AreExecutableAndParse) {
  std::vector<std::string> scripts = {kSource + "/tests/fixtures/plugins/build"};
  for (const char* folder : {"/scripts", "/.ci"})
    for (const auto& entry : std::filesystem::directory_iterator(kSource + folder))
      if (entry.is_regular_file()) scripts.push_back(entry.path().string());
  EXPECT_GT(scripts.size(), 10u);
  for (const std::string& script : scripts) {
    EXPECT_EQ(access(script.c_str(), X_OK), 0) << script;
    EXPECT_THAT(read(script), StartsWith("#!/usr/bin/env bash\n")) << script;
    EXPECT_EQ(run_process({"bash", "-n", script}).code, 0) << script;
  }
}

}  // namespace
}  // namespace lamina
