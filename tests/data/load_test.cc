// The [data] section of a run file.
#include "data/load.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::data {
namespace {

TEST(LoadData, Example) {
  testing::TempDir dir;
  config::DataSection section;
  section.train = {dir.write("a.txt", std::string(1000, 'x'))};
  section.validation_fraction = 0.1;
  section.sequence_length = 9;
  const auto tokenizer = load_tokenizer(section);
  const RunData data = load_data(section, /*seed=*/1, *tokenizer, 258);
  EXPECT_EQ(data.train.num_rows(), 91u);
  EXPECT_EQ(data.validation.at(0).num_rows(), 10u);
  EXPECT_EQ(data.counts.num_tokens, 1002u);
  ASSERT_EQ(data.train_sources.size(), 1u);
  EXPECT_EQ(data.train_sources[0].num_files, 1u);
  EXPECT_EQ(data.train_sources[0].counts.num_bytes, 1000u);
  EXPECT_EQ(data.train_sources[0].num_tokens, 1002u);
}

TEST(LoadData, ValidationFilesTakeThePlaceOfTheFraction) {
  testing::TempDir dir;
  config::DataSection section;
  section.train = {dir.write("a.txt", std::string(98, 'x'))};
  section.validation = {dir.write("b.txt", std::string(18, 'y'))};
  section.validation_fraction = 0.5;
  section.sequence_length = 9;
  const auto tokenizer = load_tokenizer(section);
  const RunData data = load_data(section, 1, *tokenizer, 258);
  EXPECT_EQ(data.train.num_rows(), 10u);
  EXPECT_EQ(data.validation.at(0).num_rows(), 2u);
  section.validation = {dir.write("b.txt", std::string(18, 'z'))};
  EXPECT_NE(load_data(section, 1, *tokenizer, 258).fingerprint, data.fingerprint);
}

TEST(LoadData, WithoutPackingARowHoldsOneDocument) {
  testing::TempDir dir;
  config::DataSection section;
  section.train = {dir.write("a.txt", "one\ntwo\n")};
  section.document_separator = "line";
  section.pack = false;
  section.sequence_length = 7;
  const auto tokenizer = load_tokenizer(section);
  EXPECT_EQ(load_data(section, 1, *tokenizer, 258).train.num_rows(), 2u);
  section.pack = true;
  EXPECT_EQ(load_data(section, 1, *tokenizer, 258).train.num_rows(), 2u);
  section.sequence_length = 9;
  EXPECT_EQ(load_data(section, 1, *tokenizer, 258).train.num_rows(), 1u);
}

TEST(LoadData, EverySourceIsCounted) {
  testing::TempDir dir;
  config::DataSection section;
  section.train = {dir.write("a.txt", "one\n\ntwo\n"), dir / "more"};
  dir.write("more/b.txt", "three\n");
  dir.write("more/deep/c.txt", "four\n");
  section.validation = {dir.write("v.txt", "five six\n")};
  section.document_separator = "line";
  section.sequence_length = 4;
  const RunData data = load_data(section, 1, *load_tokenizer(section), 258);
  ASSERT_EQ(data.train_sources.size(), 2u);
  EXPECT_EQ(data.train_sources[0].counts.num_documents, 2u);
  EXPECT_EQ(data.train_sources[0].counts.num_empty_documents, 1u);
  EXPECT_EQ(data.train_sources[0].num_tokens, 10u);
  EXPECT_EQ(data.train_sources[1].name, dir / "more");
  EXPECT_EQ(data.train_sources[1].num_files, 2u);
  EXPECT_EQ(data.train_sources[1].counts.num_bytes, 11u);
  EXPECT_EQ(data.train_sources[1].num_tokens, 13u);
  ASSERT_EQ(data.validation_sources.size(), 1u);
  EXPECT_EQ(data.validation_sources[0].num_tokens, 10u);
}

TEST(LoadTokenizer, AMissingOrDamagedOneIsADataError) {
  testing::TempDir dir;
  config::DataSection section;
  section.tokenizer = dir / "none";
  EXPECT_USER_ERROR(
      load_tokenizer(section), ExitCode::data,
      dir / "none" +
          ": no such directory; expected a model directory with its "
          "tokenizer\n  check the path\n  or set data.tokenizer to a directory with a "
          "tokenizer");
  dir.write("damaged/tokenizer.json", "{\"model\": ");
  section.tokenizer = dir / "damaged";
  EXPECT_ERROR_SAYS(load_tokenizer(section), ExitCode::data, "damaged/tokenizer.json");
}

TEST(LoadTokenizer, HintsAtBytesForIdsAndForSimilarWords) {
  testing::TempDir dir;
  dir.write("model/config.json", "{}");
  config::DataSection section;
  section.form = "tokens";
  section.tokenizer = dir / "model";
  EXPECT_ERROR_SAYS(
      load_tokenizer(section), ExitCode::data,
      "or set data.tokenizer to a directory with a tokenizer, or to \"byte\": ids are "
      "read without it, and 257 ends a document of a file without an .idx");
  section.form = "text";
  for (const char* word : {"bytes", "Byte", "byte-level"}) {
    section.tokenizer = dir / word;
    EXPECT_ERROR_SAYS(load_tokenizer(section), ExitCode::data,
                      "its tokenizer\n  did you mean \"byte\"?\n  check the path");
  }
}

}  // namespace
}  // namespace lamina::data
