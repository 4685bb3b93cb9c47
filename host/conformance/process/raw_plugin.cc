#include "conformance/process/raw_plugin.h"

#include <dlfcn.h>

#include <utility>

#include "conformance/check.h"
#include "core/error.h"
#include "registry/elf_file.h"
#include "registry/library.h"
#include "registry/manifest.h"

namespace lamina::conformance {
namespace {

std::string_view view(lamina_str_t text) { return {text.ptr, text.len}; }

// The plugin's identity from its manifest, for crash messages.
registry::PluginFunction loading_of(const std::filesystem::path& file) {
  registry::PluginIdentity identity;
  identity.path = file.string();
  try {
    const registry::ElfFile elf = registry::read_elf(file);
    const registry::Manifest manifest = registry::parse_manifest(elf.manifest, elf.path);
    identity.id = manifest.id;
    identity.version = manifest.version;
  } catch (const PluginError&) {  // the checks of the file report it
  }
  return {identity, "", "loading, init, deinit or get_interface"};
}

}  // namespace

RawPlugin::RawPlugin(const std::filesystem::path& file) : function_(loading_of(file)) {
  const registry::PluginShortCall call(function_);
  handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) fail("the loader refuses it: {}", dlerror());
  entry_ = static_cast<const lamina_plugin_t*>(dlsym(handle_, LAMINA_PLUGIN_SYMBOL));
  if (!entry_ || !entry_->init || !entry_->deinit || !entry_->get_interface)
    fail("its entry lacks init, deinit or get_interface");
}

RawPlugin::~RawPlugin() { close(); }

void RawPlugin::init(const lamina_host_t& host) const {
  const registry::PluginShortCall call(function_);
  if (const std::string why = registry::start_plugin(*entry_, host); !why.empty()) fail("{}", why);
}

void RawPlugin::deinit() const {
  const registry::PluginShortCall call(function_);
  entry_->deinit();
}

const void* RawPlugin::interface(std::string_view id) const {
  const registry::PluginShortCall call(function_);
  return entry_->get_interface({id.data(), id.size()});
}

const lamina_families_t* RawPlugin::families() const {
  return static_cast<const lamina_families_t*>(interface(LAMINA_FAMILIES_ID));
}

const lamina_family_t* RawPlugin::family(std::string_view name) const {
  const lamina_families_t* table = families();
  for (std::uint32_t i = 0; table && i < table->families.count; ++i) {
    const auto* at = static_cast<const std::byte*>(table->families.ptr) +
                     std::size_t{i} * table->families.stride;
    const auto* found = reinterpret_cast<const lamina_family_t*>(at);
    if (view(found->name) == name) return found;
  }
  return nullptr;
}

void RawPlugin::close() {
  const registry::PluginShortCall call(function_);
  if (handle_) dlclose(std::exchange(handle_, nullptr));
}

bool RawPlugin::is_mapped(const std::filesystem::path& file) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle) dlclose(handle);
  return handle != nullptr;
}

const lamina_host_t& plain_host() { return registry::plugin_host(); }

const lamina_family_t& source_of(const std::filesystem::path& file, std::string_view family) {
  // Mapped permanently: this only takes another reference.
  static auto& kept = *new std::vector<std::unique_ptr<RawPlugin>>;
  kept.push_back(std::make_unique<RawPlugin>(file));
  const lamina_family_t* found = kept.back()->family(family);
  if (!found) fail("its interface '{}' has no family '{}'", LAMINA_FAMILIES_ID, family);
  return *found;
}

}  // namespace lamina::conformance
