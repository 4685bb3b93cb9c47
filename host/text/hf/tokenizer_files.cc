#include "text/hf/tokenizer_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <map>
#include <unordered_set>

#include "core/error.h"
#include "core/json.h"
#include "core/printable.h"
#include "core/system_error.h"
#include "io/hf_directory.h"
#include "publishers/python_json.h"
#include "text/vocabulary.h"

namespace lamina::text {
namespace fs = std::filesystem;
namespace {

std::optional<std::string> name_in(const JsonValue& root, std::string_view key) {
  JsonValue value = root.find(key);
  if (value && value.is_object()) value = value.find("content");
  if (!value || value.is_null()) return std::nullopt;
  return std::string(value.as_string());
}

bool flag(const JsonValue& json, std::string_view key) {
  const JsonValue value = json.find(key);
  return value && !value.is_null() && value.as_bool();
}

std::optional<JsonDocument> read_if_there(const std::string& path) {
  if (std::error_code ec; !fs::exists(path, ec)) return std::nullopt;
  return JsonDocument::read(path, publishers::kPythonJson);
}

void read_flags(const JsonValue& json, AddedToken& token) {
  token.single_word = flag(json, "single_word");
  token.lstrip = flag(json, "lstrip");
  token.rstrip = flag(json, "rstrip");
  const JsonValue normalized = json.find("normalized");
  token.normalized = normalized && !normalized.is_null() ? normalized.as_bool() : !token.special;
}

// A special token by its text, or by an object with its text and flags; nothing for other values.
std::optional<AddedToken> special_token(const JsonValue& value) {
  const JsonValue content = value.is_object() ? value.find("content") : value;
  if (!content || !content.is_string() || content.as_string().empty()) return std::nullopt;
  AddedToken out{-1, std::string(content.as_string()), false, false, false, false, true};
  if (value.is_object()) read_flags(value, out);
  return out;
}

TokenId read_key(std::string_view key, const JsonValue& value) {
  std::int64_t id = -1;
  const auto [stop, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || stop != key.data() + key.size() || id < 0 || id >= kMaxIds)
    value.fail(fmt::format("has the key '{}'; it must be an id from 0 to {}", printable(key, 40),
                           kMaxIds - 1));
  return static_cast<TokenId>(id);
}

}  // namespace

bool uses_special_tokens_map(const JsonValue& config) {
  const JsonValue decoder = config ? config.find("added_tokens_decoder") : JsonValue();
  return !decoder || decoder.is_null();
}

TokenizerFiles::TokenizerFiles(std::string directory)
    : directory_(std::move(directory)),
      config_(read_if_there(directory_ + "/tokenizer_config.json")) {
  if (uses_special_tokens_map(config_ ? config_->root() : JsonValue()))
    map_ = read_if_there(directory_ + "/special_tokens_map.json");
}

void TokenizerFiles::for_each(const std::function<void(const JsonValue&)>& read) const {
  for (const auto* document : {&config_, &map_})
    if (*document) read((*document)->root());
}

TokenNames TokenizerFiles::names(TokenNames out) const {
  for_each([&out](const JsonValue& root) {
    for (const auto& [key, name] :
         {std::pair("bos_token", &out.bos), std::pair("eos_token", &out.eos),
          std::pair("pad_token", &out.pad), std::pair("unk_token", &out.unk)})
      if (root.find(key)) *name = name_in(root, key);
    for (const auto& [key, is_added] :
         {std::pair("add_bos_token", &out.add_bos), std::pair("add_eos_token", &out.add_eos)})
      if (root.find(key)) *is_added = flag(root, key);
  });
  return out;
}

std::optional<bool> TokenizerFiles::flag_of(std::string_view key) const {
  const JsonValue value = config_ ? config_->root().find(key) : JsonValue();
  return value && !value.is_null() ? std::optional(value.as_bool()) : std::nullopt;
}

SpecialTokens TokenizerFiles::special_tokens() const {
  std::map<std::string, AddedToken, std::less<>> by_key;
  SpecialTokens out;
  const auto name = [&by_key](std::string_view key, const JsonValue& value) {
    if (auto token = special_token(value))
      by_key.insert_or_assign(std::string(key), *std::move(token));
    else if (value.is_null())
      by_key.erase(std::string(key));
  };
  const auto list = [&out](const JsonValue& tokens) {
    if (!tokens || !tokens.is_array()) return;
    for (const JsonValue value : tokens.elements())
      if (auto token = special_token(value)) out.listed.push_back(*std::move(token));
  };
  for_each([&](const JsonValue& root) {
    for (const auto& [key, value] : root.members())
      if (key.ends_with("_token")) name(key, value);
    for (const char* key : {"model_specific_special_tokens", "extra_special_tokens"})
      if (const JsonValue tokens = root.find(key); tokens && tokens.is_object())
        for (const auto& [own_key, value] : tokens.members()) name(own_key, value);
    list(root.find("extra_special_tokens"));
    // The older key counts only without the newer one.
    if (out.listed.empty()) list(root.find("additional_special_tokens"));
  });
  for (auto& [key, token] : by_key) out.named.push_back(std::move(token));
  return out;
}

std::optional<std::vector<AddedToken>> TokenizerFiles::config_tokens() const {
  if (uses_special_tokens_map(config_ ? config_->root() : JsonValue())) return std::nullopt;
  const std::vector<AddedToken> named = special_tokens().named;
  std::vector<AddedToken> out;
  for (const auto& [key, value] : config_->root().at("added_tokens_decoder").members()) {
    AddedToken token{read_key(key, value), std::string(value.at("content").as_string())};
    token.special = flag(value, "special");
    read_flags(value, token);
    token.special = token.special ||
                    std::ranges::find(named, token.content, &AddedToken::content) != named.end();
    out.push_back(std::move(token));
  }
  std::ranges::sort(out, {}, &AddedToken::id);
  return out;
}

std::vector<AddedToken> TokenizerFiles::added_tokens() const {
  if (auto tokens = config_tokens()) return *std::move(tokens);
  std::vector<AddedToken> out;
  if (const auto older = read_if_there(directory_ + "/added_tokens.json")) {
    const SpecialTokens names = special_tokens();
    std::unordered_set<std::string_view> special;
    for (const auto* tokens : {&names.named, &names.listed})
      for (const AddedToken& token : *tokens) special.insert(token.content);
    for (const auto& [content, id] : older->root().members()) {
      const bool is_special = special.contains(content);
      out.push_back({read_id(id, kMaxIds), std::string(content), false, false, false, !is_special,
                     is_special});
    }
  }
  std::ranges::sort(out, {}, &AddedToken::id);
  return out;
}

std::optional<std::string> TokenizerFiles::class_name() const {
  if (config_)
    if (auto name = name_in(config_->root(), "tokenizer_class")) return name;
  const auto of_model = read_if_there(directory_ + "/config.json");
  return of_model ? name_in(of_model->root(), "model_type") : std::nullopt;
}

std::vector<std::string> copy_tokenizer_files(const std::string& from, const std::string& to) {
  if (std::error_code ec; !fs::is_directory(from, ec))
    throw UserError(ExitCode::checkpoint,
                    {from,
                     "has its tokenizer in one file with the model, from which lamina cannot save "
                     "it",
                     {"use the tokenizer files that were published with the model"}});
  std::vector<std::string> names;
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "tekken.json", "ranks.tiktoken", "tiktoken.json",
        "tiktoken.model", "vocab.json", "merges.txt", "tokenizer_config.json",
        "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"}) {
    std::error_code ec;
    if (!fs::exists(fs::path(from) / name, ec)) continue;
    // Only the template may be any text: a link could copy a secret file.
    if (std::string_view(name).ends_with(".jinja") && !io::belongs_to(from, name)) continue;
    fs::copy_file(fs::path(from) / name, fs::path(to) / name, fs::copy_options::overwrite_existing,
                  ec);
    if (ec)
      throw DeviceError(ExitCode::checkpoint,
                        {to + "/" + name,
                         fmt::format("cannot be written: {}", system_error_text(ec.value())),
                         {"check the disk and the permissions of the directory"}});
    names.emplace_back(name);
  }
  return names;
}

}  // namespace lamina::text
