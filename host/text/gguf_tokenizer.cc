#include "text/gguf_tokenizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "core/error.h"
#include "core/json_writer.h"
#include "core/printable.h"
#include "io/gguf_file.h"
#include "publishers/ggml_vocabularies.h"
#include "text/sentencepiece.h"
#include "text/sentencepiece_file.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_json.h"
#include "text/vocabulary.h"

namespace lamina::text {
namespace {

using publishers::GgmlPreTokenizer;
using publishers::GgmlVocabulary;
using Type = SentencePieceFile::Type;  // GGUF has the numbers of SentencePiece

constexpr std::string_view kModel = "tokenizer.ggml.model", kPre = "tokenizer.ggml.pre",
                           kTokens = "tokenizer.ggml.tokens", kTypes = "tokenizer.ggml.token_type",
                           kScores = "tokenizer.ggml.scores", kMerges = "tokenizer.ggml.merges";

// The row called as the value of `key` says.
template <typename Row>
const Row& find_row(const io::GgufFile& file, std::span<const Row> rows, std::string_view key) {
  const auto name = file.text(key);
  std::vector<std::string_view> names;
  for (const Row& row : rows) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  const std::string note = fmt::format("lamina knows {}", fmt::join(names, ", "));
  if (!name) file.fail(key, "is missing: nothing says how texts are split", note);
  file.fail(key, fmt::format("is '{}', which lamina does not have", printable(*name)), note);
}

struct TokenTable {
  std::vector<std::string_view> tokens;
  std::vector<std::int64_t> types;  // one per token

  Type type(std::size_t i) const { return static_cast<Type>(types[i]); }
};

TokenTable read_vocabulary(const io::GgufFile& file) {
  TokenTable out{file.texts(kTokens), file.integers(kTypes)};
  if (out.tokens.empty()) file.fail(kTokens, "is missing: the file has no vocabulary");
  if (static_cast<std::int64_t>(out.tokens.size()) > kMaxIds)
    file.fail(kTokens,
              fmt::format("has {} tokens; at most {} are possible", out.tokens.size(), kMaxIds));
  if (out.types.empty()) out.types.assign(out.tokens.size(), static_cast<int>(Type::normal));
  if (out.types.size() != out.tokens.size())
    file.fail(kTypes,
              fmt::format("has {} elements for {} tokens", out.types.size(), out.tokens.size()));
  for (std::int64_t type : out.types)
    if (type < 1 || type > 6)
      file.fail(kTypes, fmt::format("has the type {}; 1 to 6 are known", type));
  return out;
}

// -1: the file names no such token.
std::int64_t token_id(const io::GgufFile& file, std::string_view role, std::size_t num_tokens,
                      std::int64_t absent = -1) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", role);
  if (!file.find(key)) return absent < static_cast<std::int64_t>(num_tokens) ? absent : -1;
  const std::int64_t id = *file.integer(key);
  // Files write all ones where there is none.
  if (id == 0xffffffff || id == -1) return -1;
  if (id < 0 || id >= static_cast<std::int64_t>(num_tokens))
    file.fail(key, fmt::format("is {}; ids go from 0 to {}", id, num_tokens - 1));
  return id;
}

bool flag(const io::GgufFile& file, std::string_view name, bool absent) {
  return file.flag(fmt::format("tokenizer.ggml.{}", name)).value_or(absent);
}

TokenNames names_of(const io::GgufFile& file, const TokenTable& vocabulary, bool add_bos) {
  const auto name = [&](std::string_view role) -> std::optional<std::string> {
    const std::int64_t id = token_id(file, role, vocabulary.tokens.size());
    if (id < 0) return std::nullopt;
    return std::string(vocabulary.tokens[static_cast<std::size_t>(id)]);
  };
  TokenNames out{name("bos"), name("eos"), name("padding"), name("unknown")};
  out.add_bos = flag(file, "add_bos_token", add_bos) && out.bos;
  out.add_eos = flag(file, "add_eos_token", false) && out.eos;
  return out;
}

void write_pre_tokenizer(JsonWriter& json, const GgmlPreTokenizer& pre) {
  json.key("pre_tokenizer").begin_object().key("type").value("Sequence");
  json.key("pretokenizers").begin_array();
  if (pre.single_digits)
    json.begin_object()
        .key("type")
        .value("Digits")
        .key("individual_digits")
        .value(true)
        .end_object();
  for (std::string_view pattern : pre.patterns) {
    if (pattern.empty()) break;
    json.begin_object().key("type").value("Split").key("behavior").value("Isolated");
    json.key("pattern").begin_object().key("Regex").value(pattern).end_object();
    json.key("invert").value(false).end_object();
  }
  json.begin_object().key("type").value("ByteLevel").key("add_prefix_space").value(false);
  json.key("use_regex").value(pre.patterns[0].empty()).end_object();
  json.end_array().end_object();
}

// Ids around every text.
void write_template(JsonWriter& json, const TokenNames& names) {
  const auto special = [&](const std::string& token) {
    json.begin_object().key("SpecialToken").begin_object().key("id").value(token);
    json.end_object().end_object();
  };
  json.key("post_processor").begin_object().key("type").value("TemplateProcessing");
  json.key("single").begin_array();
  if (names.add_bos) special(*names.bos);
  json.begin_object().key("Sequence").begin_object().key("id").value("A").end_object();
  json.end_object();
  if (names.add_eos) special(*names.eos);
  json.end_array();
}

// The tokenizer.json that the vocabulary was made from, as far as it decides about ids and texts.
std::string as_tokenizer_json(const io::GgufFile& file, const TokenTable& vocabulary,
                              const GgmlPreTokenizer& pre, const TokenNames& names) {
  JsonWriter json;
  json.begin_object();
  json.key("added_tokens").begin_array();
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const Type type = vocabulary.type(i);
    if (type != Type::control && type != Type::user_defined) continue;
    json.begin_object().key("id").value(i).key("content").value(vocabulary.tokens[i]);
    json.key("special").value(type == Type::control).key("normalized").value(false).end_object();
  }
  json.end_array();
  if (!pre.normalizer.empty())
    json.key("normalizer").begin_object().key("type").value(pre.normalizer).end_object();
  write_pre_tokenizer(json, pre);
  write_template(json, names);
  json.key("special_tokens").begin_object();
  const auto special = [&](std::string_view role, const std::string& token) {
    json.key(token).begin_object().key("ids").begin_array();
    json.value(token_id(file, role, vocabulary.tokens.size())).end_array().end_object();
  };
  if (names.add_bos) special("bos", *names.bos);
  if (names.add_eos && !(names.add_bos && names.eos == names.bos)) special("eos", *names.eos);
  json.end_object().end_object();
  json.key("decoder").begin_object().key("type").value("ByteLevel").end_object();
  json.key("model").begin_object().key("type").value("BPE");
  json.key("ignore_merges").value(pre.ignore_merges);
  json.key("vocab").begin_object();
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
    json.key(vocabulary.tokens[i]).value(i);
  json.end_object();
  json.key("merges").begin_array();
  for (std::string_view merge : file.texts(kMerges)) json.value(merge);
  json.end_array().end_object();
  return json.end_object().text();
}

std::unique_ptr<Tokenizer> make_byte_level(const io::GgufFile& file) {
  const GgmlPreTokenizer& pre = find_row(file, publishers::ggml_pre_tokenizers(), kPre);
  const TokenTable vocabulary = read_vocabulary(file);
  const TokenNames names = names_of(file, vocabulary, pre.add_bos);
  return parse_tokenizer_json(as_tokenizer_json(file, vocabulary, pre, names),
                              file.path() + ": tokenizer", file.path(), names);
}

std::unique_ptr<Tokenizer> make_sentencepiece(const io::GgufFile& file,
                                              const GgmlVocabulary& kind) {
  const TokenTable vocabulary = read_vocabulary(file);
  const std::vector<float> scores = file.floats(kScores);
  if (scores.size() != vocabulary.tokens.size())
    file.fail(kScores, fmt::format("has {} elements for {} tokens", scores.size(),
                                   vocabulary.tokens.size()));
  std::vector<SentencePieceFile::Piece> pieces;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
    pieces.push_back({vocabulary.tokens[i], scores[i], vocabulary.type(i)});
  SentencePieceFile out = make_sentencepiece_file(pieces, file.path());
  const std::size_t count = vocabulary.tokens.size();
  out.model = kind.kind == GgmlVocabulary::Kind::sentencepiece_bpe
                  ? SentencePieceFile::Model::bpe
                  : SentencePieceFile::Model::unigram;
  out.bos_id = token_id(file, "bos", count, 1);
  out.eos_id = token_id(file, "eos", count, 2);
  out.pad_id = token_id(file, "padding", count);
  out.add_dummy_prefix = flag(file, "add_space_prefix", true);
  out.remove_extra_whitespaces = flag(file, "remove_extra_whitespaces", false);
  if (file.find("tokenizer.ggml.precompiled_charsmap"))
    file.fail("tokenizer.ggml.precompiled_charsmap",
              "is a character map, which lamina reads from tokenizer.model only",
              "use the safetensors files of the same model");
  TokenNames names = names_of(file, vocabulary, kind.add_bos);
  names.add_bos = flag(file, "add_bos_token", kind.add_bos);
  return make_sentencepiece_tokenizer(std::move(out), file.path(), names);
}

}  // namespace

bool has_gguf_tokenizer(const std::string& path) { return io::GgufFile(path).find(kTokens); }

std::unique_ptr<Tokenizer> load_gguf_tokenizer(const std::string& path) {
  const io::GgufFile file(path);
  const GgmlVocabulary& kind = find_row(file, publishers::ggml_vocabularies(), kModel);
  return kind.kind == GgmlVocabulary::Kind::byte_level_bpe ? make_byte_level(file)
                                                           : make_sentencepiece(file, kind);
}

}  // namespace lamina::text
