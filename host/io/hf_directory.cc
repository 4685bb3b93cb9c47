#include "io/hf_directory.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>

#include "core/error.h"
#include "core/folder_entries.h"
#include "core/log.h"
#include "io/directories.h"
#include "io/foreign_file.h"
#include "publishers/formats.h"
#include "publishers/python_json.h"

namespace lamina::io {
namespace fs = std::filesystem;
namespace {

constexpr std::array kSideFiles = {
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    "lamina_tokenizer.json",
    "merges.txt",
    "preprocessor_config.json",
    "processor_config.json",
    "ranks.tiktoken",
    "special_tokens_map.json",
    "tekken.json",
    "tiktoken.json",
    "tiktoken.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
};

JsonDocument read_config(const std::string& path) {
  std::error_code ec;
  if (!fs::is_directory(path, ec))
    throw UserError(ExitCode::checkpoint,
                    {path,
                     fs::exists(path, ec) ? "is not a directory; expected a model directory"
                                          : "does not exist; expected a model directory",
                     {"check the path"}});
  const std::string file = path + "/config.json";
  if (!fs::exists(file, ec))
    throw UserError(ExitCode::checkpoint,
                    {path,
                     "has no config.json; expected a Hugging Face model directory",
                     {contents_in_words(path)}});
  refuse_lfs_pointer(file);
  JsonDocument config = JsonDocument::read(file, publishers::kPythonJson);
  if (!config.root().is_object())
    config.root().fail("must be an object, got " + config.root().describe());
  return config;
}

// Returns one id or a list of ids, each from 0 to 2^31-1 if they are tokens of text.
std::vector<std::int64_t> ids(const JsonValue& value, bool of_text) {
  if (!value || value.is_null()) return {};
  const auto id_of = [&](const JsonValue& one) {
    const std::int64_t id = one.as_int64();
    if (of_text && (id < 0 || id > std::numeric_limits<std::int32_t>::max()))
      one.fail(fmt::format("must be a token id from 0 to {}, got {}",
                           std::numeric_limits<std::int32_t>::max(), id));
    return id;
  };
  if (!value.is_array()) return {id_of(value)};
  std::vector<std::int64_t> out;
  for (JsonValue id : value.elements()) out.push_back(id_of(id));
  return out;
}

}  // namespace

HfDirectory::HfDirectory(std::string path)
    : path_(std::move(path)),
      config_(read_config(path_)),
      generation_config_(read_generation_config(path_)) {}

// Returns the objects of config.json that may contain a key, in order of precedence: multimodal
// models nest the language model's keys one level down, some two.
std::vector<JsonValue> HfDirectory::configs() const {
  std::vector<JsonValue> out{config()};
  auto add = [&](JsonValue inner) {
    if (inner && inner.is_object()) out.push_back(inner);
  };
  for (std::size_t i = 0; i < out.size(); ++i) {
    const JsonValue outer = out[i];
    add(outer.find("text_config"));
    for (std::string_view holder : publishers::kTextConfigHolders) add(outer.find(holder));
  }
  return out;
}

std::vector<std::int64_t> HfDirectory::eos_token_ids() const {
  if (generation_config_)
    if (auto found = io::eos_token_ids(generation_config()); !found.empty()) return found;
  for (JsonValue holder : configs())
    if (auto found = io::eos_token_ids(holder); !found.empty()) return found;
  return {};
}

std::vector<std::int64_t> HfDirectory::placeholder_token_ids() const {
  std::vector<std::int64_t> out;
  for (JsonValue holder : configs())
    for (std::string_view key : publishers::kPlaceholderKeys)
      for (std::int64_t id : ids(holder.find(key), false))
        if (std::ranges::find(out, id) == out.end()) out.push_back(id);
  return out;
}

std::optional<JsonDocument> read_generation_config(const std::string& directory) {
  const std::string file = directory + "/generation_config.json";
  if (std::error_code ec; !fs::exists(file, ec)) return std::nullopt;
  return JsonDocument::read(file, publishers::kPythonJson);
}

std::vector<std::int64_t> eos_token_ids(const JsonValue& config) {
  return ids(config.find("eos_token_id"), true);
}

bool belongs_to(const std::string& directory, const std::string& name) {
  std::error_code ec;
  const fs::path folder = fs::canonical(directory, ec);
  const fs::path file = fs::canonical(fs::path(directory) / name, ec);
  if (ec || file.string().starts_with(folder.string() + "/")) return true;
  // HUB/models--OWNER--NAME/blobs/HASH
  const fs::path blobs = file.parent_path();
  return blobs.filename() == "blobs" &&
         blobs.parent_path().filename().string().starts_with("models--");
}

std::vector<std::string> additional_chat_templates(const std::string& directory) {
  constexpr const char* kFolder = "additional_chat_templates";
  std::vector<std::string> names;
  std::error_code ec;
  for (const auto& entry : folder_entries(fs::path(directory) / kFolder))
    if (entry.path().extension() == ".jinja" && entry.is_regular_file(ec))
      names.push_back(std::string(kFolder) + "/" + entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> side_files(const std::string& directory) {
  std::vector<std::string> names = additional_chat_templates(directory);
  std::error_code ec;
  for (const char* name : kSideFiles)
    if (fs::is_regular_file(fs::path(directory) / name, ec)) names.emplace_back(name);
  std::erase_if(names, [&](const std::string& name) {
    const bool is_foreign = !belongs_to(directory, name);
    if (is_foreign)
      log::warning(
          "{}/{} links to a file outside the directory and is not copied; replace the link with "
          "the file",
          directory, name);
    return is_foreign;
  });
  if (!directory.empty() && !fs::exists(directory, ec))
    throw UserError(ExitCode::checkpoint,
                    {directory,
                     "was removed while its files were read",
                     {"a run removes old checkpoints: use a newer one, or keep more of them "
                      "(checkpoint.keep)"}});
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<FileDigest> copy_side_files(const std::string& from, const std::string& to) {
  std::vector<FileDigest> copied;
  for (const std::string& name : side_files(from)) {
    make_folder_of(to + "/" + name);
    copied.push_back(copy_durably(from + "/" + name, to + "/" + name));
    copied.back().name = name;
  }
  return copied;
}

}  // namespace lamina::io
