#include "io/foreign_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/folder_entries.h"
#include "core/printable.h"
#include "publishers/formats.h"

namespace lamina::io {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kLfsBegin = "version https://git-lfs";
constexpr std::size_t kShownNames = 5;

// Extensions of incomplete downloads.
constexpr std::string_view kUnfinished[] = {".incomplete", ".part",  ".partial",
                                            ".crdownload", ".aria2", ".download"};

bool ends_with_any(std::string_view name, std::span<const std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view e) { return name.ends_with(e); });
}

}  // namespace

std::string looks_like(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 64));
  if (text.starts_with(kLfsBegin))
    return "this looks like a Git LFS pointer: fetch the file itself with `git lfs pull`";
  if (text.starts_with("PK\x03\x04") || text.starts_with("\x80\x02") ||
      text.starts_with("\x80\x04"))
    return "this looks like a PyTorch pickle: convert it to safetensors with the tool it came from";
  if (text.starts_with("GGUF"))
    return "this looks like a GGUF file: rename it to end with .gguf, or use the safetensors files "
           "of the same model";
  if (text.starts_with("\x93NUMPY"))
    return "this looks like a NumPy array: convert it to safetensors";
  if (text.starts_with("<")) return "this looks like an HTML or XML page: download the file again";
  if (text.starts_with("{"))
    return "this looks like JSON without the 8 bytes of its length before it";
  const auto is_text = [](char c) { return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r'); };
  if (text.size() >= 8 && std::ranges::all_of(text, is_text))
    return "this looks like a text file: give a file or directory with weights";
  return "";
}

bool is_lfs_pointer(const std::string& path) {
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return false;  // opening a FIFO would block
  std::string begin(kLfsBegin.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return file && begin == kLfsBegin;
}

void refuse_lfs_pointer(const std::string& path) {
  if (is_lfs_pointer(path))
    throw UserError(ExitCode::checkpoint, {path,
                                           "is a Git LFS pointer instead of the file",
                                           {"fetch the files themselves with `git lfs pull`"}});
}

std::string hub_snapshot(const std::string& directory) {
  std::error_code ec;
  const fs::path snapshots = fs::path(directory) / "snapshots";
  if (!fs::is_directory(snapshots, ec)) return "";
  std::string main;
  std::ifstream(fs::path(directory) / "refs" / "main") >> main;
  std::vector<std::string> names;
  for (const auto& entry : folder_entries(snapshots))
    if (entry.is_directory(ec)) names.push_back(entry.path().filename().string());
  if (names.empty()) return "";
  std::ranges::sort(names);
  const auto found = std::ranges::find(names, main);
  return (snapshots / (found == names.end() ? names.front() : *found)).string();
}

std::string contents_in_words(const std::string& directory) {
  if (const std::string snapshot = hub_snapshot(directory); !snapshot.empty())
    return fmt::format("it is a folder of the Hub's cache; use the model inside it: {}",
                       printable(snapshot, 200));
  std::vector<std::string> names;
  for (const auto& entry : folder_entries(directory))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  const auto first = [&](const auto& is_it) -> std::string {
    const auto found = std::ranges::find_if(names, is_it);
    return found == names.end() ? std::string() : printable(*found);
  };
  if (const std::string name =
          first([&](const std::string& n) { return is_lfs_pointer(directory + "/" + n); });
      !name.empty())
    return fmt::format("'{}' is a Git LFS pointer: fetch the files themselves with `git lfs pull`",
                       name);
  if (const std::string name =
          first([](const std::string& n) { return ends_with_any(n, kUnfinished); });
      !name.empty())
    return fmt::format("'{}' is an unfinished download: start it again", name);
  constexpr std::string_view kPickles[] = {".bin", ".pt", ".pth"};
  if (const std::string name =
          first([&](const std::string& n) { return ends_with_any(n, kPickles); });
      !name.empty())
    return fmt::format(
        "'{}' is a PyTorch pickle: convert it to safetensors with the tool it came from", name);
  if (const std::string name = first([](const std::string& n) {
        return n.ends_with(".safetensors") && n.find("-of-") != n.npos &&
               !n.ends_with("-00001-of-00001.safetensors");  // the whole model
      });
      !name.empty())
    return fmt::format(
        "'{}' is a part of a model, but the index of its parts (*.safetensors.index.json) is "
        "missing: download the rest",
        name);
  if (const std::string name = first([](const std::string& n) { return n.ends_with(".gguf"); });
      !name.empty())
    return fmt::format("it contains '{}': give the path of that file", name);
  const auto has = [&](std::string_view name) { return std::ranges::count(names, name) > 0; };
  const auto is_weights = [](const std::string& n) { return n.ends_with(".safetensors"); };
  const std::string adapter = fmt::format("{}.safetensors", publishers::kAdapterStem);
  if (has(publishers::kAdapterConfig) && !has(adapter))
    return fmt::format("it contains {}, but not the weights of the adapter, {}: copy that file too",
                       publishers::kAdapterConfig, adapter);
  if (has(publishers::kAdapterConfig))
    return "it contains an adapter without its model: give the model, and the adapter with "
           "--adapter where the command has it";
  if (has("model.safetensors") && !has("config.json"))
    return "it contains 'model.safetensors', but no config.json: download that file too";
  if (!has("model.safetensors") && std::ranges::count_if(names, is_weights) == 1)
    return fmt::format("it contains '{}': rename it to model.safetensors", first(is_weights));
  if (names.empty()) return "it is empty";
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kShownNames); ++i)
    list += (i == 0 ? "" : ", ") + printable(names[i]);
  return fmt::format("it contains {}{}", list, names.size() > kShownNames ? ", ..." : "");
}

}  // namespace lamina::io
