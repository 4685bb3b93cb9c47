// The manifest of a plugin: its description as JSON in a section of its file, which can be read
// without running the plugin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::registry {

// The names of one family.
struct FamilyNames {
  std::string name;
  std::string doc;  // one line: the paper and the covered models
  std::vector<std::string> aliases;
  std::vector<std::string> hf_model_types;    // "model_type" of published config.json files
  std::vector<std::string> hf_architectures;  // their "architectures"

  bool is_called(std::string_view text) const;
  // Returns how well the family fits a published config.json, 0 = not at all. A fitting
  // architecture counts 4, a model_type 2, the model_type of a nested language model 1.
  int fit(std::string_view model_type, const std::vector<std::string>& architectures,
          std::string_view text_model_type) const;
  friend bool operator==(const FamilyNames&, const FamilyNames&) = default;
};

struct Manifest {
  std::string id;       // "org.example.llama"
  std::string version;  // "1.2.0"
  std::uint32_t abi_major = 0;
  std::uint32_t abi_built = 0;     // minor version of the header it was built with
  std::uint32_t abi_min_host = 0;  // minimum minor version of the host
  std::string arch;                // as ElfFile::machine
  std::vector<FamilyNames> families;
};

// Parses the text of a manifest section. `path` is the file, for errors. Throws PluginError if it
// is not JSON, lacks a key, has one of the wrong type, or has a version that this host cannot load.
Manifest parse_manifest(std::string_view text, const std::string& path);

// Throws PluginError unless this host can load a plugin of these versions: built for the candidate
// of the contract or later, and compatible with a host of this minor.
void check_abi(std::uint32_t major, std::uint32_t built, std::uint32_t min_host,
               const std::string& path);

inline constexpr std::size_t kMaxName = 64;  // bytes of a name

// Returns whether `text` is a valid name of a family, block, key or plugin: at most kMaxName
// letters, digits, '_', '-' and '.', beginning with a letter.
bool is_plain_name(std::string_view text);

}  // namespace lamina::registry
