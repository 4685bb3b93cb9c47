// JSON objects, one per line, as documents; errors of other lines.
#include <gtest/gtest.h>

#include "data/json_lines.h"
#include "data/packed_text.h"
#include "data/token_store.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::data {
namespace {

using testing::TempDir;

TokenStore read_jsonl(const std::string& path, bool skip = false,
                      const std::string& field = "text") {
  const auto tokenizer = text::make_byte_tokenizer();
  return tokenize_files({path}, {.form = DataForm::jsonl,
                                 .field = field,
                                 .skip_bad_records = skip,
                                 .tokenizer = *tokenizer,
                                 .vocab_size = 258});
}

TEST(Jsonl, Example) {
  TempDir dir;
  const TokenStore store = read_jsonl(
      dir.write("a.jsonl", "{\"id\": 7, \"body\": \"a\\nb\"}\r\n\n{\"body\": \"\\u00e9\"}"), false,
      "body");
  EXPECT_EQ(store.tokens,
            (std::vector<std::int32_t>{256, 'a', '\n', 'b', 257, 256, 0xc3, 0xa9, 257}));
  EXPECT_EQ(store.document_begin, (std::vector<std::uint64_t>{0, 5, 9}));
  EXPECT_TRUE(store.in_loss.empty());
  EXPECT_EQ(store.sources[0].counts.num_documents, 2u);
  EXPECT_EQ(store.sources[0].counts.num_empty_documents, 1u);
}

// Python writes missing numbers so.
TEST(Jsonl, OtherMembersMayBeInfiniteNumbers) {
  TempDir dir;
  const TokenStore store = read_jsonl(
      dir.write("a.jsonl", "{\"text\": \"NaN\", \"score\": NaN, \"other\": [-Infinity]}\n"));
  EXPECT_EQ(store.tokens, (std::vector<std::int32_t>{256, 'N', 'a', 'N', 257}));
}

TEST(Jsonl, IsReadPackedToo) {
  TempDir dir;
  const std::string text = "\xef\xbb\xbf{\"text\": \"ab\"}\n{\"text\": \" \"}\n{\"text\": \"c\"}\n";
  const TokenStore plain = read_jsonl(dir.write("a.jsonl", text));
  EXPECT_EQ(plain.num_documents(), 2u);
  EXPECT_EQ(plain.sources[0].counts.num_empty_documents, 1u);
  for (const std::string& path : {dir.write("a.jsonl.gz", testing::gzipped(text)),
                                  dir.write("a.jsonl.zst", testing::zstd_packed(text))}) {
    const TokenStore packed = read_jsonl(path);
    EXPECT_EQ(packed.tokens, plain.tokens);
    EXPECT_EQ(packed.sources[0].counts.num_bytes, text.size());
  }
}

TEST(Jsonl, AByteOrderMarkMayPrecedeABlankLine) {
  TempDir dir;
  const std::string mark = "\xef\xbb\xbf";
  for (const char* blank : {"\n", " \r\n"}) {
    const std::string path = dir.write("a.jsonl", mark + blank + "{\"text\": \"ab\"}\n");
    const TokenStore store = read_jsonl(path);
    EXPECT_EQ(store.tokens, (std::vector<std::int32_t>{256, 'a', 'b', 257}));
    EXPECT_EQ(store.sources[0].counts.num_empty_documents, 1u);
    std::vector<std::string> places;
    read_records(path, [&](const JsonValue&, const std::string& at) { places.push_back(at); });
    EXPECT_EQ(places, std::vector{path + ":2"});
  }
  EXPECT_ERROR_SAYS(read_jsonl(dir.write("b.jsonl", mark)), ExitCode::data,
                    "b.jsonl: the file contains no text");
  // Only removed at the start of the file.
  EXPECT_ERROR_SAYS(read_jsonl(dir.write("c.jsonl", "\n" + mark + "{\"text\": \"ab\"}")),
                    ExitCode::data, "c.jsonl:2: ");
  EXPECT_ERROR_SAYS(read_jsonl(dir.write("d.jsonl", mark + "[\n")), ExitCode::data,
                    "d.jsonl: is a JSON list");
}

TEST(Jsonl, ABadRecordIsNamedByFileAndLine) {
  TempDir dir;
  const std::string good = "{\"text\": \"ab\"}\n\n";
  const std::string path = dir.write("a.jsonl", good + "{\"txt\": \"ab\"}\n");
  EXPECT_USER_ERROR(read_jsonl(path), ExitCode::data,
                    path +
                        ":3: the object has no 'text' (data.field); it has txt\n"
                        "  did you mean 'txt', which is present?\n"
                        "  data.bad_records = \"skip\" skips and counts such records");
  const std::pair<const char*, const char*> cases[] = {
      {"{\"text\": 5}", ":3: 'text' must be a string, got 5"},
      {"{\"text\": \"ab\"", ":3: "},
      {"[1]", ":3: the document must be an object, got an array of 1"},
      {"{\"text\": \"a\"} b",
       ":3: not valid JSON: extra data\n  at byte 14 of the line\n"
       "  data.bad_records = \"skip\" skips and counts such records"},
      {"{\"text\": \"\xff\"}", ":3: "},
      {"{\"text\": \"a\", \"text\": \"b\"}", ":3: the key \"text\" appears twice"},
  };
  for (const auto& [line, says] : cases) {
    dir.write("a.jsonl", good + line);
    EXPECT_ERROR_SAYS(read_jsonl(path), ExitCode::data, path + says);
  }
}

TEST(Jsonl, ARecordOfAnotherFormIsNamed) {
  TempDir dir;
  const std::string skips = "\n  data.bad_records = \"skip\" skips and counts such records";
  const std::string path = dir.write("a.jsonl", R"({"text": "ab", "content": 1})");
  EXPECT_USER_ERROR(
      read_jsonl(path, false, "body"), ExitCode::data,
      path + ":1: the object has no 'body' (data.field); it has text, content" + skips);
  dir.write("a.jsonl", "{}");
  EXPECT_USER_ERROR(read_jsonl(path), ExitCode::data,
                    path + ":1: the object has no 'text' (data.field); it has no keys" + skips);
  dir.write("a.jsonl", R"({"chosen": "a", "rejected": "b"})");
  EXPECT_USER_ERROR(read_jsonl(path), ExitCode::data,
                    path +
                        ":1: the object has no 'text' (data.field); it has chosen, rejected\n"
                        "  a preference record: set data.form = \"preference\"" +
                        skips);
  dir.write("a.jsonl", R"({"messages": []})");
  EXPECT_USER_ERROR(read_jsonl(path), ExitCode::data,
                    path +
                        ":1: the object has no 'text' (data.field); it has messages\n"
                        "  a conversation: set data.form = \"chat\"" +
                        skips);
  std::string wide = "{";
  for (int i = 0; i < 14; ++i) wide += (i > 0 ? ", \"k" : "\"k") + std::to_string(i) + "\": 1";
  dir.write("a.jsonl", wide + "}");
  EXPECT_ERROR_SAYS(read_jsonl(path), ExitCode::data, "k10, k11 and 2 more");
}

TEST(Jsonl, BadRecordsAreCountedWhereTheyAreSkipped) {
  TempDir dir;
  std::string text;
  for (int i = 0; i < 20; ++i) text += i % 2 == 0 ? "{\"text\": \"a\"}\n" : "oops\n";
  const std::string path = dir.write("a.jsonl", text);
  const TokenStore store = read_jsonl(path, true);
  EXPECT_EQ(store.num_documents(), 10u);
  EXPECT_EQ(store.sources[0].num_bad_records, 10u);
  ASSERT_EQ(store.sources[0].bad_records.size(), kMaxBadRecords);
  EXPECT_EQ(store.sources[0].bad_records[1].where, path + ":4");
  EXPECT_ERROR_SAYS(read_jsonl(dir.write("b.jsonl", "oops\n"), true), ExitCode::data,
                    "b.jsonl: the file contains no text\n"
                    "  skipped " +
                        dir / "b.jsonl:1");
}

}  // namespace
}  // namespace lamina::data
