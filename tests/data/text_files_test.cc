// The documents of a file, and the messages for files that are not text.
#include "data/text_files.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::data {
namespace {

using testing::TempDir;

std::vector<std::string> documents(std::string_view text, Separator separator) {
  TempDir dir;
  std::vector<std::string> out;
  read_documents(dir.write("a.txt", text), separator,
                 [&](std::string_view document) { out.emplace_back(document); });
  return out;
}

using Strings = std::vector<std::string>;

TEST(TextFiles, Example) {
  EXPECT_EQ(documents("a\nb\n\nc\n", Separator::file), Strings{"a\nb\n\nc\n"});
  EXPECT_EQ(documents("a\nb\n\nc\n", Separator::blank_line), (Strings{"a\nb", "c"}));
  EXPECT_EQ(documents("a\nb\n\nc\n", Separator::line), (Strings{"a", "b", "c"}));
}

TEST(TextFiles, BlankLinesMayHoldSpacesAndComeInRows) {
  EXPECT_EQ(documents("\n \t\na\r\n\r\n\n\n  b\n ", Separator::blank_line), (Strings{"a", "  b"}));
}

TEST(TextFiles, ADocumentEndsBeforeTheCarriageReturnOfItsLastLine) {
  EXPECT_EQ(documents("one\r\ntwo\r\n\r\nthree\r\n", Separator::blank_line),
            (Strings{"one\r\ntwo", "three"}));
  EXPECT_EQ(documents("one\r\n\r\nthree\r", Separator::blank_line), (Strings{"one", "three"}));
}

TEST(TextFiles, AByteOrderMarkIsNoText) {
  for (Separator separator : {Separator::file, Separator::blank_line, Separator::line}) {
    EXPECT_EQ(documents("\xef\xbb\xbf"
                        "a",
                        separator),
              Strings{"a"});
    EXPECT_EQ(documents("\xef\xbb\xbf", separator), Strings{});
  }
  // Only removed at the start of the file.
  EXPECT_EQ(documents("a\n\xef\xbb\xbf"
                      "b\n",
                      Separator::line),
            (Strings{"a",
                     "\xef\xbb\xbf"
                     "b"}));
}

TEST(TextFiles, ALastLineNeedsNoLineFeed) {
  EXPECT_EQ(documents("a\r\nb", Separator::line), (Strings{"a", "b"}));
  EXPECT_EQ(documents("a\n\nb", Separator::blank_line), (Strings{"a", "b"}));
}

TEST(TextFiles, EmptyDocumentsAreCounted) {
  TempDir dir;
  const TextFileCounts counts =
      read_documents(dir.write("a", "x\n\n \ny\n"), Separator::line, [](std::string_view) {});
  EXPECT_EQ(counts.num_documents, 2u);
  EXPECT_EQ(counts.num_empty_documents, 2u);
  EXPECT_EQ(counts.num_bytes, 7u);
}

TEST(TextFiles, NamesLineAndByteThatIsNotUtf8) {
  TempDir dir;
  const std::string path = dir.write("a.txt", "one\ntwo\xff\n");
  EXPECT_USER_ERROR(read_documents(path, Separator::file, [](std::string_view) {}), ExitCode::data,
                    path +
                        ":2: is not UTF-8: byte 7 of the file is 0xff; text must be UTF-8\n"
                        "  convert the file, eg with `iconv -t utf-8`");
}

}  // namespace
}  // namespace lamina::data
