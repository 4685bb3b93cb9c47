#include "text/gguf/gguf_tokenizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <span>
#include <unordered_map>

#include "core/error.h"
#include "core/printable.h"
#include "io/gguf_end_tokens.h"
#include "io/gguf_file.h"
#include "publishers/ggml_vocabularies.h"
#include "text/hf/byte_level.h"
#include "text/hf/byte_level_bpe.h"
#include "text/hf/tokenizer_files.h"
#include "text/merge_list.h"
#include "text/sentencepiece/sentencepiece.h"
#include "text/sentencepiece/sentencepiece_file.h"
#include "text/vocabulary.h"

namespace lamina::text {
namespace {

using publishers::GgmlPreTokenizer;
using publishers::GgmlVocabulary;
using Type = SentencePieceFile::Type;  // GGUF uses SentencePiece's numbers

constexpr std::string_view kModel = "tokenizer.ggml.model", kPre = "tokenizer.ggml.pre",
                           kTokens = "tokenizer.ggml.tokens", kTypes = "tokenizer.ggml.token_type",
                           kScores = "tokenizer.ggml.scores", kMerges = "tokenizer.ggml.merges";

// Flags for other kinds of vocabularies. They change texts, so true is refused.
constexpr std::string_view kRefusedFlags[] = {
    "normalizer.lowercase",
    "normalizer.strip_accents",
    "treat_whitespace_as_suffix",
};

void refuse_flags(const io::GgufFile& file) {
  for (std::string_view name : kRefusedFlags) {
    const std::string key = fmt::format("tokenizer.ggml.{}", name);
    if (file.flag(key).value_or(false))
      file.fail(key, "is true, which lamina does not support for GGUF files",
                "use the tokenizer files that were published with the model");
  }
}

// The row named by the value of `key`.
template <typename Row>
const Row& find_row(const io::GgufFile& file, std::span<const Row> rows, std::string_view key) {
  const auto name = file.text(key);
  std::vector<std::string_view> names;
  for (const Row& row : rows) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  const std::string note = fmt::format("lamina has {}", fmt::join(names, ", "));
  if (!name) file.fail(key, "is missing: it names the rules for splitting a text", note);
  file.fail(key, fmt::format("is '{}', which lamina does not have", printable(*name)), note);
}

struct TokenTable {
  std::vector<std::string_view> tokens;               // never empty
  std::vector<std::int64_t> types;                    // one per token
  std::deque<std::string> made;                       // names of tokens that are empty in the file
  const publishers::GgmlSpaceRule* spaces = nullptr;  // null: tokens include no white space

  Type type(std::size_t i) const { return static_cast<Type>(types[i]); }
  // True if a token that is found in a text includes the white space after it.
  bool includes_space(std::size_t i) const {
    return spaces && std::ranges::find(spaces->others, tokens[i]) == std::end(spaces->others);
  }
};

// Returns the rule for the model's name; null if there is none.
const publishers::GgmlSpaceRule* space_rule(const io::GgufFile& file) {
  const io::GgufValue* value = file.find("general.name");
  if (!value || value->is_array || value->strings.empty()) return nullptr;
  std::string name(value->strings[0]);
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (const publishers::GgmlSpaceRule& rule : publishers::ggml_space_rules())
    if (std::ranges::any_of(rule.names, [&](std::string_view part) {
          return !part.empty() && name.find(part) != name.npos;  // a row may have fewer names
        }))
      return &rule;
  return nullptr;
}

TokenTable read_vocabulary(const io::GgufFile& file) {
  TokenTable out{file.texts(kTokens), file.integers(kTypes), {}, space_rule(file)};
  if (out.tokens.empty()) file.fail(kTokens, "is missing: the file has no vocabulary");
  if (static_cast<std::int64_t>(out.tokens.size()) > kMaxIds)
    file.fail(kTokens,
              fmt::format("has {} tokens; at most {} are possible", out.tokens.size(), kMaxIds));
  for (std::size_t i = 0; i < out.tokens.size(); ++i)
    if (out.tokens[i].empty())  // named as in llama.cpp
      out.tokens[i] = out.made.emplace_back(fmt::format("[EMPTY_{}]", i));
  if (out.types.empty()) out.types.assign(out.tokens.size(), static_cast<int>(Type::normal));
  if (out.types.size() != out.tokens.size())
    file.fail(kTypes,
              fmt::format("has {} elements for {} tokens", out.types.size(), out.tokens.size()));
  for (std::size_t i = 0; i < out.types.size(); ++i)
    if (const std::int64_t type = out.types[i]; type < 1 || type > 6)
      file.fail(fmt::format("{}[{}]", kTypes, i), fmt::format("is {}; expected 1 to 6", type));
  for (const std::int64_t id : io::gguf_end_tokens_by_text(file))
    if (std::int64_t& type = out.types[static_cast<std::size_t>(id)];
        type != static_cast<int>(Type::unknown))
      type = static_cast<int>(Type::control);
  return out;
}

// -1: the file has no such token.
std::int64_t token_id(const io::GgufFile& file, std::string_view role, std::size_t num_tokens,
                      std::int64_t absent = -1) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", role);
  if (!file.find(key)) return absent < static_cast<std::int64_t>(num_tokens) ? absent : -1;
  const std::int64_t id = *file.integer(key);
  // Files write all ones for an absent token.
  if (id == 0xffffffff || id == -1) return -1;
  if (id < 0 || id >= static_cast<std::int64_t>(num_tokens))
    file.fail(key, fmt::format("is {}; expected an id from 0 to {}", id, num_tokens - 1));
  return id;
}

bool flag(const io::GgufFile& file, std::string_view name, bool absent) {
  return file.flag(fmt::format("tokenizer.ggml.{}", name)).value_or(absent);
}

TokenNames names_of(const io::GgufFile& file, const TokenTable& vocabulary) {
  const auto name = [&](std::string_view role) -> std::optional<std::string> {
    const std::int64_t id = token_id(file, role, vocabulary.tokens.size());
    if (id < 0) return std::nullopt;
    return std::string(vocabulary.tokens[static_cast<std::size_t>(id)]);
  };
  return {name("bos"), name("eos"), name("padding"), name("unknown")};
}

// True if the vocabulary has a token that only merges can produce.
bool has_merged_tokens(const TokenTable& vocabulary) {
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
    if (vocabulary.type(i) == Type::normal &&
        byte_level_bytes(vocabulary.tokens[i]).value_or("").size() > 1)
      return true;
  return false;
}

MergeTable read_merges_of(const io::GgufFile& file, const TokenTable& table,
                          const Vocabulary& vocabulary) {
  const std::vector<std::string_view> merges = file.texts(kMerges);
  if (!file.find(kMerges) || (merges.empty() && has_merged_tokens(table)))
    file.fail(kMerges,
              file.find(kMerges) ? "is empty: every byte of a text would be a token"
                                 : "is missing: every byte of a text would be a token",
              "convert the model again with a current converter, or use its safetensors files");
  return read_merge_lines(merges, vocabulary, EqualMerges::first,
                          [&](std::size_t place, std::string what, std::string note) {
                            file.fail(fmt::format("{}[{}]", kMerges, place), std::move(what),
                                      std::move(note));
                          });
}

// A lookup finds the last of several equal tokens.
void add_tokens(const io::GgufFile& file, const TokenTable& vocabulary, Pipeline& out) {
  std::unordered_map<std::string_view, std::size_t> last;
  const auto is_added = [&](std::size_t i) {
    return vocabulary.type(i) == Type::control || vocabulary.type(i) == Type::user_defined;
  };
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
    if (is_added(i)) last[vocabulary.tokens[i]] = i;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (!is_added(i)) continue;
    const std::string content(vocabulary.tokens[i]);
    const bool special = vocabulary.type(i) == Type::control;
    const auto id = static_cast<TokenId>(i);
    if (last.at(content) != i)
      out.add_other_id(id, content, special);
    else
      out.add_token(
          {.id = id,
           .content = content,
           .single_word = false,
           .lstrip = false,
           .rstrip = vocabulary.includes_space(i),
           .normalized = false,
           .special = special},
          [&](std::string what) { file.fail(fmt::format("{}[{}]", kTokens, i), std::move(what)); });
  }
}

std::unique_ptr<Tokenizer> make_byte_level(const io::GgufFile& file) {
  const GgmlPreTokenizer& pre = find_row(file, publishers::ggml_pre_tokenizers(), kPre);
  const TokenTable table = read_vocabulary(file);
  Vocabulary vocabulary(table.tokens, Vocabulary::Form::byte_level,
                        fmt::format("{}: '{}'", file.path(), kTokens), Vocabulary::Equal::last);
  MergeTable merges = read_merges_of(file, table, vocabulary);
  auto out = make_byte_level_bpe({.source = file.path(),
                                  .vocabulary = std::move(vocabulary),
                                  .merges = std::move(merges),
                                  .rules = pre,
                                  .added_are_text = true});
  add_tokens(file, table, *out);
  const auto id = [&](std::string_view role) {
    const std::int64_t found = token_id(file, role, table.tokens.size());
    return found < 0 ? std::nullopt : std::optional(static_cast<TokenId>(found));
  };
  static_cast<void>(id("unknown"));  // checks the id only; every byte has a token
  const auto bos = id("bos"), eos = id("eos");
  out->set_ids(bos, eos, id("padding"));
  PostTemplate around;
  if (bos && flag(file, "add_bos_token", pre.add_bos)) around.before.push_back(*bos);
  if (eos && flag(file, "add_eos_token", false)) around.after.push_back(*eos);
  out->set_template(std::move(around));
  return out;
}

// The piece for unknown text: the piece that the file names, else the first with the type unknown.
// -1: there is none.
std::int64_t unknown_piece(const io::GgufFile& file, const TokenTable& vocabulary) {
  if (const std::int64_t named = token_id(file, "unknown", vocabulary.tokens.size()); named >= 0)
    return named;
  const auto first = std::ranges::find(vocabulary.types, static_cast<int>(Type::unknown));
  return first == vocabulary.types.end() ? -1 : first - vocabulary.types.begin();
}

// Pieces with their types; pieces of the type unknown other than `unknown` become control pieces.
std::vector<SentencePieceFile::Piece> pieces_of(const TokenTable& vocabulary,
                                                const std::vector<float>& scores,
                                                std::int64_t unknown) {
  std::vector<SentencePieceFile::Piece> out;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    Type type = vocabulary.type(i);
    if (static_cast<std::int64_t>(i) == unknown)
      type = Type::unknown;
    else if (type == Type::unknown)
      type = Type::control;
    out.push_back({vocabulary.tokens[i], scores[i], type, vocabulary.includes_space(i)});
  }
  return out;
}

std::unique_ptr<Tokenizer> make_sentencepiece(const io::GgufFile& file,
                                              const GgmlVocabulary& kind) {
  const TokenTable vocabulary = read_vocabulary(file);
  const std::vector<float> scores = file.floats(kScores);
  if (scores.size() != vocabulary.tokens.size())
    file.fail(kScores, fmt::format("has {} elements for {} tokens", scores.size(),
                                   vocabulary.tokens.size()));
  const std::int64_t unknown = unknown_piece(file, vocabulary);
  if (unknown < 0 &&
      std::ranges::find(vocabulary.types, static_cast<int>(Type::byte)) == vocabulary.types.end())
    file.fail(kTypes, "has no token of the type unknown (2), and the file names none",
              "'tokenizer.ggml.unknown_token_id' names the token of unknown text");
  SentencePieceFile out = make_sentencepiece_file(
      pieces_of(vocabulary, scores, unknown), [&](std::optional<std::size_t> i, std::string what) {
        file.fail(i ? fmt::format("{}[{}]", kTokens, *i) : std::string(kTokens), std::move(what));
      });
  const std::size_t count = vocabulary.tokens.size();
  out.model = kind.kind == GgmlVocabulary::Kind::sentencepiece_bpe
                  ? SentencePieceFile::Model::bpe
                  : SentencePieceFile::Model::unigram;
  out.bos_id = token_id(file, "bos", count, kind.bos);
  out.eos_id = token_id(file, "eos", count, kind.eos);
  out.pad_id = token_id(file, "padding", count, kind.pad);
  out.add_dummy_prefix = flag(file, "add_space_prefix", true);
  out.remove_extra_whitespaces = flag(file, "remove_extra_whitespaces", false);
  out.splits_at_user_defined = true;
  if (file.find("tokenizer.ggml.precompiled_charsmap"))
    file.fail("tokenizer.ggml.precompiled_charsmap",
              "is a character map, which lamina supports in tokenizer.model only",
              "use the safetensors files of the same model");
  TokenNames names = names_of(file, vocabulary);
  names.add_bos = flag(file, "add_bos_token", kind.add_bos);  // BOS and EOS have ids by default
  names.add_eos = flag(file, "add_eos_token", false);
  return make_sentencepiece_tokenizer(std::move(out), file.path(), names);
}

}  // namespace

bool has_gguf_tokenizer(const std::string& path) { return io::GgufFile(path).find(kTokens); }

std::unique_ptr<Tokenizer> load_gguf_tokenizer(const std::string& path) {
  const io::GgufFile file(path);
  refuse_flags(file);
  const GgmlVocabulary& kind = find_row(file, publishers::ggml_vocabularies(), kModel);
  return kind.kind == GgmlVocabulary::Kind::byte_level_bpe ? make_byte_level(file)
                                                           : make_sentencepiece(file, kind);
}

}  // namespace lamina::text
