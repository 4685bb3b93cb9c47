#include "text/sentencepiece/sentencepiece.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/utf8.h"
#include "text/characters.h"
#include "text/hf/added_tokens.h"
#include "text/hf/tokenizer_files.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/sentencepiece/sentencepiece_text.h"
#include "text/vocabulary.h"
#include "text/word_cache.h"

namespace lamina::text {
namespace {

using Type = SentencePieceFile::Type;

// The library replaces each invalid byte by a U+FFFD. Records their positions.
std::string replace_invalid_bytes(std::string_view text, std::vector<std::size_t>& places) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text.substr(0, 4));
    if (length > 0) {
      out += text.substr(0, length);
    } else {
      places.push_back(out.size());
      out += "\xef\xbf\xbd";
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  // The tokenizer's files are copied from `source`.
  SentencePieceTokenizer(SentencePieceFile file, const std::string& path, std::string source,
                         const std::vector<AddedToken>& added, const SpecialTokens& special,
                         const TokenNames& names)
      : source_(std::move(source)),
        file_(std::move(file)),
        normalizer_(file_, path),
        model_(make_sentencepiece_model(file_, path)),
        vocab_size_(static_cast<std::int64_t>(file_.pieces.size())) {
    for (std::size_t i = 0; i < file_.pieces.size(); ++i) {
      const auto& piece = file_.pieces[i];
      const bool has_name = piece.type == Type::control || piece.type == Type::unknown;
      const bool splits =
          has_name || (file_.splits_at_user_defined && piece.type == Type::user_defined);
      if (splits &&
          model_->find(piece.text) == static_cast<TokenId>(i))  // the last of equal pieces
        matcher_.add(piece.text, {.id = static_cast<TokenId>(i),
                                  .content = std::string(piece.text),
                                  .single_word = false,
                                  .lstrip = false,
                                  .rstrip = piece.includes_space,
                                  .normalized = false,
                                  .special = has_name});
    }
    std::unordered_set<std::string_view> listed;
    for (const AddedToken& token : added) {
      add(token);
      listed.insert(token.content);
    }
    for (const auto& tokens : {special.named, special.listed})
      for (AddedToken token : tokens) {
        const auto id = model_->find(token.content);
        if (!id || listed.contains(token.content)) continue;
        token.id = *id;
        add(token);
      }
    set_names(names);
  }

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override {
    return encode_into(text, options, false).ids;
  }
  Encoding encode_with_spans(std::string_view text, const EncodeOptions& options) const override {
    return encode_into(text, options, true);
  }
  bool reads_special_tokens() const override { return false; }

  std::string decode(std::span<const TokenId> ids, bool skip_special) const override {
    check_ids(ids);
    const auto text = stream(skip_special);
    std::string out;
    for (TokenId id : ids) out += text->push(id);
    return out + text->finish();
  }
  std::unique_ptr<TextStream> stream(bool skip_special) const override {
    return std::make_unique<Stream>(*this, skip_special);
  }
  std::string_view token_bytes(TokenId id) const override {
    if (id < 0 || id >= vocab_size_) return {};
    std::call_once(bytes_made_, [this] { make_bytes(); });
    return bytes_[static_cast<std::size_t>(id)];
  }
  std::string spelling(TokenId id) const override {
    if (const auto added = added_.find(id); added != added_.end()) return added->second.content;
    return is_piece(id) ? std::string(piece(id).text) : std::string();
  }
  bool is_special(TokenId id) const override {
    if (const auto added = added_.find(id); added != added_.end()) return added->second.special;
    return special_pieces_.contains(id) || (is_piece(id) && piece(id).type == Type::control);
  }
  std::vector<AddedText> added_tokens() const override {
    std::vector<AddedText> out;
    for (const AddedToken& token : matcher_.tokens()) out.push_back({token.content, token.special});
    return out;
  }
  std::optional<TokenId> find_token(std::string_view text) const override {
    for (const auto& [id, token] : added_)
      if (token.content == text) return id;
    return model_->find(text);
  }
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::optional<TokenId> bos_id() const override { return bos_id_; }
  std::optional<TokenId> eos_id() const override { return eos_id_; }
  std::optional<TokenId> pad_id() const override { return pad_id_; }
  std::vector<std::string> save(const std::string& directory) const override {
    return copy_tokenizer_files(source_, directory);
  }

 private:
  class Stream final : public TextStream {
   public:
    Stream(const SentencePieceTokenizer& tokenizer, bool skip_special)
        : tokenizer_(tokenizer), skip_special_(skip_special), text_(tokenizer.file_) {}
    std::string push(TokenId id) override {
      if (skip_special_ && tokenizer_.is_special(id)) return "";
      if (const auto added = tokenizer_.added_.find(id); added != tokenizer_.added_.end())
        return text_.push(added->second.content, Type::user_defined);
      if (!tokenizer_.is_piece(id)) return "";
      return text_.push(tokenizer_.piece(id).text, tokenizer_.piece(id).type);
    }
    std::string finish() override { return text_.finish(); }

   private:
    const SentencePieceTokenizer& tokenizer_;
    bool skip_special_;
    SentencePieceText text_;
  };

  bool is_piece(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < file_.pieces.size();
  }
  const SentencePieceFile::Piece& piece(TokenId id) const {
    return file_.pieces[static_cast<std::size_t>(id)];
  }

  // Added tokens may repeat pieces of the file, and make them special.
  void add(const AddedToken& token) {
    if (is_piece(token.id) && piece(token.id).text == token.content) {
      if (!token.special) return;
      special_pieces_.insert(token.id);
      return matcher_.add(token.content, token);
    }
    vocab_size_ = std::max(vocab_size_, static_cast<std::int64_t>(token.id) + 1);
    added_.emplace(token.id, token);
    matcher_.add(token.content, token);
  }

  void set_names(const TokenNames& names) {
    const auto find = [this](const std::optional<std::string>& name, std::int64_t in_file) {
      const auto id = static_cast<TokenId>(in_file);
      if (name && file_.may_repeat && is_piece(id) && piece(id).text == *name)
        return std::optional(id);
      if (name) return find_token(*name);
      return in_file >= 0 && in_file < vocab_size_ && is_special(id) ? std::optional(id)
                                                                     : std::nullopt;
    };
    bos_id_ = find(names.bos, file_.bos_id);
    eos_id_ = find(names.eos, file_.eos_id);
    pad_id_ = find(names.pad, file_.pad_id);
    add_bos_ = names.add_bos && bos_id_;
    add_eos_ = names.add_eos && eos_id_;
  }

  Encoding encode_into(std::string_view text, const EncodeOptions& options, bool with_spans) const {
    std::string replaced;
    SentencePieceNormalizer::Broken broken;
    if (find_invalid_utf8(text) != text.npos) {
      std::vector<std::size_t> places;
      text = replaced = replace_invalid_bytes(text, places);
      for (std::size_t at : places) broken.push_back(text.data() + at);
    }
    const std::vector<Span> origins = with_spans ? identity_origins(text) : std::vector<Span>();
    const TextPiece whole{text, with_spans ? origins.data() : nullptr,
                          text.empty() ? 0 : character_bytes(text[0])};
    Encoding out;
    out.ids.reserve(text.size() / 3 + 8);
    const auto add_one = [&](TokenId id, Span span) {
      out.ids.push_back(id);
      if (with_spans) out.spans.push_back(span);
    };
    if (options.add_special && add_bos_) add_one(*bos_id_, {0, 0});
    WordCache& cache = WordCache::of_this_thread(*model_, text.size());
    const auto part = [&](std::string_view of, const AddedToken* token) {
      const auto begin = static_cast<std::size_t>(of.data() - text.data());
      if (token)
        add_one(token->id, {begin, begin + of.size()});
      else
        encode_part(whole.part(begin, begin + of.size()), broken, cache, out);
    };
    if (options.find_added)
      matcher_.split(text, options.parse_special, part);
    else
      part(text, nullptr);
    if (options.add_special && add_eos_) add_one(*eos_id_, {text.size(), text.size()});
    return out;
  }

  void encode_part(const TextPiece& part, const SentencePieceNormalizer::Broken& broken,
                   WordCache& cache, Encoding& out) const {
    std::deque<PieceWriter> owner;
    TextPiece rest = normalizer_.normalize(part, broken, owner);
    std::vector<Span> spans;
    while (!rest.text.empty()) {
      const TextPiece first = rest.part(0, model_->independent_prefix(rest.text));
      rest = rest.part(first.text.size(), rest.text.size());
      if (!first.origins) {
        cache.encode(*model_, first.text, out.ids);
        continue;
      }
      spans.clear();
      TokenSink sink{out.ids, &spans};
      model_->encode(first.text, sink);
      for (const Span& span : spans)
        out.spans.push_back({first.origins[span.begin].begin, first.origins[span.end - 1].end});
    }
  }

  void make_bytes() const {
    SentencePieceText text(file_);
    text.push(".", Type::normal);  // so that the following token is in the middle
    bytes_.resize(static_cast<std::size_t>(vocab_size_));
    for (TokenId id = 0; id < vocab_size_; ++id) {
      std::string& bytes = bytes_[static_cast<std::size_t>(id)];
      if (const auto added = added_.find(id); added != added_.end())
        bytes = added->second.content;
      else if (is_piece(id) && piece(id).type == Type::byte)
        bytes = static_cast<char>(*byte_of_token(piece(id).text));
      else if (is_piece(id))
        bytes = text.push(piece(id).text, piece(id).type);
    }
  }

  std::string source_;
  SentencePieceFile file_;
  SentencePieceNormalizer normalizer_;
  std::unique_ptr<WordModel> model_;
  AddedTokenMatcher matcher_;
  std::unordered_map<TokenId, AddedToken> added_;
  std::unordered_set<TokenId> special_pieces_;  // by the files beside tokenizer.model
  std::int64_t vocab_size_;
  bool add_bos_ = false, add_eos_ = false;
  std::optional<TokenId> bos_id_, eos_id_, pad_id_;
  mutable std::once_flag bytes_made_;
  mutable std::vector<std::string> bytes_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& directory) {
  const std::string path = directory + "/tokenizer.model";
  SentencePieceFile file = read_sentencepiece(path);
  const TokenizerFiles files(directory);
  if (!files.flag_of("add_prefix_space").value_or(true)) file.add_dummy_prefix = false;
  file.prefixes_every_part = files.flag_of("legacy").value_or(true);
  return std::make_unique<SentencePieceTokenizer>(std::move(file), path, directory,
                                                  files.added_tokens(), files.special_tokens(),
                                                  files.names());
}

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(SentencePieceFile file,
                                                        const std::string& path,
                                                        const TokenNames& names) {
  return std::make_unique<SentencePieceTokenizer>(
      std::move(file), path, path, std::vector<AddedToken>{}, SpecialTokens{}, names);
}

}  // namespace lamina::text
