// Every tokenizer folder of the goldens: ids, decoded text and streamed pieces equal the
// reference's.
#include <gtest/gtest.h>

#include <map>

#include "core/error.h"
#include "core/json.h"
#include "support/base64.h"
#include "support/gguf_builder.h"
#include "support/goldens.h"
#include "support/sha256.h"
#include "support/temp_dir.h"
#include "text/sentencepiece/sentencepiece_file.h"
#include "text/tokenizer.h"

namespace lamina::text {
namespace {

namespace fs = std::filesystem;

class TokenizerGolden : public ::testing::TestWithParam<fs::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TokenizerGolden);

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
  const auto tokenizer = load_tokenizer(GetParam());
  const JsonDocument cases = JsonDocument::read(GetParam() / "cases.json");
  EXPECT_EQ(tokenizer->vocab_size(), cases.root().at("vocab_size").as_int64());
  for (JsonValue item : cases.root().at("cases").elements()) {
    SCOPED_TRACE(item.at("name").as_string());
    const std::string text = text_of(item, GetParam());
    const auto encoded = [&](EncodeOptions options) { return tokenizer->encode(text, options); };
    const std::vector<TokenId> ids =
        encoded({.add_special = false, .parse_special = tokenizer->reads_special_tokens()});
    expect_ids(ids, item.at("ids"));
    const JsonValue special = item.find("ids_special");
    expect_ids(encoded({.add_special = true, .parse_special = tokenizer->reads_special_tokens()}),
               special ? special : item.at("ids"));
    if (const JsonValue allowed = item.find("ids_allowed_special"))
      expect_ids(encoded({.add_special = false, .parse_special = true}), allowed);
    const JsonValue plain = item.find("ids_plain");
    expect_ids(encoded({.add_special = false, .parse_special = false}),
               plain ? plain : item.at("ids"));
    const std::string decoded = tokenizer->decode(ids);
    expect_text(decoded, item, "decoded",
                item.find("text") ? std::string(item.at("text").as_string()) : text);
    expect_text(tokenizer->decode(ids, true), item, "decoded_skip", decoded);
  }
}

// False if the reference's offsets differ from the token's place: a post-processor may trim them,
// and if a character map drops characters, they include the characters before (the first token of
// "\x01ab" has the offsets of "\x01").
bool offsets_are_places(const fs::path& folder) {
  const JsonDocument file = JsonDocument::read(folder / "tokenizer.json");
  const JsonValue post = file.root().find("post_processor");
  const JsonValue trim = post && !post.is_null() ? post.find("trim_offsets") : JsonValue();
  const JsonValue normalizer = file.root().find("normalizer");
  const JsonValue steps =
      normalizer && !normalizer.is_null() ? normalizer.find("normalizers") : JsonValue();
  if (steps)
    for (JsonValue step : steps.elements())
      if (step.at("type").as_string() == "Precompiled") return false;
  return !trim || !trim.as_bool();
}

// Offsets of the reference, in code points.
TEST_P(TokenizerGolden, SpansEqualTheReference) {
  if (fs::exists(GetParam() / "tokenizer.json") && !offsets_are_places(GetParam())) return;
  const auto tokenizer = load_tokenizer(GetParam());
  const JsonDocument cases = JsonDocument::read(GetParam() / "cases.json");
  for (JsonValue item : cases.root().at("cases").elements()) {
    const JsonValue offsets = item.find("offsets");
    if (!offsets) continue;
    SCOPED_TRACE(item.at("name").as_string());
    const std::string text = text_of(item, GetParam());
    std::vector<std::int64_t> code_points{0};  // before each byte
    for (char c : text)
      code_points.push_back(code_points.back() + ((static_cast<unsigned char>(c) & 0xc0) != 0x80));
    const Encoding got =
        tokenizer->encode_with_spans(text, {.add_special = false, .parse_special = true});
    ASSERT_EQ(got.ids.size(), got.spans.size());
    std::vector<std::pair<std::int64_t, std::int64_t>> spans, expected;
    for (const Span& span : got.spans)
      spans.emplace_back(code_points[span.begin], code_points[span.end]);
    for (JsonValue offset : offsets.elements())
      expected.emplace_back(offset.element(0).as_int64(), offset.element(1).as_int64());
    EXPECT_EQ(spans, expected);
  }
}

// The SentencePiece model of a folder with tokenizer.json, used alone, compared with SentencePiece
// itself, which never reads special tokens in text.
TEST_P(TokenizerGolden, TheSentencePieceModelAloneEncodesLikeItsLibrary) {
  const fs::path model = GetParam() / "tokenizer.model";
  if (!fs::exists(model) || !fs::exists(GetParam() / "tokenizer.json")) return;
  const testing::TempDir alone;
  fs::copy_file(model, fs::path(alone.path()) / "tokenizer.model");
  const auto tokenizer = load_tokenizer(alone.path());
  const JsonDocument cases = JsonDocument::read(GetParam() / "cases.json");
  for (JsonValue item : cases.root().at("cases").elements()) {
    if (item.find("bytes")) continue;  // given to the reference as text with U+FFFD
    SCOPED_TRACE(item.at("name").as_string());
    const JsonValue own = item.find("ids_sentencepiece");
    expect_ids(tokenizer->encode(text_of(item, GetParam())), own ? own : item.at("ids"));
  }
}

// SentencePiece has the types and scores of its pieces.
TEST_P(TokenizerGolden, PiecesAreSpelledAsInTheFile) {
  if (!fs::exists(GetParam() / "pieces.json")) return;
  const auto tokenizer = load_tokenizer(GetParam());
  const JsonDocument pieces = JsonDocument::read(GetParam() / "pieces.json");
  TokenId id = 0;
  const JsonValue root = pieces.root();
  for (JsonValue piece : (root.is_array() ? root : root.at("pieces")).elements())
    EXPECT_EQ(tokenizer->spelling(id++),
              (piece.is_array() ? piece.element(0) : piece.at("piece")).as_string());
  EXPECT_EQ(tokenizer->vocab_size(), id);
}

TEST_P(TokenizerGolden, DecodesArbitraryIdsLikeTheReference) {
  const auto tokenizer = load_tokenizer(GetParam());
  if (!fs::exists(GetParam() / "decode.json")) return;
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
  const auto tokenizer = load_tokenizer(GetParam());
  if (!fs::exists(GetParam() / "stream.json")) return;
  const JsonDocument cases = JsonDocument::read(GetParam() / "stream.json");
  for (JsonValue item : cases.root().at("cases").elements()) {
    const std::vector<TokenId> ids = ids_of(item.at("ids"));
    SCOPED_TRACE(::testing::PrintToString(ids));
    const bool skip = item.at("skip_special").as_bool();
    const auto stream = tokenizer->stream(skip);
    std::string all;
    auto delta = item.at("deltas").elements().begin();
    for (TokenId id : ids) {
      const std::string got = stream->push(id);
      EXPECT_EQ(got, (*delta).as_string());
      all += got;
      ++delta;
    }
    const std::string rest = stream->finish();
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

// A vocabulary of tokenizer.json as converters write it.
std::string as_gguf(const fs::path& folder, const char* pre) {
  const JsonDocument file = JsonDocument::read(folder / "tokenizer.json");
  const JsonValue model = file.root().at("model");
  constexpr std::uint32_t kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5;
  std::map<std::size_t, std::pair<std::string, std::uint32_t>> by_id;
  for (const auto& [token, id] : model.at("vocab").members())
    by_id[id.as_uint64()] = {std::string(token), kNormal};
  for (JsonValue token : file.root().at("added_tokens").elements())
    by_id[token.at("id").as_uint64()] = {std::string(token.at("content").as_string()),
                                         token.at("special").as_bool() ? kControl : kUserDefined};
  std::vector<std::string> tokens, merges;
  std::vector<std::uint32_t> types;
  for (std::size_t id = 0; id <= by_id.rbegin()->first; ++id) {
    const auto found = by_id.find(id);
    tokens.push_back(found == by_id.end() ? "[PAD" + std::to_string(id) + "]"
                                          : found->second.first);
    types.push_back(found == by_id.end() ? kUnused : found->second.second);
  }
  for (JsonValue merge : model.at("merges").elements()) {
    if (!merge.is_array()) {
      merges.emplace_back(merge.as_string());
      continue;
    }
    std::string pair;
    for (JsonValue part : merge.elements())
      pair += (pair.empty() ? "" : " ") + std::string(part.as_string());
    merges.push_back(pair);
  }
  return testing::GgufBuilder()
      .set("tokenizer.ggml.model", "gpt2")
      .set("tokenizer.ggml.pre", pre)
      .set("tokenizer.ggml.tokens", tokens)
      .set("tokenizer.ggml.token_type", types)
      .set("tokenizer.ggml.merges", merges)
      .bytes();
}

// Pre-tokenizer names of GGUF files split text like the tokenizer.json files of these vocabularies.
TEST(GgufPreTokenizers, SplitAsTheReference) {
  const fs::path all = testing::golden_dir() / "tokenizers";
  std::size_t compared = 0;
  for (const auto& [folder, pre] : {std::pair{"gpt2", "gpt-2"},
                                    {"gpt2", "olmo"},
                                    {"llama3", "llama-bpe"},
                                    {"qwen2", "qwen2"},
                                    {"qwen35", "qwen35"},
                                    {"o200k", "gpt-4o"},
                                    {"o200k", "llama4"},
                                    {"tekken", "tekken"},
                                    {"deepseek_v3", "deepseek-v3"},
                                    {"starcoder", "starcoder"}}) {
    if (!fs::exists(all / folder)) continue;
    testing::TempDir dir;
    const auto tokenizer = load_tokenizer(dir.write("m.gguf", as_gguf(all / folder, pre)));
    const JsonDocument cases = JsonDocument::read(all / folder / "cases.json");
    for (JsonValue item : cases.root().at("cases").elements()) {
      SCOPED_TRACE(std::string(pre) + ", " + std::string(item.at("name").as_string()));
      expect_ids(tokenizer->encode(text_of(item, all / folder),
                                   {.add_special = false, .parse_special = true}),
                 item.at("ids"));
      ++compared;
    }
  }
  if (compared == 0) GTEST_SKIP() << "no vocabularies in " << all;
  EXPECT_GT(compared, 1000u);
}

// Pieces with scores and types, as converters copy them from tokenizer.model.
TEST(GgufPieces, MergeAsTheReference) {
  const fs::path folder = testing::golden_dir() / "tokenizers" / "gemma";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not there";
  const SentencePieceFile pieces = read_sentencepiece((folder / "tokenizer.model").string());
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<std::uint32_t> types;
  for (const SentencePieceFile::Piece& piece : pieces.pieces) {
    tokens.emplace_back(piece.text);
    scores.push_back(piece.score);
    types.push_back(static_cast<std::uint32_t>(piece.type));
  }
  testing::TempDir dir;
  const auto tokenizer =
      load_tokenizer(dir.write("m.gguf", testing::GgufBuilder()
                                             .set("tokenizer.ggml.model", "llama")
                                             .set("tokenizer.ggml.pre", "default")
                                             .set("tokenizer.ggml.tokens", tokens)
                                             .set("tokenizer.ggml.scores", scores)
                                             .set("tokenizer.ggml.token_type", types)
                                             .set("tokenizer.ggml.bos_token_id", 2u)
                                             .set("tokenizer.ggml.eos_token_id", 1u)
                                             .set("tokenizer.ggml.add_space_prefix", false)
                                             .bytes()));
  std::size_t compared = 0;
  const JsonDocument cases = JsonDocument::read(folder / "cases.json");
  for (JsonValue item : cases.root().at("cases").elements()) {
    if (item.find("bytes")) continue;  // given to the reference as text with U+FFFD
    SCOPED_TRACE(item.at("name").as_string());
    // Pieces of the type user-defined split a text like added tokens, unlike in SentencePiece.
    expect_ids(
        tokenizer->encode(text_of(item, folder), {.add_special = false, .parse_special = true}),
        item.at("ids"));
    ++compared;
  }
  EXPECT_GT(compared, 40u);
}

}  // namespace
}  // namespace lamina::text
