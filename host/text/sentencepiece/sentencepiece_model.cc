#include "text/sentencepiece/sentencepiece_model.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "core/error.h"
#include "core/printable.h"
#include "core/utf8.h"
#include "text/bpe_merges.h"
#include "text/characters.h"
#include "text/symbol_table.h"
#include "text/token_trie.h"
#include "text/vocabulary.h"

namespace lamina::text {
namespace {

using Type = SentencePieceFile::Type;
using Tokens = std::vector<std::pair<std::string_view, TokenId>>;

// The score of a character that is in no piece is the worst piece's minus this.
constexpr float kUnknownPenalty = 10;

Vocabulary all_pieces(const SentencePieceFile& file, const std::string& path) {
  std::vector<std::string_view> tokens;
  for (const auto& piece : file.pieces) tokens.push_back(piece.text);
  return Vocabulary(tokens, Vocabulary::Form::text, path);
}

// True for pieces that text can become: the others (control, unknown, byte) have names, not text.
bool is_text(Type type) {
  return type == Type::normal || type == Type::user_defined || type == Type::unused;
}

// The common base of both models: pieces by id, and the encoding of unknown text.
class Pieces : public WordModel {
 public:
  Pieces(const SentencePieceFile& file, const std::string& path)
      : vocabulary_(all_pieces(file, path)), byte_fallback_(file.byte_fallback) {
    for (std::size_t i = 0; i < file.pieces.size(); ++i) {
      const auto& piece = file.pieces[i];
      const auto id = static_cast<TokenId>(i);
      types_.push_back(piece.type);
      if (piece.type == Type::unknown) unknown_ = id;
      if (const auto byte = byte_of_token(piece.text); byte && piece.type == Type::byte)
        bytes_[*byte] = id;
      Ids& ids = is_text(piece.type) ? texts_ : names_;
      if (!ids.insert_or_assign(token(id), id).second && !file.may_repeat)
        throw UserError(ExitCode::checkpoint,
                        {path,
                         fmt::format("piece {} ('{}') is a duplicate; pieces must differ", i,
                                     printable(piece.text, 40)),
                         {}});
    }
  }

  std::size_t num_ids() const override { return vocabulary_.num_ids(); }
  std::string_view token(TokenId id) const override { return vocabulary_.token(id); }
  std::optional<TokenId> find(std::string_view token) const override {
    for (const auto* pieces : {&names_, &texts_})
      if (const auto found = pieces->find(token); found != pieces->end()) return found->second;
    return std::nullopt;
  }

 protected:
  Type type(TokenId id) const { return types_[static_cast<std::size_t>(id)]; }
  std::optional<TokenId> find_text(std::string_view text) const {
    const auto found = texts_.find(text);
    return found == texts_.end() ? std::nullopt : std::optional(found->second);
  }
  // Unknown text becomes bytes, or one token for a whole run.
  void add(std::string_view word, TokenId id, Span span, bool& after_unknown,
           TokenSink& out) const {
    if (id != unknown_) {
      after_unknown = false;
      return out.add(id, span.begin, span.end);
    }
    if (byte_fallback_) {
      for (char c : word.substr(span.begin, span.end - span.begin))
        out.add(bytes_[static_cast<unsigned char>(c)], span.begin, span.end);
    } else if (after_unknown) {
      if (out.spans) out.spans->back().end = span.end;
    } else {
      out.add(unknown_, span.begin, span.end);
    }
    after_unknown = true;
  }

  using Ids = boost::unordered_flat_map<std::string_view, TokenId>;
  Vocabulary vocabulary_;
  Ids texts_, names_;
  std::vector<Type> types_;
  TokenId unknown_ = -1;  // only with byte fallback
  TokenId bytes_[256] = {};
  bool byte_fallback_;
};

class BpePieces final : public Pieces {
 public:
  BpePieces(const SentencePieceFile& file, const std::string& path) : Pieces(file, path) {
    // Higher scores merge first; equal ones from the left.
    std::vector<float> scores;
    for (const auto& piece : file.pieces) scores.push_back(piece.score);
    std::sort(scores.begin(), scores.end(), std::greater<>());
    scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
    Tokens user_defined;
    for (std::size_t i = 0; i < file.pieces.size(); ++i) {
      const auto& piece = file.pieces[i];
      const auto id = static_cast<TokenId>(i);
      ranks_.push_back(static_cast<std::uint32_t>(
          std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>()) -
          scores.begin()));
      if (piece.type == Type::user_defined && !file.splits_at_user_defined)
        user_defined.emplace_back(token(id), id);
      longest_ = std::max(longest_, piece.text.size());
      has_unused_ = has_unused_ || piece.type == Type::unused;
      if (is_text(piece.type)) symbols_.add(token(id), id);
    }
    user_defined_ = TokenTrie(std::move(user_defined));
  }

  std::size_t independent_prefix(std::string_view word) const override {
    return has_unused_ ? word.size() : symbols_.first_cut(word, vocabulary_);
  }

  void encode(std::string_view word, TokenSink& out) const override {
    check_length(word);
    std::vector<MergePart> parts;
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t whole = user_defined_.longest(word.substr(at)).first;
      const std::size_t length = whole > 0 ? whole : character_bytes(word[at]);
      at += length;
      parts.push_back({whole > 0 ? kFrozen : 0, static_cast<std::uint32_t>(at)});
    }
    // The parts of pieces that must not be in the result.
    std::unordered_map<std::string_view, std::size_t> left_bytes;
    merge_parts(parts, [&](const MergePart& left, const MergePart& right, std::uint32_t begin) {
      if (left.id == kFrozen || right.id == kFrozen) return FoundMerge{};
      // Text longer than every piece is not looked up: hashing it would cost its length.
      if (right.end - begin > longest_) return FoundMerge{};
      const std::string_view merged = word.substr(begin, right.end - begin);
      const auto id = find_text(merged);
      if (!id) return FoundMerge{};
      if (type(*id) == Type::unused) left_bytes[merged] = left.end - begin;
      return FoundMerge{ranks_[static_cast<std::size_t>(*id)], 0};
    });
    bool after_unknown = false;
    std::size_t begin = 0;
    for (const MergePart& part : parts) {
      add_apart(word, {begin, part.end}, left_bytes, after_unknown, out);
      begin = part.end;
    }
  }

 private:
  static constexpr TokenId kFrozen = 1;  // the id of a part that does not merge; other parts have 0

  // Splits pieces of the type unused again.
  void add_apart(std::string_view word, Span whole,
                 const std::unordered_map<std::string_view, std::size_t>& left_bytes,
                 bool& after_unknown, TokenSink& out) const {
    std::vector<Span> open{whole};
    while (!open.empty()) {
      const Span span = open.back();
      open.pop_back();
      const std::string_view text = word.substr(span.begin, span.end - span.begin);
      const std::optional<TokenId> id = find_text(text);
      const bool unused = id && type(*id) == Type::unused;
      const auto made = unused ? left_bytes.find(text) : left_bytes.end();
      if (made == left_bytes.end()) {  // an unused piece of one character is unknown
        add(word, id && !unused ? *id : unknown_, span, after_unknown, out);
      } else {
        open.push_back({span.begin + made->second, span.end});
        open.push_back({span.begin, span.begin + made->second});
      }
    }
  }

  std::vector<std::uint32_t> ranks_;  // by id
  TokenTrie user_defined_;
  SymbolTable symbols_;
  std::size_t longest_ = 0;  // bytes of a piece
  bool has_unused_ = false;
};

class UnigramPieces final : public Pieces {
 public:
  UnigramPieces(const SentencePieceFile& file, const std::string& path) : Pieces(file, path) {
    float worst = std::numeric_limits<float>::max();
    Tokens tokens;
    for (std::size_t i = 0; i < file.pieces.size(); ++i) {
      const auto& piece = file.pieces[i];
      if (piece.type == Type::normal) worst = std::min(worst, piece.score);
      if (is_text(piece.type) && piece.type != Type::unused)
        tokens.emplace_back(token(static_cast<TokenId>(i)), static_cast<TokenId>(i));
      scores_.push_back(piece.score);
    }
    unknown_score_ = worst - kUnknownPenalty;
    trie_ = TokenTrie(std::move(tokens));
  }

  // Sums and comparisons are in float32 from left to right, and the first of equal sums counts, as
  // in the library: other sums would choose other pieces.
  void encode(std::string_view word, TokenSink& out) const override {
    std::vector<Cut> cuts(word.size() + 1);
    std::size_t frontier = 0;  // the largest end reached
    for (std::size_t at = 0; at < word.size();) {
      restart_sums(cuts, at, frontier);
      const float here = cuts[at].score;
      const std::size_t length = character_bytes(word[at]);
      bool has_character = false;
      const auto consider = [&](std::size_t bytes, float score, TokenId id) {
        Cut& cut = cuts[at + bytes];
        frontier = std::max(frontier, at + bytes);
        if (const float sum = score + here; cut.begin == word.npos || sum > cut.score)
          cut = {sum, id, at};
      };
      trie_.prefixes(word.substr(at), [&](std::size_t bytes, TokenId id) {
        consider(bytes, score(id, bytes), id);
        has_character = has_character || bytes == length;
      });
      if (!has_character) consider(length, unknown_score_, unknown_);
      at += length;
    }
    std::vector<std::pair<Span, TokenId>> tokens;
    for (std::size_t end = word.size(); end > 0; end = cuts[end].begin)
      tokens.push_back({{cuts[end].begin, end}, cuts[end].id});
    bool after_unknown = false;
    for (auto token = tokens.rbegin(); token != tokens.rend(); ++token)
      add(word, token->second, token->first, after_unknown, out);
  }

 private:
  // The best split of the word up to a byte, by its last piece.
  struct Cut {
    float score = 0;
    TokenId id = -1;
    std::size_t begin = std::string_view::npos;  // npos: not reached
  };

  // Sums of long words restart at 0 beyond this limit, as in the library: there a float32 has no
  // digits left for the differences of scores.
  static void restart_sums(std::vector<Cut>& cuts, std::size_t at, std::size_t frontier) {
    constexpr float kLargestSum = 100'000;
    const float here = cuts[at].score;
    if (std::abs(here) <= kLargestSum) return;
    cuts[at].score = 0;
    for (std::size_t i = at + 1; i <= frontier; ++i)
      if (cuts[i].begin != std::string_view::npos) cuts[i].score -= here;
  }

  // User-defined pieces win, longer ones first.
  float score(TokenId id, std::size_t num_bytes) const {
    return type(id) == Type::user_defined
               ? static_cast<float>(0.1 * static_cast<double>(num_bytes - 1))
               : scores_[static_cast<std::size_t>(id)];
  }

  std::vector<float> scores_;  // by id
  float unknown_score_ = 0;
  TokenTrie trie_;
};

}  // namespace

std::unique_ptr<WordModel> make_sentencepiece_model(const SentencePieceFile& file,
                                                    const std::string& path) {
  if (file.model == SentencePieceFile::Model::bpe) return std::make_unique<BpePieces>(file, path);
  return std::make_unique<UnigramPieces>(file, path);
}

}  // namespace lamina::text
