// A plugin as the loader gives it, without the registry: for checks of how it is loaded. In a
// process of its own.
#pragma once

#include <filesystem>
#include <string_view>

#include "lamina/abi.h"
#include "lamina/names.h"
#include "registry/plugin_call.h"

namespace lamina::conformance {

class RawPlugin {
 public:
  // Throws a Failure where the loader refuses it.
  explicit RawPlugin(const std::filesystem::path& file);
  ~RawPlugin();
  RawPlugin(const RawPlugin&) = delete;
  RawPlugin& operator=(const RawPlugin&) = delete;

  const lamina_plugin_t& entry() const { return *entry_; }
  // Throws a Failure for another status than LAMINA_OK.
  void init(const lamina_host_t& host) const;
  void deinit() const;
  const void* interface(std::string_view id) const;
  // The families, and the one that is called so (null: none). REQUIRES: it is initialised.
  const lamina_families_t* families() const;
  const lamina_family_t* family(std::string_view name) const;

  // Unmaps it, unless something else uses it.
  void close();
  static bool is_mapped(const std::filesystem::path& file);

 private:
  registry::PluginFunction function_;  // what is said where it dies
  void* handle_ = nullptr;
  const lamina_plugin_t* entry_ = nullptr;
};

// What init() is given by this host. Lives as long as the process.
const lamina_host_t& plain_host();

// What a plugin that the registry has loaded gave for a family. REQUIRES: it has.
const lamina_family_t& source_of(const std::filesystem::path& file, std::string_view family);

}  // namespace lamina::conformance
