// lamina report: one page that holds what the run wrote, and nothing from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/trained_run.h"
#include "core/json.h"

namespace lamina::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string written_page(std::vector<std::string> more = {}) {
  const lamina::testing::TempDir folder;
  std::vector<std::string> words{"report", trained_run(), "--to", folder / "page.html"};
  words.insert(words.end(), more.begin(), more.end());
  const lamina::testing::Finished f = lamina_program(words);
  EXPECT_EQ(f.code, 0) << f.err;
  return folder.read("page.html");
}

// Every tag is closed, in order.
void expect_well_formed(const std::string& page) {
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != page.npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    ASSERT_NE(end, page.npos);
    const std::string tag = page.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '!' || tag.back() == '/') continue;
    if (tag[0] != '/') {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << tag;
    EXPECT_EQ(tag.substr(1), open.back());
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

TEST(Report, HasEveryNumberOfTheMetrics) {
  const std::string page = written_page();
  expect_well_formed(page);
  std::ifstream metrics(trained_run() + "/metrics.jsonl");
  int numbers = 0;
  for (std::string line; std::getline(metrics, line);) {
    const JsonDocument json = JsonDocument::parse(line, "metrics.jsonl");
    for (const auto& [key, value] : json.root().members()) {
      if (key == "step") continue;
      const std::size_t at = line.find("\"" + std::string(key) + "\":") + key.size() + 3;
      const std::string text = line.substr(at, line.find_first_of(",}", at) - at);
      EXPECT_THAT(page, HasSubstr("<td>" + text + "</td>")) << key;
      ++numbers;
    }
  }
  EXPECT_GT(numbers, 20);
}

TEST(Report, ReadsNothingFromOutside) {
  const std::string page = written_page();
  for (const char* reference : {"http:", "https:", "src=", "href=", "url(", "@import", "<script"})
    EXPECT_THAT(page, Not(HasSubstr(reference)));
  EXPECT_THAT(page, HasSubstr("<polyline points="));
  EXPECT_THAT(page, HasSubstr("sequence_length = 32"));
}

TEST(Report, ShowsSamples) {
  const std::string page = written_page({"-p", "a <b> & c"});
  expect_well_formed(page);
  EXPECT_THAT(page, HasSubstr("<b>a &lt;b&gt; &amp; c</b>"));
}

TEST(Report, SamplesAreWhatDecodePrints) {
  const lamina::testing::Finished f =
      lamina_program({"decode", "-m", trained_run(), "-p", "the", "--temp", "0", "-n", "64"});
  ASSERT_EQ(f.code, 0) << f.err;
  ASSERT_GT(f.out.size(), 16U);
  std::string text;  // as HTML
  for (const char c : f.out)
    text += c == '&'                                                       ? "&amp;"
            : c == '<'                                                     ? "&lt;"
            : c == '>'                                                     ? "&gt;"
            : c == '"'                                                     ? "&quot;"
            : static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t' ? " "
                                                                           : std::string(1, c);
  EXPECT_THAT(written_page({"-p", "the"}), HasSubstr("<b>the</b>" + text + "</pre>"));
}

TEST(Report, SaysWhatOfTheMachineWasUsed) {
  EXPECT_THAT(written_page({"--threads", "1"}), HasSubstr("1 thread, "));
}

TEST(Report, SamplesFitThePositionsOfTheModel) {
  const lamina::testing::Finished f =
      lamina_program({"report", trained_run(), "-p", std::string(64, 'a')});
  EXPECT_EQ(f.code, 2);
  EXPECT_THAT(f.err, HasSubstr("--prompt: a prompt has 65 tokens; the model was made for at most "
                               "64"));
}

TEST(Report, SamplesNeedATokenizer) {
  const lamina::testing::TempDir folder;
  std::filesystem::copy(LAMINA_SOURCE_DIR "/tests/golden/hf/llama3_gqa", folder / "model");
  folder.write("model/metrics.jsonl", "{\"step\":1,\"train/loss\":2.5}\n");
  const lamina::testing::Finished f = lamina_program({"report", folder / "model", "-p", "a"});
  EXPECT_EQ(f.code, 4);
  EXPECT_THAT(f.err, HasSubstr("has no tokenizer, so it cannot read text; leave out --prompt"));
}

TEST(Report, IsOfARun) {
  const lamina::testing::TempDir folder;
  const lamina::testing::Finished f = lamina_program({"report", folder.path()});
  EXPECT_EQ(f.code, 4);
  EXPECT_THAT(f.err, HasSubstr("has no metrics.jsonl; expected the directory of a run"));
}

}  // namespace
}  // namespace lamina::cli
