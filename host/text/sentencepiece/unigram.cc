#include "text/sentencepiece/unigram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/error.h"
#include "core/printable.h"
#include "core/utf8.h"
#include "text/characters.h"

namespace lamina::text {
namespace {

// The score of a character that is in no token is the worst token's minus this.
constexpr double kUnknownPenalty = 10;

// ["<unk>", 0.0]
std::string_view token_of(const JsonValue& entry) {
  if (!entry.is_array() || entry.size() != 2)
    entry.fail(
        fmt::format("must be a token and its score, eg [\"the\", -3.5], got {}", entry.describe()));
  const std::string_view token = entry.element(0).as_string();
  if (token.empty()) entry.fail("is an empty token; tokens have at least one byte");
  return token;
}

// Returns a score as the tokenizers library reads it: its digits as an integer, divided by a power
// of ten. Sums of scores tie, or not, by the last bit. The nearest number stands for scores with an
// exponent or with more digits than these types have exactly.
double score_of(const JsonValue& json) {
  const double nearest = json.as_double();
  constexpr std::uint64_t kFull = 1'000'000'000'000'000'000;
  std::uint64_t digits = 0;
  double divisor = 1;
  bool in_fraction = false;
  for (const char c : json.number_text()) {
    if (c == 'e' || c == 'E' || digits >= kFull || divisor >= 1e22) return nearest;
    if (c == '.') in_fraction = true;
    if (c < '0') continue;  // the sign or the point
    digits = digits * 10 + static_cast<std::uint64_t>(c - '0');
    if (in_fraction) divisor *= 10;
  }
  return std::copysign(static_cast<double>(digits) / divisor, nearest);
}

Vocabulary read_tokens(const JsonValue& json) {
  std::vector<std::string_view> tokens;
  if (static_cast<std::int64_t>(json.size()) > kMaxIds)
    json.fail(fmt::format("has {} tokens; at most {} are possible", json.size(), kMaxIds));
  for (JsonValue entry : json.elements()) tokens.push_back(token_of(entry));
  return Vocabulary(tokens, Vocabulary::Form::text, json.where());
}

}  // namespace

Unigram::Unigram(const JsonValue& model) : vocabulary_(read_tokens(model.at("vocab"))) {
  read_scores(model.at("vocab"));
  if (const JsonValue unknown = model.find("unk_id"); unknown && !unknown.is_null())
    unknown_ = read_id(unknown, static_cast<std::int64_t>(num_ids()));
  if (const JsonValue bytes = model.find("byte_fallback"); bytes && !bytes.is_null())
    byte_fallback_ = bytes.as_bool();
}

void Unigram::read_scores(const JsonValue& json) {
  std::vector<std::pair<std::string_view, TokenId>> tokens;
  double worst = std::numeric_limits<double>::infinity();
  for (JsonValue entry : json.elements()) {
    const auto id = static_cast<TokenId>(scores_.size());
    scores_.push_back(score_of(entry.element(1)));
    worst = std::min(worst, scores_.back());
    tokens.emplace_back(token(id), id);
  }
  unknown_score_ = worst - kUnknownPenalty;
  trie_ = TokenTrie(std::move(tokens));
}

// The last of equal tokens has the name, as in the reference.
std::optional<TokenId> Unigram::find(std::string_view token) const {
  const auto [length, id] = trie_.longest(token);
  return length == token.size() && length > 0 ? std::optional(id) : std::nullopt;
}

void Unigram::add(std::string_view word, std::size_t begin, std::size_t end, TokenSink& out) const {
  const std::string_view text = word.substr(begin, end - begin);
  if (const auto id = find(text)) return out.add(*id, begin, end);
  if (byte_fallback_) {
    std::vector<TokenId> bytes;
    for (char c : text)
      if (const auto id = find(token_of_byte(static_cast<unsigned char>(c)))) bytes.push_back(*id);
    if (bytes.size() == text.size()) {
      for (TokenId id : bytes) out.add(id, begin, end);
      return;
    }
  }
  out.add(*unknown_, begin, end);
}

void Unigram::encode(std::string_view word, TokenSink& out) const {
  // The best split of the word up to each of its bytes, by its last token.
  struct Cut {
    double score = 0;
    std::size_t begin = std::string_view::npos;  // npos: not reached
    bool unknown = false;
  };
  std::vector<Cut> cuts(word.size() + 1);
  for (std::size_t at = 0; at < word.size();) {
    const double here = cuts[at].score;
    const std::size_t length = character_bytes(word[at]);
    bool has_character = false;
    const auto consider = [&](std::size_t bytes, double score, bool unknown) {
      Cut& cut = cuts[at + bytes];
      if (cut.begin == word.npos || here + score > cut.score) cut = {here + score, at, unknown};
    };
    trie_.prefixes(word.substr(at), [&](std::size_t bytes, TokenId id) {
      consider(bytes, scores_[static_cast<std::size_t>(id)], id == unknown_);
      has_character = has_character || bytes == length;
    });
    if (!has_character) {
      if (!unknown_)
        user_error(ExitCode::data, "encoding text",
                   "the vocabulary has no token for '{}' and no unk_id; remove such text, or "
                   "use another tokenizer",
                   printable(word.substr(at, length)));
      consider(length, unknown_score_, true);
    }
    at += length;
  }
  // From the end; a run of unknown characters is one token.
  std::vector<Span> tokens;
  bool after_unknown = false;
  for (std::size_t end = word.size(); end > 0;) {
    const Cut& cut = cuts[end];
    if (cut.unknown && after_unknown)
      tokens.back().begin = cut.begin;
    else
      tokens.push_back({cut.begin, end});
    after_unknown = cut.unknown;
    end = cut.begin;
  }
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token)
    add(word, token->begin, token->end, out);
}

}  // namespace lamina::text
