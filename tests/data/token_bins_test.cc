// Tokens written by other programs: the published layouts, and the messages for damaged files.
#include "data/token_bins.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "core/json.h"
#include "data/stores.h"
#include "data/token_store.h"
#include "support/expect_error.h"
#include "support/goldens.h"
#include "support/temp_dir.h"

namespace lamina::data {
namespace {

using testing::TempDir;

template <typename T>
std::string raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string llmc_file(std::int32_t magic, std::int32_t version, std::int32_t count,
                      const std::string& ids) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return raw_bytes(header) + ids;
}

// Sequences of 2, 0 and 3 tokens; the first two are one document.
std::string megatron_index(std::uint8_t type, std::int64_t id_bytes) {
  return std::string("MMIDIDX\0\0", 9) + raw_bytes<std::uint64_t>({1}) + static_cast<char>(type) +
         raw_bytes<std::uint64_t>({3, 3}) + raw_bytes<std::int32_t>({2, 0, 3}) +
         raw_bytes<std::int64_t>({0, 2 * id_bytes, 2 * id_bytes, 0, 2, 3});
}

TokenStore read_tokens(const std::string& path, std::int64_t vocab_size = 258) {
  static const auto tokenizer = text::make_byte_tokenizer();  // 257 ends a text
  return tokenize_files(
      {path}, {.form = DataForm::tokens, .tokenizer = *tokenizer, .vocab_size = vocab_size});
}

using Ids = std::vector<std::int32_t>;
using Begins = std::vector<std::uint64_t>;

TEST(TokenBins, Example) {
  TempDir dir;
  const std::vector<std::uint16_t> ids = {5, 257, 6, 7, 257, 8};
  for (const std::string& path :
       {dir.write("raw.bin", raw_bytes(ids)),
        dir.write("llmc.bin", llmc_file(20240520, 1, 6, raw_bytes(ids))),
        dir.write("llmc4.bin",
                  llmc_file(20240801, 7, 6, raw_bytes(Ids(ids.begin(), ids.end()))))}) {
    const TokenStore store = read_tokens(path);
    EXPECT_EQ(store.tokens, (Ids{5, 257, 6, 7, 257, 8})) << path;
    EXPECT_EQ(store.document_begin, (Begins{0, 2, 5, 6})) << path;
  }
}

TEST(TokenBins, AnIndexDefinesDocuments) {
  TempDir dir;
  const Ids ids = {5, 257, 6, 7, 8};
  dir.write("two/a.bin", raw_bytes(std::vector<std::uint16_t>(ids.begin(), ids.end())));
  dir.write("two/a.idx", megatron_index(8, 2));
  dir.write("four/a.bin", raw_bytes(ids));
  dir.write("four/a.idx", megatron_index(4, 4));
  dir.write("eight/a.bin", raw_bytes(std::vector<std::int64_t>(ids.begin(), ids.end())));
  dir.write("eight/a.idx", megatron_index(5, 8));
  for (const char* folder : {"two", "four", "eight"}) {
    const TokenStore store = read_tokens(dir / folder);
    EXPECT_EQ(store.tokens, ids) << folder;
    EXPECT_EQ(store.document_begin, (Begins{0, 2, 5})) << folder;
    EXPECT_EQ(store.sources[0].num_files, 1u) << folder;
  }
}

TEST(TokenBins, AnIndexIsNeverReadAsTokens) {
  TempDir dir;
  const std::string tokens = raw_bytes(std::vector<std::uint16_t>{5, 257, 6, 7, 8});
  dir.write("a/a.dat", tokens);
  const std::string index = dir.write("a/a.idx", megatron_index(8, 2));
  const TokenStore store = read_tokens(dir / "a");
  EXPECT_EQ(store.tokens, (Ids{5, 257, 6, 7, 8}));
  EXPECT_EQ(store.document_begin, (Begins{0, 2, 5}));
  EXPECT_EQ(store.sources[0].num_files, 1u);

  const std::string only =
      "has only Megatron indices (.idx); expected the token files that they index";
  EXPECT_USER_ERROR(read_tokens(index), ExitCode::data,
                    index + ": " + only + "\n  give the .bin beside the .idx");
  dir.write("b/b.bin", tokens);
  EXPECT_ERROR_SAYS(read_tokens(dir.write("b/b.idx", megatron_index(8, 2))), ExitCode::data, only);
  EXPECT_ERROR_SAYS(read_tokens(dir / "?/*.idx"), ExitCode::data, "?/*.idx: " + only);
  EXPECT_ERROR_SAYS(read_tokens(dir.write("c.index", megatron_index(8, 2))), ExitCode::data,
                    "c.index: is a Megatron index; expected a token file\n"
                    "  give it the name of its token file, with the extension .idx");
  // Tokens may have any name.
  EXPECT_EQ(read_tokens(dir.write("d.idx", tokens)).tokens, (Ids{5, 257, 6, 7, 8}));
}

TEST(TokenBins, AFileMayHaveTheLongestName) {
  TempDir dir;
  const std::string longest(255, 'x');
  const std::string tokens = raw_bytes(std::vector<std::uint16_t>{5, 6});
  EXPECT_EQ(read_tokens(dir.write(longest, tokens)).tokens, (Ids{5, 6}));
  std::filesystem::create_symlink("loop.idx", dir / "loop.idx");
  EXPECT_ERROR_SAYS(read_tokens(dir.write("loop.bin", tokens)), ExitCode::data,
                    "loop.idx: cannot be read: ");
}

TEST(TokenBins, PartsDoNotChangeTheTokens) {
  TempDir dir;
  std::vector<std::uint16_t> ids;
  for (int i = 0; i < 1000; ++i) ids.push_back(static_cast<std::uint16_t>(i % 17 ? i % 250 : 257));
  const std::string path = dir.write("raw.bin", raw_bytes(ids));
  const TokenStore whole = read_tokens(path);
  const auto tokenizer = text::make_byte_tokenizer();
  const Reading reading{.form = DataForm::tokens, .tokenizer = *tokenizer, .vocab_size = 258};
  const StoredTokens stored = open_or_make_store(
      {path}, reading, {.folder = dir / "tokens", .part_bytes = 100, .save_every_bytes = 300});
  Ids all(stored.view.tokens.size());
  stored.view.tokens.copy(0, all);
  EXPECT_EQ(all, whole.tokens);
  EXPECT_TRUE(std::ranges::equal(stored.view.document_begin, whole.document_begin));
}

TEST(TokenBins, StoresHaveTheWidthOfTheModelsIds) {
  TempDir dir;
  const std::string path =
      dir.write("a.bin", llmc_file(20240801, 7, 3, raw_bytes(Ids{5, 70000, 6})));
  const auto tokenizer = text::make_byte_tokenizer();
  const auto tokens = [&](std::int64_t vocab_size) {
    const Reading reading{
        .form = DataForm::tokens, .tokenizer = *tokenizer, .vocab_size = vocab_size};
    const StoredTokens stored = open_or_make_store({path}, reading, {.folder = dir / "tokens"});
    Ids all(stored.view.tokens.size());
    stored.view.tokens.copy(0, all);
    return all;
  };
  EXPECT_EQ(tokens(128256), (Ids{5, 70000, 6}));
  EXPECT_EQ(tokens(70001), (Ids{5, 70000, 6}));  // the same store
  EXPECT_ERROR_SAYS(tokens(70000), ExitCode::data,
                    ": token 1 is the id 70000, but the vocabulary has ids 0 to 69999");
  EXPECT_ERROR_SAYS(tokens(65536), ExitCode::data, "token 1 is the id 70000");
}

TEST(TokenBins, FaultsAreNamed) {
  TempDir dir;
  const std::string ids = raw_bytes(std::vector<std::uint16_t>{1, 2, 3, 4, 5});
  const auto expect = [&](const std::string& bytes, const char* says) {
    EXPECT_ERROR_SAYS(read_tokens(dir.write("a.bin", bytes)), ExitCode::data, says);
  };
  expect(ids + "x", "a.bin: has 11 bytes, an odd number");
  expect(llmc_file(20240520, 2, 5, ids),
         "a.bin: is an llm.c file of version 2; expected version 1");
  expect(llmc_file(20240520, 1, 6, ids), "a.bin: has 1034 bytes; its 6 tokens require 1036");
  expect("", "a.bin: the file contains no text");
  EXPECT_USER_ERROR(read_tokens(dir.write("a.bin", ids), 5), ExitCode::data,
                    dir / "a.bin" +
                        ": token 4 is the id 5, but the vocabulary has ids 0 to 4\n"
                        "  data.form = \"tokens\" reads files of llm.c, nanoGPT and Megatron; "
                        "data.tokenizer must be the tokenizer that produced them");
  EXPECT_ERROR_SAYS(read_tokens(dir.write("a.bin.gz", ids)), ExitCode::data, "is compressed");
}

TEST(TokenBins, ADamagedIndexIsNamed) {
  TempDir dir;
  dir.write("a.bin", raw_bytes(std::vector<std::uint16_t>{1, 2, 3, 4, 5}));
  const std::string good = megatron_index(8, 2);
  const auto expect = [&](const std::string& index, const char* says) {
    dir.write("a.idx", index);
    EXPECT_ERROR_SAYS(read_tokens(dir / "a.bin"), ExitCode::data, says);
  };
  const auto changed = [&](std::size_t at, char to) {
    std::string out = good;
    out[at] = to;
    return out;
  };
  expect("", "a.idx: is not a Megatron index");
  expect(changed(0, 'X'), "a.idx: is not a Megatron index");
  expect(changed(9, 2), "a.idx: has version 2");
  expect(changed(17, 7), "a.idx: has ids of type 7");
  expect(changed(17, 4), "a.idx: sequence 1 of length 0 is at byte 4; expected byte 8");
  expect(changed(18, 4), "a.idx: is truncated or damaged");
  expect(changed(34, 3), "a.idx: sequence 1");
  expect(changed(good.size() - 8, 2), "a.idx: its documents do not cover all sequences");
  expect(changed(good.size() - 16, 9), "a.idx: document 0 ends at sequence 9 of 3");
  expect(changed(good.size() - 24, 1),
         "a.idx: document 0 begins at sequence 1; expected sequence 0");
  for (std::size_t kept = 0; kept < good.size(); ++kept) expect(good.substr(0, kept), "a.idx: is ");
  dir.write("a.idx", good);
  EXPECT_ERROR_SAYS(read_tokens(dir.write("a.bin", "12345678")), ExitCode::data,
                    "a.bin: has 8 bytes; " + dir / "a.idx" + " with 5 ids of 2 bytes requires 10");
}

TEST(TokenBins, PublishedLayoutsHoldTheSameDocuments) {
  const auto folder = testing::golden_dir() / "text" / "packing";
  if (!std::filesystem::exists(folder / "bins.json")) GTEST_SKIP() << "no " << folder;
  const JsonDocument bins = JsonDocument::read(folder / "bins.json");
  Ids tokens;
  Begins begins = {0};
  for (const JsonValue document : bins.root().at("documents").elements()) {
    for (const JsonValue id : document.elements())
      tokens.push_back(static_cast<std::int32_t>(id.as_int64()));
    begins.push_back(tokens.size());
  }
  for (const char* name :
       {"megatron_uint16.bin", "megatron_int32.bin", "llmc.bin", "raw_uint16.bin"}) {
    const TokenStore store = read_tokens((folder / name).string(), 1 << 16);
    EXPECT_EQ(store.tokens, tokens) << name;
    if (std::string_view(name).starts_with("megatron")) {
      EXPECT_EQ(store.document_begin, begins) << name;
    }
  }
}

}  // namespace
}  // namespace lamina::data
