#include "text/tokenizer_json.h"

#include <algorithm>
#include <bit>
#include <boost/container_hash/hash.hpp>
#include <cstring>
#include <filesystem>
#include <unordered_map>

#include "core/error.h"
#include "core/json.h"
#include "core/read_file.h"
#include "core/utf8.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/splitter.h"

namespace lamina::text {
namespace fs = std::filesystem;
namespace {

const JsonOptions kJsonOptions = {.code = ExitCode::checkpoint,
                                  .max_bytes = std::size_t{256} << 20};

// Ids put around every text.
struct Template {
  std::vector<TokenId> before, after;
};

TokenId read_id(const JsonValue& value, std::int64_t num_ids) {
  const std::int64_t id = value.as_int64();
  if (id < 0 || id >= num_ids)
    value.fail(fmt::format("must be an id from 0 to {}, got {}", num_ids - 1, id));
  return static_cast<TokenId>(id);
}

// The part of a TemplateProcessing that concerns one text alone.
void add_template(const JsonValue& json, std::int64_t num_ids, Template& out) {
  std::vector<TokenId> before, after;
  bool seen_text = false;
  for (JsonValue part : json.at("single").elements()) {
    if (const JsonValue special = part.find("SpecialToken")) {
      const JsonValue token = json.at("special_tokens").at(special.at("id").as_string());
      for (JsonValue id : token.at("ids").elements())
        (seen_text ? after : before).push_back(read_id(id, num_ids));
    } else {
      const JsonValue text = part.at("Sequence").at("id");
      if (text.as_string() != "A" || seen_text)
        text.fail(fmt::format("is {}; a template for one text has the sequence \"A\" once",
                              text.describe()));
      seen_text = true;
    }
  }
  if (!seen_text) json.at("single").fail("has no sequence \"A\"");
  out.before.insert(out.before.begin(), before.begin(), before.end());
  out.after.insert(out.after.end(), after.begin(), after.end());
}

// ["</s>", 2]
TokenId read_token_and_id(const JsonValue& json, std::int64_t num_ids) {
  if (!json.is_array() || json.size() != 2 || !json.element(0).is_string())
    json.fail(fmt::format("must be a token and its id, eg [\"</s>\", 2], got {}", json.describe()));
  return read_id(json.element(1), num_ids);
}

void add_post_processor(const JsonValue& json, std::int64_t num_ids, Template& out) {
  if (!json || json.is_null()) return;
  const JsonValue type = json.at("type");
  if (type.as_string() == "Sequence") {
    for (JsonValue step : json.at("processors").elements()) add_post_processor(step, num_ids, out);
  } else if (type.as_string() == "TemplateProcessing") {
    add_template(json, num_ids, out);
  } else if (type.as_string() == "RobertaProcessing" || type.as_string() == "BertProcessing") {
    out.before.insert(out.before.begin(), read_token_and_id(json.at("cls"), num_ids));
    out.after.push_back(read_token_and_id(json.at("sep"), num_ids));
  } else if (type.as_string() != "ByteLevel") {  // ByteLevel changes offsets only
    type.fail(
        fmt::format("is {}, a post_processor that lamina does not have", type.describe()),
        {"it has TemplateProcessing, RobertaProcessing, BertProcessing, ByteLevel, Sequence"});
  }
}

void check_decoder(const JsonValue& json, const std::string& file) {
  if (!json || json.is_null())
    throw UserError(ExitCode::checkpoint,
                    {file,
                     "has no decoder; expected ByteLevel",
                     {"use a model with a byte-level tokenizer, or give token ids"}});
  const JsonValue type = json.at("type");
  if (type.as_string() == "Sequence") {
    for (JsonValue step : json.at("decoders").elements()) check_decoder(step, file);
  } else if (type.as_string() != "ByteLevel") {
    type.fail(fmt::format("is {}, a decoder that lamina does not have", type.describe()),
              {"it has ByteLevel"});
  }
}

// Recently encoded words and their ids, so that frequent words are merged once. Direct-mapped:
// a new word takes the place of another.
class WordCache {
 public:
  // Sized for a text of that many bytes.
  explicit WordCache(std::size_t text_bytes)
      : entries_(std::bit_ceil(std::clamp<std::size_t>(text_bytes / 16, 16, 1 << 15))) {}

  void encode(const Bpe& bpe, std::string_view word, std::vector<TokenId>& ids) {
    if (word.size() > kKeyBytes) return bpe.encode_word(word, ids);
    std::uint64_t key[3] = {};
    std::memcpy(key, word.data(), word.size());
    Entry& entry = entries_[boost::hash<std::string_view>()(word) & (entries_.size() - 1)];
    if (entry.num_bytes == word.size() && std::memcmp(entry.key, key, sizeof key) == 0) {
      ids.insert(ids.end(), entry.ids, entry.ids + entry.num_ids);
      return;
    }
    const std::size_t first = ids.size();
    bpe.encode_word(word, ids);
    const std::size_t num_ids = ids.size() - first;
    if (num_ids > kIds) return;
    std::memcpy(entry.key, key, sizeof key);
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(), entry.ids);
    entry.num_bytes = static_cast<std::uint8_t>(word.size());
    entry.num_ids = static_cast<std::uint8_t>(num_ids);
  }

 private:
  static constexpr std::size_t kKeyBytes = 24;
  static constexpr std::size_t kIds = 9;
  struct Entry {
    std::uint64_t key[3];
    TokenId ids[kIds];
    std::uint8_t num_bytes;
    std::uint8_t num_ids;
  };
  std::vector<Entry> entries_;
};

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(const std::string& directory, const JsonValue& root, const std::string& file)
      : directory_(directory),
        splitter_(root.find("pre_tokenizer"), file),
        normalizer_(root.find("normalizer")),
        bpe_(root.at("model")) {
    check_decoder(root.find("decoder"), file);
    vocab_size_ = static_cast<std::int64_t>(bpe_.num_ids());
    if (const JsonValue added = root.find("added_tokens"); added && !added.is_null())
      for (JsonValue token : added.elements()) add_token(token);
    add_post_processor(root.find("post_processor"), vocab_size_, template_);
    read_names();
  }

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override {
    std::string replaced;
    if (find_invalid_utf8(text) != text.npos) text = replaced = replace_invalid_utf8(text);
    std::vector<TokenId> ids;
    ids.reserve(text.size() / 3 + 8);
    if (options.add_special)
      ids.insert(ids.end(), template_.before.begin(), template_.before.end());
    WordCache cache(text.size());
    Splitter::Session session(splitter_);
    const std::function<void(std::string_view)> word = [&](std::string_view bytes) {
      cache.encode(bpe_, bytes, ids);
    };
    const auto normalized_piece = [&](std::string_view piece, const AddedToken* token) {
      if (token)
        ids.push_back(token->id);
      else
        session.split(piece, word);
    };
    // Normalizing moves characters, so here nothing is special where some of the text is literal.
    const bool parse_normalized = options.parse_special && options.literal.empty();
    const auto raw_piece = [&](std::string_view piece, const AddedToken* token) {
      if (token) return ids.push_back(token->id);
      if (normalizer_.changes_nothing()) {
        if (normalized_.empty()) return session.split(piece, word);
        return normalized_.split(piece, parse_normalized, normalized_piece);
      }
      const std::string normalized = normalizer_.normalize(piece);
      normalized_.split(normalized, parse_normalized, normalized_piece);
    };
    if (raw_.empty()) {
      if (!text.empty()) raw_piece(text, nullptr);
    } else {
      raw_.split(text, options.parse_special, raw_piece, options.literal);
    }
    if (options.add_special) ids.insert(ids.end(), template_.after.begin(), template_.after.end());
    return ids;
  }

  std::string_view token_bytes(TokenId id) const override {
    if (id < 0) return {};
    if (const auto added = added_.find(id); added != added_.end()) return added->second.bytes;
    return static_cast<std::size_t>(id) < bpe_.num_ids() ? bpe_.bytes(id) : std::string_view();
  }
  bool is_special(TokenId id) const override {
    const auto added = added_.find(id);
    return added != added_.end() && added->second.special;
  }
  std::optional<TokenId> find_token(std::string_view text) const override {
    if (const auto added = by_content_.find(std::string(text)); added != by_content_.end())
      return added->second;
    return bpe_.find(text);
  }
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::optional<TokenId> bos_id() const override { return bos_id_; }
  std::optional<TokenId> eos_id() const override { return eos_id_; }
  std::optional<TokenId> pad_id() const override { return pad_id_; }
  std::string spelling(TokenId id) const override {
    const bool added = added_.find(id) != added_.end();
    return added ? std::string(token_bytes(id)) : byte_level_spelling(token_bytes(id));
  }

  std::vector<std::string> save(const std::string& directory) const override {
    std::vector<std::string> names;
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                             "added_tokens.json", "chat_template.jinja"}) {
      std::error_code ec;
      if (!fs::exists(fs::path(directory_) / name, ec)) continue;
      fs::copy_file(fs::path(directory_) / name, fs::path(directory) / name,
                    fs::copy_options::overwrite_existing, ec);
      if (ec)
        throw DeviceError(ExitCode::checkpoint,
                          {directory + "/" + name,
                           fmt::format("cannot be written: {}", system_error_text(ec.value())),
                           {"check the disk and the permissions of the directory"}});
      names.emplace_back(name);
    }
    return names;
  }

 private:
  struct Added {
    std::string bytes;
    bool special;
  };

  void add_token(const JsonValue& json) {
    const auto flag = [&json](std::string_view key, bool absent) {
      const JsonValue value = json.find(key);
      return value ? value.as_bool() : absent;
    };
    AddedToken token{read_id(json.at("id"), kMaxIds), std::string(json.at("content").as_string()),
                     flag("single_word", false),      flag("lstrip", false),
                     flag("rstrip", false),           false,
                     flag("special", false)};
    token.normalized = flag("normalized", !token.special);
    vocab_size_ = std::max(vocab_size_, static_cast<std::int64_t>(token.id) + 1);
    check_own_id(json, token);
    // The reference shows a token in the form in which it is looked for; if that differs from its
    // content it no longer counts as special. It decodes through the byte alphabet where it can.
    const std::string form =
        token.normalized ? normalizer_.normalize(token.content) : token.content;
    added_[token.id] = {byte_level_bytes(form).value_or(form),
                        token.special && form == token.content};
    (token.normalized ? normalized_ : raw_).add(form, token);
  }

  // A token may be listed twice, and be in the vocabulary, too; but with one id, and that its own.
  void check_own_id(const JsonValue& json, const AddedToken& token) {
    const auto [known, is_new] = by_content_.emplace(token.content, token.id);
    if (known->second != token.id)
      json.at("id").fail(fmt::format("is {}, but the token \"{}\" has the id {} already", token.id,
                                     printable(token.content, 40), known->second));
    if (!is_new) return;
    const auto added = added_.find(token.id);
    std::string_view other = added != added_.end() ? std::string_view(added->second.bytes) : "";
    if (added == added_.end() && static_cast<std::size_t>(token.id) < bpe_.num_ids() &&
        bpe_.bytes(token.id) != token.content &&
        bpe_.bytes(token.id) != byte_level_bytes(token.content))
      other = bpe_.bytes(token.id);
    if (!other.empty())
      json.at("id").fail(fmt::format("is {}, which is the token \"{}\"; each token has its own id",
                                     token.id, printable(other, 40)));
  }

  // BOS, EOS and padding have names in tokenizer_config.json, in older models in
  // special_tokens_map.json.
  void read_names() {
    for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
      const std::string path = directory_ + "/" + name;
      if (std::error_code ec; !fs::exists(path, ec)) continue;
      const JsonDocument document = JsonDocument::read(path, kJsonOptions);
      if (!bos_id_) bos_id_ = named_token(document.root().find("bos_token"));
      if (!eos_id_) eos_id_ = named_token(document.root().find("eos_token"));
      if (!pad_id_) pad_id_ = named_token(document.root().find("pad_token"));
    }
  }

  std::optional<TokenId> named_token(JsonValue value) const {
    if (value && value.is_object()) value = value.find("content");
    if (!value || value.is_null()) return std::nullopt;
    return find_token(value.as_string());
  }

  std::string directory_;
  Splitter splitter_;
  Normalizer normalizer_;
  Bpe bpe_;
  Template template_;
  AddedTokenMatcher raw_;         // looked for in the text as it is
  AddedTokenMatcher normalized_;  // and in the normalized text
  std::unordered_map<TokenId, Added> added_;
  std::unordered_map<std::string, TokenId> by_content_;
  std::int64_t vocab_size_ = 0;
  std::optional<TokenId> bos_id_, eos_id_, pad_id_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer_json(const std::string& directory) {
  const std::string file = directory + "/tokenizer.json";
  const JsonDocument document = JsonDocument::read(file, kJsonOptions);
  return std::make_unique<JsonTokenizer>(directory, document.root(), file);
}

}  // namespace lamina::text
