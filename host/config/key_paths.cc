#include "config/key_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "config/run_config.h"
#include "core/without_dots.h"

namespace lamina::config {
namespace {

namespace fs = std::filesystem;

// Returns whether a path exists; of a glob, the folder before its first wildcard.
bool glob_root_exists(const std::string& pattern) {
  fs::path fixed = pattern;
  if (const auto wildcard = pattern.find_first_of("*?["); wildcard != pattern.npos)
    fixed = fs::path(pattern.substr(0, wildcard)).parent_path();
  std::error_code ec;
  return fs::exists(fixed, ec);
}

}  // namespace

Value change_paths(const Key& key, const Value& value,
                   const std::function<std::string(const std::string&)>& change) {
  if (!key.path) return value;
  if (auto* list = value.get_if<List>()) {
    List out;
    for (const Value& element : *list) out.push_back(change_paths(key, element, change));
    return Value(std::move(out));
  }
  auto* text = value.get_if<std::string>();
  if (!text || std::ranges::find(key.path_words, *text) != key.path_words.end()) return value;
  return Value(change(*text));
}

std::optional<std::string> advice_on_home(std::string_view path) {
  if (!path.starts_with('~')) return {};
  const std::string name(path.substr(0, path.find('/')));
  const char* home = std::getenv("HOME");
  std::string advice =
      fmt::format("only a shell replaces {}, and only at the start of a word: ", name);
  if (name == "~")
    advice += fmt::format("write {}{}", home && *home ? home : "the path of the home directory",
                          path.substr(1));
  else
    advice += fmt::format("write the path of that home directory, or ./{} for a file here", path);
  return advice;
}

std::string moved_path(const std::string& path, const std::string& from, const std::string& to) {
  // Each ".." at the start leaves a folder in the name `to`; later ones may follow a link.
  fs::path above = to, below;
  for (const fs::path& part : fs::path(path).lexically_relative(from))
    (below.empty() && part == ".." ? above : below) /= part;
  return without_dots(above.lexically_normal() / below).string();
}

void find_moved_paths(Raw& raw, const std::string& now) {
  const auto out = std::ranges::find(raw.entries, "run.out", &RawEntry::key);
  if (out == raw.entries.end()) return;
  const auto* recorded = out->value.get_if<std::string>();
  if (!recorded || *recorded == now) return;
  const std::string from = *recorded;
  for (RawEntry& entry : raw.entries)
    if (const Key* key = run_schema().find(entry.key))
      entry.value = change_paths(*key, entry.value, [&](const std::string& path) {
        if (!fs::path(path).is_absolute() || glob_root_exists(path)) return path;
        std::string moved = moved_path(path, from, now);
        return glob_root_exists(moved) ? moved : path;
      });
}

}  // namespace lamina::config
