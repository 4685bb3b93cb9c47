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
  EXPECT_EQ(data.text.num_bytes, 1000u);
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
  section.sequence_length = 8;
  const auto tokenizer = load_tokenizer(section);
  EXPECT_EQ(load_data(section, 1, *tokenizer, 258).train.num_rows(), 2u);
  section.pack = true;
  EXPECT_EQ(load_data(section, 1, *tokenizer, 258).train.num_rows(), 2u);
  section.sequence_length = 9;
  EXPECT_EQ(load_data(section, 1, *tokenizer, 258).train.num_rows(), 1u);
}

}  // namespace
}  // namespace lamina::data
