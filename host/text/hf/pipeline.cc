#include "text/hf/pipeline.h"

#include <algorithm>

#include "core/error.h"
#include "core/printable.h"
#include "core/utf8.h"
#include "text/characters.h"
#include "text/hf/byte_level.h"
#include "text/hf/space_clean_up.h"
#include "text/word_cache.h"

namespace lamina::text {
namespace {

// A token that decodes to itself, for tokens in the middle of a text.
constexpr std::string_view kNeighbour = ".";

}  // namespace

Pipeline::Pipeline(std::string directory, PipelineParts parts)
    : directory_(std::move(directory)),
      normalizer_(std::move(parts.normalizer)),
      splitter_(std::move(parts.splitter)),
      model_(std::move(parts.model)),
      words_are_bytes_(parts.words_are_bytes),
      added_are_text_(parts.added_are_text),
      decoder_(std::move(parts.decoder)),
      reads_special_tokens_(parts.reads_special_tokens),
      vocab_size_(static_cast<std::int64_t>(model_->num_ids())) {}

void Pipeline::add_token(AddedToken token, const std::function<void(std::string)>& refuse) {
  vocab_size_ = std::max(vocab_size_, static_cast<std::int64_t>(token.id) + 1);
  const auto [known, is_new] = by_content_.emplace(token.content, token.id);
  if (known->second != token.id)
    return refuse(fmt::format("is {}, but the token \"{}\" has the id {} already", token.id,
                              printable(token.content, 40), known->second));
  if (is_new) {
    const auto added = added_.find(token.id);
    std::string_view other = added != added_.end() ? std::string_view(added->second.form) : "";
    if (added == added_.end() && static_cast<std::size_t>(token.id) < model_->num_ids()) {
      const std::string_view in_model = model_->token(token.id);
      if (in_model != token.content &&
          !(words_are_bytes_ && in_model == byte_level_bytes(token.content)))
        other = in_model;
    }
    if (!other.empty())
      return refuse(fmt::format("is {}, which is the token \"{}\"; each token has its own id",
                                token.id, printable(other, 40)));
  }
  // The reference shows a token in its normalized form; if that differs from its content, the token
  // no longer counts as special.
  const std::string form = token.normalized ? normalizer_.normalize(token.content) : token.content;
  first_added_ = std::min(first_added_, token.id);
  added_[token.id] = {form, bytes_of_form(form), token.special && form == token.content};
  (token.normalized ? normalized_ : raw_).add(form, token);
}

void Pipeline::add_named(AddedToken token) {
  if (has_added(token.content)) return;
  const auto id = find_spelt(token.content);
  if (!id) return;
  token.id = *id;
  // The id is refused only if an added token is the alphabet's spelling of this content.
  add_token(std::move(token), [](const std::string&) {});
}

std::optional<TokenId> Pipeline::find_spelt(const std::string& content) const {
  if (has_added(content) || !words_are_bytes_ || added_are_text_) return find_token(content);
  const auto bytes = byte_level_bytes(content);
  return bytes ? model_->find(*bytes) : std::nullopt;
}

void Pipeline::add_other_id(TokenId id, const std::string& content, bool special) {
  first_added_ = std::min(first_added_, id);
  added_[id] = {content, bytes_of_form(content), special};
}

std::string Pipeline::bytes_of_form(const std::string& form) const {
  return added_are_text_ ? form : byte_level_bytes(form).value_or(form);
}

void Pipeline::set_ids(std::optional<TokenId> bos, std::optional<TokenId> eos,
                       std::optional<TokenId> pad) {
  bos_id_ = bos;
  eos_id_ = eos;
  pad_id_ = pad;
}

void Pipeline::set_names(const TokenNames& names) {
  const auto find = [this](const std::optional<std::string>& name) {
    return name ? find_spelt(*name) : std::nullopt;
  };
  set_ids(find(names.bos), find(names.eos), find(names.pad));
}

// The encoding of one text.
class Pipeline::Run {
 public:
  Run(const Pipeline& parts, const EncodeOptions& options, std::size_t text_bytes, Encoding& out,
      bool with_spans)
      : parts_(parts),
        options_(options),
        out_(out),
        with_spans_(with_spans),
        cache_(WordCache::of_this_thread(*parts.model_, text_bytes)),
        session_(parts.splitter_) {}

  void text(const TextPiece& piece) {
    if (parts_.raw_.empty() || !options_.find_added) {
      if (!piece.text.empty()) raw(piece);
      return;
    }
    split(parts_.raw_, piece, [this](const TextPiece& p) { raw(p); });
  }

 private:
  void split(const AddedTokenMatcher& matcher, const TextPiece& piece,
             const std::function<void(const TextPiece&)>& between) {
    matcher.split(piece.text, options_.parse_special,
                  [&](std::string_view part, const AddedToken* token) {
                    const auto begin = static_cast<std::size_t>(part.data() - piece.text.data());
                    const TextPiece p = piece.part(begin, begin + part.size());
                    if (token)
                      add(token->id, p);
                    else
                      between(p);
                  });
  }
  void raw(const TextPiece& piece) {
    const TextPiece normalized = parts_.normalizer_.normalize(piece, owner_);
    if (parts_.normalized_.empty() || !options_.find_added)
      words(normalized);
    else
      split(parts_.normalized_, normalized, [this](const TextPiece& p) { words(p); });
    owner_.clear();
  }
  void words(const TextPiece& piece) { session_.split(piece, word_); }

  void word(const TextPiece& piece) {
    std::string_view rest = piece.text;
    while (!rest.empty()) {
      const std::size_t length = parts_.model_->independent_prefix(rest);
      const std::size_t begin = piece.text.size() - rest.size();
      if (with_spans_)
        with_spans(piece.part(begin, begin + length));
      else
        cache_.encode(*parts_.model_, rest.substr(0, length), out_.ids);
      rest.remove_prefix(length);
    }
  }
  void with_spans(const TextPiece& piece) {
    spans_.clear();
    TokenSink sink{out_.ids, &spans_};
    parts_.model_->encode(piece.text, sink);
    for (const Span& span : spans_)
      out_.spans.push_back({piece.origins[span.begin].begin, piece.origins[span.end - 1].end});
  }
  void add(TokenId id, const TextPiece& piece) {
    out_.ids.push_back(id);
    if (!with_spans_) return;
    out_.spans.push_back({piece.origins[0].begin, piece.origins[piece.text.size() - 1].end});
  }

  const Pipeline& parts_;
  const EncodeOptions& options_;
  Encoding& out_;
  bool with_spans_;
  WordCache& cache_;
  Splitter::Session session_;
  std::deque<PieceWriter> owner_;  // of the normalized text
  std::vector<Span> spans_;
  const Splitter::Session::Word word_ = [this](const TextPiece& piece) { word(piece); };
};

void Pipeline::encode_into(std::string_view text, const EncodeOptions& options, Encoding& out,
                           bool with_spans) const {
  std::string replaced;
  if (find_invalid_utf8(text) != text.npos) text = replaced = replace_invalid_utf8(text);
  out.ids.reserve(text.size() / 3 + 8);
  const auto around = [&](const std::vector<TokenId>& ids, std::size_t at) {
    if (!options.add_special) return;
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    if (with_spans) out.spans.insert(out.spans.end(), ids.size(), {at, at});
  };
  around(template_.before, 0);
  const std::vector<Span> origins = with_spans ? identity_origins(text) : std::vector<Span>();
  Run(*this, options, text.size(), out, with_spans)
      .text({text, with_spans ? origins.data() : nullptr,
             text.empty() ? 0 : character_bytes(text[0])});
  around(template_.after, text.size());
}

std::vector<AddedText> Pipeline::added_tokens() const {
  std::vector<AddedText> out;
  for (const AddedTokenMatcher* matcher : {&raw_, &normalized_})
    for (const AddedToken& token : matcher->tokens()) out.push_back({token.content, token.special});
  return out;
}

std::vector<TokenId> Pipeline::encode(std::string_view text, const EncodeOptions& options) const {
  Encoding out;
  encode_into(text, options, out, false);
  return std::move(out.ids);
}

Encoding Pipeline::encode_with_spans(std::string_view text, const EncodeOptions& options) const {
  Encoding out;
  encode_into(text, options, out, true);
  return out;
}

std::string Pipeline::text_of(TokenId id) const {
  if (const auto added = added_.find(id); added != added_.end()) return added->second.form;
  if (id < 0 || static_cast<std::size_t>(id) >= model_->num_ids()) return "";
  const std::string_view token = model_->token(id);
  return words_are_bytes_ ? byte_level_spelling(token) : std::string(token);
}

// Sends tokens through the decoder; an id without a token adds nothing.
class Pipeline::Stream final : public TextStream {
 public:
  Stream(const Pipeline& parts, bool skip_special, DecoderChain::Mode mode)
      : parts_(parts), skip_special_(skip_special), chain_(parts.decoder_, mode) {
    if (parts.cleans_up_spaces_) clean_up_.emplace();
  }
  std::string push(TokenId id) override {
    if (skip_special_ && parts_.is_special(id)) return "";
    const std::string text = parts_.text_of(id);
    return text.empty() ? "" : clean(chain_.push(text));
  }
  std::string finish() override {
    const std::string last = clean(chain_.finish());
    return clean_up_ ? last + clean_up_->finish() : last;
  }

 private:
  std::string clean(std::string text) {
    return clean_up_ ? clean_up_->push(std::move(text)) : text;
  }

  const Pipeline& parts_;
  bool skip_special_;
  DecoderChain::Stream chain_;
  std::optional<SpaceCleanUp> clean_up_;
};

std::unique_ptr<TextStream> Pipeline::stream(bool skip_special) const {
  if (text_is_bytes()) return Tokenizer::stream(skip_special);
  return std::make_unique<Stream>(*this, skip_special, DecoderChain::Mode::streaming);
}

std::string Pipeline::decode(std::span<const TokenId> ids, bool skip_special) const {
  if (text_is_bytes()) return Tokenizer::decode(ids, skip_special);
  check_ids(ids);
  Stream stream(*this, skip_special, DecoderChain::Mode::whole);
  std::string out;
  for (TokenId id : ids) out += stream.push(id);
  return out + stream.finish();
}

void Pipeline::make_bytes() const {
  // Stages hold text back, so every token has its own stream, in which it is in the middle.
  const auto decoded = [this](std::string_view token) {
    DecoderChain::Stream stream(decoder_, DecoderChain::Mode::streaming);
    stream.push(kNeighbour);
    std::string out = token.empty() ? "" : stream.push(token);
    out += stream.push(kNeighbour);
    return out + stream.finish();
  };
  const std::string after = decoded("");
  const auto middle = [&](std::string_view token) {
    std::string out = decoded(token);
    if (out.ends_with(after)) out.resize(out.size() - after.size());
    return out;
  };
  bytes_.resize(static_cast<std::size_t>(vocab_size_));
  for (TokenId id = 0; id < vocab_size_; ++id) {
    const std::string text = text_of(id);
    std::string& bytes = bytes_[static_cast<std::size_t>(id)];
    if (const auto byte = decoder_.has_byte_fallback() ? byte_of_token(text) : std::nullopt) {
      bytes = static_cast<char>(*byte);
      continue;
    }
    if (decoder_.has_byte_level()) {
      const std::string all = byte_level_bytes(text).value_or(text);
      if (decoder_.is_byte_level() ||
          find_invalid_utf8(all) != all.npos) {  // a part of a character
        bytes = all;
        continue;
      }
    }
    if (!text.empty()) bytes = middle(text);
  }
}

std::string_view Pipeline::token_bytes(TokenId id) const {
  if (id < 0 || id >= vocab_size_) return {};
  if (!text_is_bytes()) {
    std::call_once(bytes_made_, [this] { make_bytes(); });
    return bytes_[static_cast<std::size_t>(id)];
  }
  if (id >= first_added_)
    if (const auto added = added_.find(id); added != added_.end()) return added->second.bytes;
  return static_cast<std::size_t>(id) < model_->num_ids() ? model_->token(id) : std::string_view();
}

std::string Pipeline::spelling(TokenId id) const { return text_of(id); }

bool Pipeline::is_special(TokenId id) const {
  const auto added = added_.find(id);
  if (added == added_.end() || added->second.special) return added != added_.end();
  // The reference looks up the shown form, which may be the content of another token.
  const auto same = by_content_.find(added->second.form);
  if (same == by_content_.end()) return false;
  const auto other = added_.find(same->second);
  return other != added_.end() && other->second.special;
}

std::optional<TokenId> Pipeline::find_token(std::string_view text) const {
  if (const auto added = by_content_.find(std::string(text)); added != by_content_.end())
    return added->second;
  return model_->find(text);
}

std::vector<std::string> Pipeline::save(const std::string& directory) const {
  return copy_tokenizer_files(directory_, directory);
}

}  // namespace lamina::text
