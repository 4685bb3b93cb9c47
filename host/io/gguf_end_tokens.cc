#include "io/gguf_end_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "publishers/ggml_vocabularies.h"

namespace lamina::io {
namespace {

using publishers::GgmlEndToken;
using Strings = std::vector<std::string_view>;

constexpr std::int64_t kControl = 3;  // a type of tokens

// The tokens of the file, unchecked: `lamina plan` reads no vocabulary.
const Strings& tokens_of(const GgufFile& file) {
  static const Strings none;
  const GgufValue* tokens = file.find("tokenizer.ggml.tokens");
  return tokens ? tokens->strings : none;
}

std::string key_of(std::string_view role) {
  return fmt::format("tokenizer.ggml.{}_token_id", role);
}

bool names_token(const GgufFile& file, std::string_view role) {
  const auto id = file.integer(key_of(role));
  return id && *id >= 0 && *id < std::ssize(tokens_of(file));
}

// The EOS of files without a key for it; -1: there is none.
std::int64_t default_eos(const GgufFile& file) {
  const GgufValue* name = file.find("tokenizer.ggml.model");
  const GgufValue* types = file.find("tokenizer.ggml.token_type");
  if (!name || name->strings.size() != 1 || !types || !types->strings.empty()) return -1;
  for (const auto& kind : publishers::ggml_vocabularies())
    if (kind.name == name->strings[0] && kind.eos >= 0) {
      const auto at = static_cast<std::size_t>(kind.eos);
      return at < types->size() && types->integer(at) == kControl ? kind.eos : -1;
    }
  return -1;
}

}  // namespace

std::vector<std::int64_t> gguf_end_tokens_by_text(const GgufFile& file) {
  const auto rows = publishers::ggml_end_tokens();
  std::unordered_map<std::string_view, std::int64_t> ids;  // -1: the vocabulary lacks it
  for (const GgmlEndToken& row : rows) ids.emplace(row.text, -1);
  const Strings& tokens = tokens_of(file);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (const auto found = ids.find(tokens[i]); found != ids.end())
      found->second = static_cast<std::int64_t>(i);

  const auto has = [&](std::string_view text) { return ids.at(text) >= 0; };
  const bool has_parts = std::ranges::any_of(publishers::kGgmlTurnEnds, has) &&
                         std::ranges::any_of(publishers::kGgmlCallEnds, has);
  std::vector<std::int64_t> out;
  std::string_view last_role;
  for (const GgmlEndToken& row : rows) {
    if (!has(row.text) || (has_parts && row.text == publishers::kGgmlPartEnd)) continue;
    if (!row.role.empty() &&
        (std::exchange(last_role, row.role) == row.role || names_token(file, row.role)))
      continue;
    out.push_back(ids.at(row.text));
  }
  std::ranges::sort(out);
  return out;
}

std::vector<std::int64_t> gguf_end_tokens(const GgufFile& file) {
  std::vector<std::int64_t> out;
  const auto add = [&](std::int64_t id) {
    if (id >= 0 && std::in_range<std::int32_t>(id) && std::ranges::find(out, id) == out.end())
      out.push_back(id);
  };
  if (!file.find(key_of("eos"))) add(default_eos(file));
  for (const char* role : {"eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep"})
    add(file.integer(key_of(role)).value_or(-1));
  for (const std::int64_t id : gguf_end_tokens_by_text(file)) add(id);
  return out;
}

}  // namespace lamina::io
