// Finds plugins on the search path and reads their manifests without running any of their code.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "registry/elf_file.h"
#include "registry/manifest.h"

namespace lamina::registry {

inline constexpr std::string_view kPluginSuffix = ".lamina.so";

// The state of the process that search_path() reads; tests construct it.
struct SearchEnvironment {
  std::optional<std::string> plugin_path;  // LAMINA_PLUGIN_PATH
  std::string data_home;                   // XDG_DATA_HOME, or ""
  std::string home;                        // HOME, or ""
  std::filesystem::path executable;        // absolute; empty if unknown
  bool privileged = false;                 // runs with more rights than its user: ignores variables
  bool trusts_writable = false;            // LAMINA_TRUST_PLUGINS=1

  static SearchEnvironment of_process();
};

struct SearchPath {
  std::vector<std::filesystem::path> files;  // named by --plugin
  std::vector<std::filesystem::path>
      named_folders;                           // by --plugin-path: searched first, take precedence
  std::vector<std::filesystem::path> folders;  // absolute, in order
  std::vector<std::string> warnings;           // skipped elements, with the reason
  bool refuse_writable = false;                // as root: refuse files that any user can change
};

// Adds the folders of the process after the command line's: LAMINA_PLUGIN_PATH (separated by
// colons), $XDG_DATA_HOME/lamina/plugins (~/.local/share) and lib/lamina/plugins beside the
// executable's folder. Never the current folder.
SearchPath search_path(std::vector<std::filesystem::path> files,
                       const SearchEnvironment& environment,
                       std::vector<std::filesystem::path> named_folders = {});

// Throws PluginError if the process runs as root, and any user can change the file.
void require_trusted(const std::filesystem::path& file);

// How a plugin was found. Among plugins with the same family a later kind takes precedence.
enum class FoundBy { folder, named_folder, named_file };

struct PluginFile {
  std::filesystem::path path;   // absolute, without links
  std::filesystem::path place;  // where it was found: may contain links
  ElfFile elf;
  Manifest manifest;
  FoundBy found_by = FoundBy::folder;
};

struct BrokenFile {
  std::filesystem::path path;
  ErrorText error;
};

// A family, by the name from its plugin, and its file.
struct FamilyFile {
  std::string family;
  const PluginFile* file;
};

class Catalog {
 public:
  // Reads every *.lamina.so of the search path, folders not recursively and sorted by name. A file
  // that cannot be used is listed in broken(), unless it is named by --plugin: then PluginError.
  static Catalog scan(SearchPath search);

  const std::vector<PluginFile>& plugins() const { return plugins_; }
  const std::vector<BrokenFile>& broken() const { return broken_; }
  const SearchPath& search() const { return search_; }

  // Returns the file with family `name` (or alias). `where` is where the name was written, for
  // errors. PluginError if there is none (with the nearest name, all names, and the broken files)
  // or if two files that were found in the same way have it.
  FamilyFile find(std::string_view name, std::string_view where = "family") const;

  // Returns the family that reads published checkpoints whose config.json has these values: one of
  // a file named by --plugin if it reads them at all, else the one with the most specific match.
  // `where` is its path, `text_model_type` the model_type of its text_config if there is one.
  // Errors: see find().
  FamilyFile find_published(std::string_view model_type,
                            const std::vector<std::string>& architectures, std::string_view where,
                            std::string_view text_model_type = {}) const;

  // Returns the families with another name than `family` that read such checkpoints. Without the
  // plugin of `family`, or before it, one of them would be chosen.
  std::vector<FamilyFile> other_readers(std::string_view family, std::string_view model_type,
                                        const std::vector<std::string>& architectures,
                                        std::string_view text_model_type) const;

  // Returns the names of all families, sorted and unique.
  std::vector<std::string> family_names() const;

 private:
  void add_folder(const std::filesystem::path& folder, FoundBy found_by);
  void add_file(const std::filesystem::path& path, FoundBy found_by);
  [[noreturn]] void not_found(std::string_view where, std::string what,
                              std::string_view name) const;

  SearchPath search_;
  std::vector<PluginFile> plugins_;
  std::vector<BrokenFile> broken_;
};

// For messages: "a, b", or "none".
std::string joined(const std::vector<std::string>& names);

}  // namespace lamina::registry
