// Estimates before data are read: counts and bytes, from a part of the files.
#include "data/estimate.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "data/load.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::data {
namespace {

constexpr std::int64_t kVocab = 258;

std::string lines(std::size_t num_lines, const std::string& line) {
  std::string out;
  for (std::size_t i = 0; i < num_lines; ++i) out += line + "\n";
  return out;
}

config::DataSection section_of(std::vector<std::string> files, const std::string& store) {
  config::DataSection out;
  out.train = std::move(files);
  out.store = store;
  return out;
}

TEST(DataEstimate, IsExactForFullyReadFiles) {
  testing::TempDir dir;
  config::DataSection section = section_of({dir.write("a.txt", "one\n\ntwo\n")}, "none");
  section.document_separator = "blank_line";
  section.validation = {dir.write("b.txt", "three")};
  section.sequence_length = 4;
  const DataEstimate found = estimate_data(section, *load_tokenizer(section), kVocab);
  const RunData data = load_data(section, 1, *load_tokenizer(section), kVocab);
  EXPECT_TRUE(found.is_whole);
  EXPECT_EQ(found.num_files, 2u);
  EXPECT_EQ(found.num_bytes, 14u);
  EXPECT_EQ(found.num_tokens, data.counts.num_tokens);
  EXPECT_EQ(found.stored_bytes, 0u);
  // Ids of four bytes, and the offsets of three documents.
  const std::uint64_t tokens = found.num_tokens + data.validation_sources[0].num_tokens;
  EXPECT_EQ(found.held_bytes, 4 * tokens + 8 * (2 + 1) + 8 * (1 + 1));
}

// Every separator, compressed and not, in one file and in many: the estimate is near the real
// count.
TEST(DataEstimate, IsNearTheBuiltStores) {
  testing::TempDir dir;
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += lines(100, "A line with some words in it, " + std::string(i, 'x')) + "\n";
  std::vector<std::string> many;
  for (int i = 0; i < 20; ++i)
    many.push_back(dir.write("part" + std::to_string(i) + ".txt", text.substr(0, 100'000)));
  const std::string one = dir.write("one.txt", text);
  for (const char* separator : {"file", "blank_line", "line"})
    for (const std::vector<std::string>& files : {std::vector<std::string>{one}, many}) {
      config::DataSection section = section_of(files, dir / "stores");
      section.document_separator = separator;
      const auto tokenizer = load_tokenizer(section);
      const DataEstimate found = estimate_data(section, *tokenizer, kVocab, 1 << 14);
      EXPECT_FALSE(found.is_whole);
      EXPECT_FALSE(std::filesystem::exists(dir / "stores")) << "an estimate made a store";
      const StoredTokens made = build_stores(section, *tokenizer, 258, {}).front();
      const std::uint64_t tokens = made.view.tokens.size();
      const std::uint64_t begins = 8 * (made.view.num_documents() + 1);
      const auto near = [&](std::uint64_t estimate, std::uint64_t truth) {
        EXPECT_NEAR(static_cast<double>(estimate), static_cast<double>(truth),
                    0.1 * static_cast<double>(truth))
            << separator << ", " << files.size() << " files";
      };
      near(found.num_tokens, tokens);
      if (files.size() == 1) {  // less than a MiB: no store
        near(found.held_bytes, 4 * tokens + begins);
      } else {
        near(found.stored_bytes, 2 * tokens + begins);
        EXPECT_EQ(std::filesystem::file_size(made.path + "/tokens"), 2 * tokens);
      }
      std::filesystem::remove_all(dir / "stores");
    }
}

TEST(DataEstimate, ConversationsHaveAByteMorePerToken) {
  testing::TempDir dir;
  config::DataSection section = section_of(
      {dir.write("a.jsonl", R"({"prompt": "2 + 2 =", "completion": " 4"})")}, dir / "stores");
  section.form = "chat";
  const DataEstimate found = estimate_data(section, *load_tokenizer(section), kVocab);
  EXPECT_EQ(found.held_bytes, 5 * found.num_tokens + 8 * 2);
}

TEST(DataEstimate, HasTheErrorsOfReading) {
  testing::TempDir dir;
  config::DataSection section = section_of({dir / "absent.txt"}, "none");
  const auto tokenizer = load_tokenizer(section);
  EXPECT_ERROR_SAYS(estimate_data(section, *tokenizer, kVocab), ExitCode::data, "absent.txt");
  section = section_of({dir.write("a.jsonl", "{\"text\": 1}\n")}, "none");
  section.form = "jsonl";
  EXPECT_ERROR_SAYS(estimate_data(section, *tokenizer, kVocab), ExitCode::data, "a.jsonl:1");
}

}  // namespace
}  // namespace lamina::data
