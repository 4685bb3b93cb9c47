// Files divided into parts: no byte is lost, no document is divided; compressed files are read as
// their contents.
#include "data/text_parts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/packed_text.h"
#include "data/text_files.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::data {
namespace {

using testing::gzipped;
using testing::TempDir;
using testing::zstd_packed;

constexpr Separator kSeparators[] = {Separator::file, Separator::blank_line, Separator::line};

std::vector<std::string> documents_of(const std::string& path, Separator separator,
                                      std::size_t part_bytes) {
  std::vector<std::string> out;
  TextParts parts(path, separator, part_bytes);
  while (const auto part = parts.next())
    read_documents(path, *part, separator,
                   [&](std::string_view document) { out.emplace_back(document); });
  return out;
}

// Lines, blank lines with and without spaces, a carriage return, no final line feed.
std::string some_text() {
  std::string text = "\n\n";
  for (int i = 0; i < 60; ++i) {
    text += std::string(static_cast<std::size_t>(i * 7 % 23), 'a') + std::to_string(i) + "\n";
    if (i % 5 == 0) text += " \t\n";
    if (i % 11 == 0) text += "\r\n\n";
  }
  return text + "end";
}

TEST(TextParts, Example) {
  TempDir dir;
  TextParts parts(dir.write("a.txt", "one\ntwo\nthree\n"), Separator::line, 5);
  const auto first = parts.next(), second = parts.next();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->text, "one\ntwo\n");
  EXPECT_EQ(second->text, "three\n");
  EXPECT_EQ(second->first_byte, 8u);
  EXPECT_EQ(second->first_line, 3u);
  EXPECT_FALSE(parts.next());
}

TEST(TextParts, DocumentsDoNotDependOnTheSizeOfParts) {
  TempDir dir;
  const std::string text = some_text();
  const std::string plain = dir.write("a.txt", text), gz = dir.write("a.txt.gz", gzipped(text)),
                    zst = dir.write("a.zst", zstd_packed(text));
  for (Separator separator : kSeparators) {
    const auto expected = documents_of(plain, separator, std::size_t{1} << 20);
    ASSERT_FALSE(expected.empty());
    for (std::size_t part_bytes : {1, 2, 3, 17, 100, 399, 5000})
      for (const std::string& path : {plain, gz, zst})
        EXPECT_EQ(documents_of(path, separator, part_bytes), expected) << path << part_bytes;
  }
}

TEST(TextParts, TogetherAreTheWholeFile) {
  TempDir dir;
  const std::string text = some_text(), path = dir.write("a.txt", text);
  for (Separator separator : kSeparators) {
    std::string whole;
    TextParts parts(path, separator, 40);
    while (const auto part = parts.next()) {
      EXPECT_EQ(part->first_byte, whole.size());
      EXPECT_EQ(part->first_line - 1,
                static_cast<std::uint64_t>(std::count(whole.begin(), whole.end(), '\n')));
      whole += part->text;
    }
    EXPECT_EQ(whole, text);
  }
}

// Returns the parts of a file with lines of at most 100 bytes; "too long" for a longer one.
std::vector<std::string> bounded_parts(const std::string& path, std::size_t part_bytes) {
  std::vector<std::string> out;
  TextParts parts(path, Separator::line, part_bytes, 100);
  while (const auto part = parts.next()) {
    out.emplace_back(part->is_too_long ? "too long" : part->text);
    EXPECT_EQ(part->is_too_long && !part->text.empty(), false);
    if (part->is_too_long) out.back() += fmt::format(" {}:{}", part->first_line, part->first_byte);
  }
  return out;
}

TEST(TextParts, ALineThatIsTooLongIsPassedOver) {
  TempDir dir;
  const std::string most(100, 'm'), more(101, 'x'), much(5000, 'y');
  const std::string text =
      "a\n" + most + "\n" + more + "\nb\n" + much + "\n" + much + "\nc\n" + more;
  for (const std::string& path : {dir.write("a.txt", text), dir.write("a.gz", gzipped(text)),
                                  dir.write("a.zst", zstd_packed(text))})
    for (std::size_t part_bytes : {1, 2, 3, 50, 100}) {
      std::string lines;
      std::vector<std::string> long_ones;
      for (const std::string& part : bounded_parts(path, part_bytes))
        if (part.starts_with("too long"))
          long_ones.push_back(part);
        else
          lines += part;
      EXPECT_EQ(lines, "a\n" + most + "\nb\nc\n") << path << part_bytes;
      EXPECT_EQ(long_ones, (std::vector<std::string>{"too long 3:103", "too long 5:207",
                                                     "too long 6:5208", "too long 8:10211"}))
          << path << part_bytes;
    }
}

TEST(TextParts, BytesThatAreNotUtf8AreNamedInLaterPartsToo) {
  TempDir dir;
  const std::string text = std::string(3 << 20, 'x') + "\n" + std::string(10, 'y') + "\xff\n";
  const std::string path = dir.write("a.txt", text);
  EXPECT_ERROR_SAYS(read_documents(path, Separator::line, [](std::string_view) {}), ExitCode::data,
                    path + ":2: is not UTF-8: byte 3145739 of the file is 0xff");
}

TEST(CompressedFile, SeveralTextsInOneFileAreRead) {
  TempDir dir;
  const std::string zeros(512, 0);
  for (const std::string& path :
       {dir.write("a.gz", gzipped("one\n") + gzipped("two\n")),
        dir.write("padded.gz", gzipped("one\n") + gzipped("two\n") + zeros),
        dir.write("a.zst", zstd_packed("one\n") + zstd_packed("two\n"))})
    EXPECT_EQ(documents_of(path, Separator::line, 100), (std::vector<std::string>{"one", "two"}));
}

TEST(CompressedFile, DamageIsNamedWhereverItIs) {
  TempDir dir;
  const auto read = [](const std::string& path) { documents_of(path, Separator::file, 1 << 16); };
  const std::string text = some_text(), gz = gzipped(text), zst = zstd_packed(text);
  for (std::size_t kept = 0; kept < gz.size(); kept += 3)
    EXPECT_ERROR_SAYS(read(dir.write("a.gz", gz.substr(0, kept))), ExitCode::data,
                      "a.gz: is not a complete gzip file: it ");
  for (std::size_t kept = 0; kept < zst.size(); kept += 3)
    EXPECT_ERROR_SAYS(read(dir.write("a.zst", zst.substr(0, kept))), ExitCode::data,
                      "a.zst: is not a complete zstd file: it ");
  EXPECT_USER_ERROR(read(dir.write("b.gz", "no gzip file")), ExitCode::data,
                    dir / "b.gz" +
                        ": is not a complete gzip file: incorrect header check\n"
                        "  download or copy the file again");
  EXPECT_ERROR_SAYS(read(dir.write("b.zst", "no zstd file")), ExitCode::data,
                    "b.zst: is not a complete zstd file: Unknown frame descriptor");
  std::string flipped = gz;
  flipped[gz.size() - 6] = static_cast<char>(flipped[gz.size() - 6] ^ 1);
  EXPECT_ERROR_SAYS(read(dir.write("c.gz", flipped)), ExitCode::data, "incorrect data check");
}

TEST(CompressedFile, IsKnownWithoutItsEnding) {
  TempDir dir;
  const std::string text = some_text();
  for (const auto& [bytes, by, advice] :
       {std::tuple{gzipped(text), "gzip", "give it a name that ends in .gz"},
        {zstd_packed(text), "zstd", "give it a name that ends in .zst"},
        {std::string("\xfd\x37zXZ\0", 6), "xz", "unpack it with `xz -d`"},
        {std::string("]\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0", 14), "xz",
         "unpack it with `xz -d`"},
        {std::string("BZh91AY&SY"), "bzip2", "unpack it with `bzip2 -d`"},
        {std::string("\x04\x22\x4d\x18text"), "lz4", "unpack it with `lz4 -d`"},
        {std::string("PK\3\4"), "zip",
         "unpack it with `unzip`, or save a document (.docx) as text"}})
    EXPECT_USER_ERROR(
        documents_of(dir.write("a.txt", bytes), Separator::file, 1 << 16), ExitCode::data,
        fmt::format("{}: is compressed with {}; expected text\n  {}", dir / "a.txt", by, advice));
  for (const char* plain : {"BZh is a text", "]", "PK\3"})
    EXPECT_EQ(documents_of(dir.write("b.txt", plain), Separator::file, 1 << 16).size(), 1u)
        << plain;
}

TEST(CompressedFile, AnotherFormThanItsEndingIsNamed) {
  TempDir dir;
  for (const auto& [name, bytes, says, advice] :
       {std::tuple{"a.gz", zstd_packed("text"), "zstd; expected gzip",
                   "give it a name that ends in .zst"},
        {"a.zst", gzipped("text"), "gzip; expected zstd", "give it a name that ends in .gz"},
        {"b.gz", std::string("BZh91AY&SY"), "bzip2; expected gzip", "unpack it with `bzip2 -d`"}})
    EXPECT_USER_ERROR(documents_of(dir.write(name, bytes), Separator::file, 1 << 16),
                      ExitCode::data,
                      fmt::format("{}: is compressed with {}\n  {}", dir / name, says, advice));
}

TEST(CompressedFile, OneThatGrowsWithoutEndIsRefused) {
  TempDir dir;
  const std::string path = dir.write("a.zst", zstd_packed(std::string(80 << 20, ' ')));
  EXPECT_ERROR_SAYS(documents_of(path, Separator::line, 1 << 16), ExitCode::data,
                    "a.zst: expands to more than 1100 times its size");
}

}  // namespace
}  // namespace lamina::data
