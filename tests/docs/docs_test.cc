// Executes the contents of the README and the pages of docs/: shell blocks run, sessions print the
// shown output, run files are accepted, and code is quoted from files that the build compiles.
//
//   ```sh         run by bash in a directory that looks like the root of the tree; must exit with 0
//   ```console    "$ command" and its output, which must match; "..." is any number of lines
//   ```toml       a run file or, without [data], a model file; lamina must accept it
//   ```cpp        after <!-- from FILE -->: lines of that file of the tree, or of the test's build;
//                 after <!-- new ... --> or <!-- into ... -->: page.h, built by AddAnOp.*
//
// The blocks of a page run in one directory, in order. <!-- built: NAME --> puts the test plugin
// NAME where its author would have built it. The tables below list blocks that are not run, with
// the reason.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <sstream>

#include "docs/page.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace lamina {
namespace {

using lamina::testing::Addition;
using lamina::testing::additions_of;
using lamina::testing::Block;
using lamina::testing::Finished;
using lamina::testing::lines_of;
using lamina::testing::marked;
using lamina::testing::run_shell;
using lamina::testing::TempDir;
using lamina::testing::text_of;

namespace fs = std::filesystem;

const fs::path kSource = LAMINA_SOURCE_DIR, kBuild = LAMINA_BUILD_DIR;

// The page whose code is added to the tree and built.
const std::string kAddAnOp = "docs/add_an_op.md";

std::vector<Block> blocks_of(const std::string& page) {
  return lamina::testing::blocks_of(kSource, page);
}

// A block whose first line begins with this text is not run.
struct Exception {
  std::string page, begins, reason;
};
const Exception kNotRun[] = {
    {"README.md", "scripts/quickstart", "installs packages and builds"},
    {"CONTRIBUTING.md", "scripts/test", "installs packages and builds"},
    {"docs/add_a_model.md", "lamina plugin new",
     "PluginTemplate.* does the same with the installed tree"},
    {"docs/add_an_op.md", "cmake --preset dev", "configures and builds"},
    {"docs/benchmarks.md", "build/release/bin/lamina bench", "measures for minutes"},
    {"docs/cuda.md", "cmake --preset cuda", "needs nvcc, and builds for minutes"},
    {"docs/cuda.md", "nvcc", "needs nvcc"},
    {"docs/cuda.md", "cmake --build --preset test", "needs nvcc and a GPU"},
    {"docs/cuda.md", "# With the tree", "needs a GPU"},
    {"docs/debugging_a_model.md", "lamina plugin new",
     "needs an installation; the session runs with the same plugins from the build"},
    {"docs/engram.md", "lamina bench train", "needs tables of gigabytes"},
    {"docs/gguf.md", "lamina decode", "needs a published model"},
    {"docs/from_maxtext.md", "lamina config import", "needs the files of MaxText"},
    {"docs/finetuning.md", "lamina plan", "needs a published model"},
    {"docs/images.md", "lamina decode", "needs a published model"},
    {"docs/reliability.md", "scripts/torture", "attacks a build for minutes"},
};

// Blocks run with these texts replaced, so that they take seconds.
struct Replacement {
  std::string page, from, to;
};
const Replacement kReplaced[] = {
    {"README.md", "steps = 300", "steps = 2"},
    {"README.md", "-n 200", "-n 2"},
    {"docs/verify.md", "CASE", "tests/golden/hf/llama3_gqa"},
};

// Pages without executed blocks.
const Exception kPagesNotRun[] = {
    {"docs/ops.md", "", "generated"},
    {"docs/config.md", "", "generated; compared by Listing.*"},
};

std::vector<std::string> pages() {
  std::vector<std::string> out = {"README.md", "CONTRIBUTING.md"};
  for (const auto& entry : fs::directory_iterator(kSource / "docs"))
    if (entry.path().extension() == ".md")
      out.push_back("docs/" + entry.path().filename().string());
  std::erase_if(out, [](const std::string& page) {
    return std::ranges::find(kPagesNotRun, page, &Exception::page) != std::end(kPagesNotRun);
  });
  std::ranges::sort(out);
  return out;
}

bool is_run(const Block& block) {
  return std::ranges::none_of(kNotRun, [&](const Exception& e) {
    return e.page == block.page && block.lines.at(0).starts_with(e.begins);
  });
}

// A directory that looks like the root of a built tree, with lamina in the PATH.
class Root {
 public:
  Root() {
    for (const char* name : {"configs", "plugins", "scripts", "tests"})
      fs::create_directory_symlink(kSource / name, folder_ / name);
    fs::create_directories(folder_ / "build/release/bin");
    fs::create_symlink(kBuild / "bin/lamina", folder_ / "build/release/bin/lamina");
    folder_.write("build/quickstart/bible.txt", text_of(kSource / "docs/reliability.md"));
  }

  Finished run(const std::string& script) const {
    return run_shell("set -euo pipefail\nexport PATH=\"$PWD/build/release/bin:$PATH\"\n" + script,
                     {.environment = {"NO_COLOR=1"}, .folder = folder_.path()});
  }

  // Places a plugin as if its author had built it here.
  void place_plugin(const std::string& test_plugin) const {
    const fs::path to = folder_ / "build/lib/lamina/plugins/experts.lamina.so";
    fs::create_directories(to.parent_path());
    fs::copy_file(kBuild / "tests/plugins" / (test_plugin + ".lamina.so"), to,
                  fs::copy_options::overwrite_existing);
  }

  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }

 private:
  TempDir folder_;
};

std::string replaced(const Block& block) {
  std::string text = block.text();
  for (const Replacement& r : kReplaced) {
    if (r.page != block.page) continue;
    for (std::size_t at = 0; (at = text.find(r.from, at)) != std::string::npos; at += r.to.size())
      text.replace(at, r.from.size(), r.to);
  }
  return text;
}

// True if the printed word is the shown word; for numbers, to a tenth: machines round differently.
bool same_word(const std::string& shown, const std::string& printed) {
  if (shown == printed) return true;
  char *shown_end = nullptr, *printed_end = nullptr;
  const double a = std::strtod(shown.c_str(), &shown_end);
  const double b = std::strtod(printed.c_str(), &printed_end);
  if (shown_end == shown.c_str() || std::string(shown_end) != printed_end) return false;
  return std::abs(a - b) <= 0.1 * std::max(std::abs(a), std::abs(b));
}

bool same_line(const std::string& shown, const std::string& printed) {
  std::istringstream a(shown), b(printed);
  std::string word_a, word_b;
  while (true) {
    const bool more_a(a >> word_a), more_b(b >> word_b);
    if (more_a != more_b) return false;
    if (!more_a) return true;
    if (!same_word(word_a, word_b)) return false;
  }
}

// True if `printed` has the shown lines, with any lines in place of "...".
bool same_output(std::span<const std::string> shown, std::span<const std::string> printed) {
  if (shown.empty()) return printed.empty();
  if (shown[0] == "...") {
    for (std::size_t skip = 0; skip <= printed.size(); ++skip)
      if (same_output(shown.subspan(1), printed.subspan(skip))) return true;
    return false;
  }
  return !printed.empty() && same_line(shown[0], printed[0]) &&
         same_output(shown.subspan(1), printed.subspan(1));
}

// Runs each "$ command" of a session; a command continues after a backslash at the end of a line.
void run_session(const Root& root, const Block& block) {
  for (std::size_t i = 0; i < block.lines.size();) {
    ASSERT_TRUE(block.lines[i].starts_with("$ ")) << block.where() << ": " << block.lines[i];
    std::string command = block.lines[i].substr(2) + "\n";
    for (; block.lines[i].ends_with('\\'); ++i) command += block.lines.at(i + 1) + "\n";
    const std::size_t first = ++i;
    while (i < block.lines.size() && !block.lines[i].starts_with("$ ")) ++i;
    const Finished result = root.run("set +e\n" + command);
    const std::vector<std::string> printed = lines_of(result.out + result.err);
    EXPECT_TRUE(same_output(std::span(block.lines).subspan(first, i - first), printed))
        << block.where() << ": " << command << "prints:\n"
        << result.out << result.err;
  }
}

class DocsPage : public ::testing::TestWithParam<std::string> {};

TEST_P(DocsPage, CommandsRun) {
  const Root root;
  for (const Block& block : blocks_of(GetParam())) {
    if (const std::string plugin = marked(block, "built:"); !plugin.empty())
      root.place_plugin(plugin);
    if (block.language == "console") run_session(root, block);
    if (block.language != "sh" || !is_run(block)) continue;
    const Finished result = root.run(replaced(block));
    EXPECT_EQ(result.code, 0) << block.where() << ":\n" << result.out << result.err;
  }
}

TEST_P(DocsPage, RunFilesAreAccepted) {
  const Root root;
  for (const Block& block : blocks_of(GetParam())) {
    if (block.language != "toml") continue;
    const std::string file = root.write("shown.toml", block.text());
    const bool run_file = block.text().find("[data]") != std::string::npos;
    const Finished result =
        root.run(run_file ? "lamina config show " + file : "lamina plan " + file);
    EXPECT_EQ(result.code, 0) << block.where() << ": " << result.err;
  }
}

// Removes the common indentation of lines.
std::vector<std::string> dedented(std::vector<std::string> lines) {
  std::size_t indent = std::string::npos;
  for (const std::string& line : lines)
    if (!line.empty()) indent = std::min(indent, line.find_first_not_of(' '));
  for (std::string& line : lines)
    if (!line.empty()) line.erase(0, indent);
  return lines;
}

bool has_lines(const std::vector<std::string>& file, const std::vector<std::string>& wanted) {
  for (std::size_t at = 0; at + wanted.size() <= file.size(); ++at) {
    const auto begin = file.begin() + static_cast<std::ptrdiff_t>(at);
    if (dedented({begin, begin + static_cast<std::ptrdiff_t>(wanted.size())}) == wanted)
      return true;
  }
  return false;
}

TEST_P(DocsPage, CodeEqualsTheTree) {
  for (const Block& block : blocks_of(GetParam())) {
    if (block.language != "cpp") continue;
    const bool added = !marked(block, "new").empty() || !marked(block, "into").empty();
    if (added && GetParam() == kAddAnOp) continue;
    const std::string from = marked(block, "from");
    ASSERT_FALSE(from.empty()) << block.where() << ": write <!-- from FILE --> before it";
    const fs::path made = kBuild / "tests/docs" / from;
    const fs::path file = fs::exists(kSource / from) ? kSource / from : made;
    EXPECT_TRUE(has_lines(lines_of(text_of(file)), dedented(block.lines)))
        << block.where() << ": these are not lines of " << from;
  }
}

TEST_P(DocsPage, BlocksHaveAKnownLanguage) {
  for (const Block& block : blocks_of(GetParam()))
    EXPECT_THAT((std::vector<std::string>{"", "console", "cpp", "json", "mermaid", "sh", "toml"}),
                ::testing::Contains(block.language))
        << block.where();
}

INSTANTIATE_TEST_SUITE_P(, DocsPage, ::testing::ValuesIn(pages()), [](const auto& page) {
  std::string name = fs::path(page.param).stem().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

// The cost of an op, according to docs/add_an_op.md.
struct Cost {
  std::set<std::string> new_files, edited_files;
  std::size_t edited_lines = 0;
};

Cost cost_of(const std::string& section) {
  Cost out;
  for (const Addition& addition : additions_of(kSource, kAddAnOp)) {
    if (addition.block.section != section) continue;
    (addition.makes_file() ? out.new_files : out.edited_files).insert(addition.file);
    if (!addition.makes_file()) out.edited_lines += addition.block.lines.size();
  }
  return out;
}

TEST(AddAnOp, AnElementwiseOpIsTwoFilesAndOneLine) {
  const Cost cost = cost_of("An elementwise op");
  EXPECT_EQ(cost.new_files.size(), 2u);
  EXPECT_EQ(cost.edited_files.size(), 1u);
  EXPECT_EQ(cost.edited_lines, 1u);
}

TEST(AddAnOp, AMixerWithDecodeStateIsAtMostFiveFiles) {
  const Cost cost = cost_of("A mixer with decode state");
  EXPECT_GE(cost.new_files.size(), 2u);
  EXPECT_LE(cost.new_files.size() + cost.edited_files.size(), 5u);
}

// "39, softsign" in "LAMINA_OP(39, softsign, ...": else the page would show an existing op.
TEST(AddAnOp, NumbersAndNamesAreFree) {
  const std::string rows = text_of(kSource / "plugin_api/include/lamina/ops.def");
  int seen = 0;
  for (const Addition& addition : additions_of(kSource, kAddAnOp)) {
    const std::string& line = addition.block.lines.at(0);
    if (!line.starts_with("LAMINA_OP(")) continue;
    ++seen;
    const std::size_t comma = line.find(','), end = line.find(',', comma + 1);
    EXPECT_EQ(rows.find(line.substr(0, comma + 1)), std::string::npos) << line;
    EXPECT_EQ(rows.find(line.substr(comma, end + 1 - comma)), std::string::npos) << line;
  }
  EXPECT_EQ(seen, 2);
}

// A reader follows several pages in one tree. A run file that names the directory of another run is
// refused there.
TEST(Docs, PagesWithOneRunDirectoryHaveOneRunFile) {
  std::map<std::string, std::pair<std::string, std::string>> seen;  // by "run = ": file, place
  for (const std::string& page : pages())
    for (const Block& block : blocks_of(page)) {
      std::string file;
      for (const std::string& line : block.lines) {
        file = line.find(" = ") == line.npos ? "" : file + line + "\n";
        if (!line.starts_with("run = {")) continue;
        const auto [first, is_new] = seen.try_emplace(line, file, block.where());
        EXPECT_EQ(first->second.first, file) << first->second.second << " and " << block.where();
      }
    }
  EXPECT_GT(seen.size(), 5u);
}

TEST(Docs, EveryExceptionHasAnExistingBlock) {
  for (const Exception& e : kNotRun)
    EXPECT_TRUE(std::ranges::any_of(blocks_of(e.page),
                                    [&](const Block& block) {
                                      return block.language == "sh" &&
                                             block.lines.at(0).starts_with(e.begins);
                                    }))
        << e.page << ": " << e.begins;
  for (const Replacement& r : kReplaced)
    EXPECT_NE(text_of(kSource / r.page).find(r.from), std::string::npos)
        << r.page << ": " << r.from;
}

// Returns a page without its blocks.
std::string prose_of(const std::string& page) {
  std::string out;
  bool inside = false;
  for (const std::string& line : lines_of(text_of(kSource / page))) {
    if (line.starts_with("```"))
      inside = !inside;
    else if (!inside)
      out += line + "\n";
  }
  return out;
}

// Relative links of a page must name existing files.
TEST_P(DocsPage, LinksLeadSomewhere) {
  const std::string text = prose_of(GetParam());
  for (std::size_t at = 0; (at = text.find("](", at)) != std::string::npos;) {
    at += 2;
    std::string link = text.substr(at, text.find(')', at) - at);
    link = link.substr(0, link.find('#'));
    if (link.empty() || link.find("://") != std::string::npos) continue;
    const fs::path to = fs::path(GetParam()).parent_path() / link;
    const bool generated =
        std::ranges::find(kPagesNotRun, to.string(), &Exception::page) != std::end(kPagesNotRun);
    EXPECT_TRUE(generated || fs::exists(kSource / to)) << GetParam() << ": " << link;
  }
}

// The pages of decisions name files of the tree, which may move later.
TEST(Docs, FilesThatDecisionsNameExist) {
  static const std::regex named(
      R"re(`((?:host|plugin_api|tests)/[a-z0-9_/]*\.(?:cc|cu|def|h))`)re");
  int num_named = 0;
  for (const auto& entry : fs::directory_iterator(kSource / "docs/adr")) {
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), named), end; at != end; ++at) {
      ++num_named;
      EXPECT_TRUE(fs::exists(kSource / (*at)[1].str())) << entry.path() << ": " << (*at)[1];
    }
  }
  EXPECT_GT(num_named, 5);
}

}  // namespace
}  // namespace lamina
