// A plugin loaded by the system's loader, without the registry: for checks of loading. Used in a
// separate process.
#pragma once

#include <filesystem>
#include <string_view>

#include "lamina/abi.h"
#include "lamina/names.h"
#include "registry/plugin_call.h"

namespace lamina::conformance {

class RawPlugin {
 public:
  // Throws Failure if the loader refuses it.
  explicit RawPlugin(const std::filesystem::path& file);
  ~RawPlugin();
  RawPlugin(const RawPlugin&) = delete;
  RawPlugin& operator=(const RawPlugin&) = delete;

  const lamina_plugin_t& entry() const { return *entry_; }
  // Throws Failure for a status other than LAMINA_OK.
  void init(const lamina_host_t& host) const;
  void deinit() const;
  const void* interface(std::string_view id) const;
  // The families, and the one with that name (null: none). REQUIRES: it is initialised.
  const lamina_families_t* families() const;
  const lamina_family_t* family(std::string_view name) const;

  // Unmaps it, unless other code uses it.
  void close();
  static bool is_mapped(const std::filesystem::path& file);

 private:
  registry::PluginFunction function_;  // for the message if it crashes
  void* handle_ = nullptr;
  const lamina_plugin_t* entry_ = nullptr;
};

// The argument of init() in this host. Lives as long as the process.
const lamina_host_t& plain_host();

// The object that a plugin loaded by the registry returned for a family. REQUIRES: it is loaded.
const lamina_family_t& source_of(const std::filesystem::path& file, std::string_view family);

}  // namespace lamina::conformance
