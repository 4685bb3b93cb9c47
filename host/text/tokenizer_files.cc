#include "text/tokenizer_files.h"

#include <filesystem>

#include "core/error.h"
#include "core/json.h"
#include "core/read_file.h"

namespace lamina::text {
namespace fs = std::filesystem;
namespace {

std::optional<std::string> name_in(const JsonValue& root, std::string_view key) {
  JsonValue value = root.find(key);
  if (value && value.is_object()) value = value.find("content");
  if (!value || value.is_null()) return std::nullopt;
  return std::string(value.as_string());
}

}  // namespace

TokenNames read_token_names(const std::string& directory) {
  TokenNames out;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::string path = directory + "/" + name;
    if (std::error_code ec; !fs::exists(path, ec)) continue;
    const JsonDocument document = JsonDocument::read(path, {.code = ExitCode::checkpoint});
    const JsonValue root = document.root();
    if (!out.bos) out.bos = name_in(root, "bos_token");
    if (!out.eos) out.eos = name_in(root, "eos_token");
    if (!out.pad) out.pad = name_in(root, "pad_token");
    if (!out.unk) out.unk = name_in(root, "unk_token");
  }
  return out;
}

std::vector<std::string> copy_tokenizer_files(const std::string& from, const std::string& to) {
  std::vector<std::string> names;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "ranks.tiktoken", "tiktoken.json",
                           "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "chat_template.jinja"}) {
    std::error_code ec;
    if (!fs::exists(fs::path(from) / name, ec)) continue;
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
