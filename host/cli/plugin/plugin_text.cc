#include "cli/plugin/plugin_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lamina::cli {

using registry::FamilyNames;
using registry::PluginFile;

std::string abi_of(const PluginFile& plugin) {
  return fmt::format("{}.{}", plugin.manifest.abi_major, plugin.manifest.abi_built);
}

void write(JsonWriter& json, const char* key, const std::vector<std::string>& values) {
  json.key(key).begin_array();
  for (const std::string& value : values) json.value(value);
  json.end_array();
}

void write_identity(JsonWriter& json, const PluginFile& plugin) {
  json.key("file").value(plugin.path.string()).key("id").value(plugin.manifest.id);
  json.key("version").value(plugin.manifest.version).key("abi").value(abi_of(plugin));
}

void write_names(JsonWriter& json, const FamilyNames& names) {
  json.key("name").value(names.name).key("doc").value(names.doc);
  write(json, "aliases", names.aliases);
  write(json, "hf_model_types", names.hf_model_types);
  write(json, "hf_architectures", names.hf_architectures);
}

std::vector<std::string> kernels_of(const registry::PluginOp& op) {
  std::vector<std::string> out;
  if (op.forward_kernel) out.emplace_back("forward");
  if (op.backward_kernel) out.emplace_back("backward");
  if (op.forward_gpu_kernel) out.emplace_back("gpu forward");
  if (op.backward_gpu_kernel) out.emplace_back("gpu backward");
  return out;
}

std::string text_of(const lamina_str_t& text) {
  return {text.ptr, static_cast<std::size_t>(text.len)};
}

}  // namespace lamina::cli
