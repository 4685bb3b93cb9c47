// Published vocabularies as GGUF files: ids of texts, written by the reference. A line separates
// the texts, and each text has a line of ids.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/goldens.h"
#include "text/tokenizer.h"

namespace lamina::text {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> vocabularies() {
  std::vector<fs::path> out;
  std::error_code ec;
  for (const auto& entry :
       fs::directory_iterator(lamina::testing::golden_dir() / "gguf" / "vocab", ec))
    if (entry.path().extension() == ".gguf") out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class GgufVocabulary : public ::testing::TestWithParam<fs::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GgufVocabulary);

TEST_P(GgufVocabulary, AgreesWithTheReference) {
  const auto tokenizer = load_tokenizer(GetParam().string());
  const std::string texts = read_all(GetParam().string() + ".inp"),
                    separator = "\n__ggml_vocab_test__\n";
  std::istringstream lines(read_all(GetParam().string() + ".out"));
  std::size_t begin = 0, count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    std::vector<TokenId> wanted;
    std::istringstream numbers(line);
    for (TokenId id; numbers >> id;) wanted.push_back(id);
    ASSERT_LE(begin, texts.size());
    const std::size_t end = std::min(texts.find(separator, begin), texts.size());
    const std::string text = texts.substr(begin, end - begin);
    EXPECT_EQ(tokenizer->encode(text, {.add_special = false}), wanted) << text;
    begin = end + separator.size();
  }
  EXPECT_GT(count, 40u);
}

INSTANTIATE_TEST_SUITE_P(All, GgufVocabulary, ::testing::ValuesIn(vocabularies()),
                         [](const auto& test) {
                           return lamina::testing::test_name(test.param.stem().string());
                         });

}  // namespace
}  // namespace lamina::text
