// The compression of token ids that Engram hashes, for every token.
#include "text/token_compression.h"

#include <gtest/gtest.h>

#include "core/json.h"
#include "support/goldens.h"

namespace lamina::text {
namespace {

void expect_agreement(const std::filesystem::path& folder) {
  const auto tokenizer = load_tokenizer(folder.string());
  const TokenCompression got = compress_tokens(*tokenizer);
  const JsonDocument golden = JsonDocument::read((folder / "golden.json").string());
  EXPECT_EQ(got.count, golden.root().at("compressed_vocab").as_int64());
  ASSERT_TRUE(got.pad);
  EXPECT_EQ(*got.pad, golden.root().at("compressed_pad_id").as_int64());
  const JsonDocument tokens = JsonDocument::read((folder / "tokens.json").string());
  std::size_t count = 0;
  for (JsonValue token : tokens.root().elements()) {
    const auto id = static_cast<std::size_t>(token.at("id").as_int64());
    ASSERT_LT(id, got.ids.size());
    EXPECT_EQ(got.ids[id], token.at("new_id").as_int64()) << token.at("key").as_string();
    ++count;
  }
  EXPECT_EQ(got.ids.size(), count);
}

TEST(TokenCompression, EqualsTheReferenceForEveryToken) {
  const auto folders = testing::golden_folders("maxtext", "tokens.json", "engram_tokenizer");
  if (folders.empty()) GTEST_SKIP() << "none in " << testing::golden_dir();
  for (const auto& folder : folders) expect_agreement(folder);
}

}  // namespace
}  // namespace lamina::text
