// Every tokenizer folder of the goldens: ids, decoded text and streamed pieces are exactly those of
// the reference; a tokenizer of a kind that lamina does not have is refused by name.
#include <gtest/gtest.h>

#include <map>

#include "core/error.h"
#include "core/json.h"
#include "support/base64.h"
#include "support/goldens.h"
#include "support/sha256.h"
#include "text/tokenizer.h"
#include "text/utf8_stream.h"

namespace lamina::text {
namespace {

namespace fs = std::filesystem;

class TokenizerGolden : public ::testing::TestWithParam<fs::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TokenizerGolden);

// The tokenizer, or null (and a check of the words) where lamina has none of its kind.
std::unique_ptr<Tokenizer> load(const fs::path& folder) {
  try {
    return load_tokenizer(folder);
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ExitCode::checkpoint);
    const std::string text = e.what();
    EXPECT_EQ(text.rfind(folder.string(), 0), 0u) << text;
    const bool says_so = text.find("lamina does not have") != text.npos ||
                         text.find("lamina reads byte-level") != text.npos ||
                         text.find("lamina does not read") != text.npos;
    EXPECT_TRUE(says_so) << text;
    return nullptr;
  }
}

std::string text_of(const JsonValue& item, const fs::path& folder) {
  if (const JsonValue reference = item.find("text_ref")) {
    static const JsonDocument long_texts =
        JsonDocument::read(folder.parent_path() / "long_texts.json");
    for (JsonValue text : long_texts.root().at("texts").elements())
      if (text.at("name").as_string() == reference.as_string())
        return std::string(text.at("text").as_string());
    ADD_FAILURE() << "no long text " << reference.describe();
  }
  if (const JsonValue bytes = item.find("bytes")) return testing::base64_decode(bytes.as_string());
  return std::string(item.at("text").as_string());
}

std::vector<TokenId> ids_of(const JsonValue& value) {
  std::vector<TokenId> ids;
  for (JsonValue id : value.elements()) ids.push_back(static_cast<TokenId>(id.as_int64()));
  return ids;
}

void expect_ids(const std::vector<TokenId>& got, const JsonValue& expected) {
  if (expected.is_array()) {
    EXPECT_EQ(got, ids_of(expected));
    return;
  }
  EXPECT_EQ(got.size(), expected.at("count").as_uint64());
  std::string bytes;
  for (TokenId id : got)
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(id >> shift & 0xff);
  EXPECT_EQ(testing::sha256(bytes), expected.at("sha256_u32le").as_string());
}

void expect_text(const std::string& got, const JsonValue& item, std::string_view key,
                 const std::string& otherwise) {
  if (const JsonValue hash = item.find(std::string(key) + "_sha256"))
    EXPECT_EQ(testing::sha256(got), hash.as_string());
  else if (const JsonValue text = item.find(key))
    EXPECT_EQ(got, text.as_string());
  else
    EXPECT_EQ(got, otherwise);
}

TEST_P(TokenizerGolden, EncodesAndDecodesLikeTheReference) {
  const auto tokenizer = load(GetParam());
  if (!tokenizer) return;
  const JsonDocument cases = JsonDocument::read(GetParam() / "cases.json");
  EXPECT_EQ(tokenizer->vocab_size(), cases.root().at("vocab_size").as_int64());
  for (JsonValue item : cases.root().at("cases").elements()) {
    SCOPED_TRACE(item.at("name").as_string());
    const std::string text = text_of(item, GetParam());
    const auto encoded = [&](EncodeOptions options) { return tokenizer->encode(text, options); };
    const std::vector<TokenId> ids = encoded({.add_special = false, .parse_special = true});
    expect_ids(ids, item.at("ids"));
    const JsonValue special = item.find("ids_special");
    expect_ids(encoded({.add_special = true, .parse_special = true}),
               special ? special : item.at("ids"));
    const JsonValue plain = item.find("ids_plain");
    expect_ids(encoded({.add_special = false, .parse_special = false}),
               plain ? plain : item.at("ids"));
    const std::string decoded = tokenizer->decode(ids);
    expect_text(decoded, item, "decoded",
                item.find("text") ? std::string(item.at("text").as_string()) : text);
    expect_text(tokenizer->decode(ids, true), item, "decoded_skip", decoded);
  }
}

TEST_P(TokenizerGolden, DecodesArbitraryIdsLikeTheReference) {
  const auto tokenizer = load(GetParam());
  if (!tokenizer || !fs::exists(GetParam() / "decode.json")) return;
  const JsonDocument cases = JsonDocument::read(GetParam() / "decode.json");
  for (JsonValue item : cases.root().at("cases").elements()) {
    const std::vector<TokenId> ids = ids_of(item.at("ids"));
    SCOPED_TRACE(::testing::PrintToString(ids));
    const std::string decoded = tokenizer->decode(ids);
    expect_text(decoded, item, "decoded", "");
    expect_text(tokenizer->decode(ids, true), item, "decoded_skip", decoded);
  }
}

TEST_P(TokenizerGolden, StreamsWholeCharacters) {
  const auto tokenizer = load(GetParam());
  if (!tokenizer || !fs::exists(GetParam() / "stream.json")) return;
  const JsonDocument cases = JsonDocument::read(GetParam() / "stream.json");
  for (JsonValue item : cases.root().at("cases").elements()) {
    const std::vector<TokenId> ids = ids_of(item.at("ids"));
    SCOPED_TRACE(::testing::PrintToString(ids));
    const bool skip = item.at("skip_special").as_bool();
    Utf8Stream stream;
    std::string all;
    auto delta = item.at("deltas").elements().begin();
    for (TokenId id : ids) {
      const std::string got =
          skip && tokenizer->is_special(id) ? "" : stream.push(tokenizer->token_bytes(id));
      EXPECT_EQ(got, (*delta).as_string());
      all += got;
      ++delta;
    }
    const std::string rest = stream.finish();
    const JsonValue flush = item.find("flush");
    EXPECT_EQ(rest, flush ? flush.as_string() : "");
    EXPECT_EQ(all + rest, item.at("text").as_string());
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, TokenizerGolden,
                         ::testing::ValuesIn(testing::golden_folders("tokenizers", "cases.json")),
                         [](const auto& instance) {
                           return testing::test_name(instance.param.filename().string());
                         });

}  // namespace
}  // namespace lamina::text
