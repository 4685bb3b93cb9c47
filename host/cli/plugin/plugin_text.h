// Text shared by the commands about plugins: identity and names as text and JSON.
#pragma once

#include <string>
#include <vector>

#include "core/json_writer.h"
#include "registry/custom_ops.h"
#include "registry/discovery.h"

namespace lamina::cli {

std::string abi_of(const registry::PluginFile& plugin);
void write(JsonWriter& json, const char* key, const std::vector<std::string>& values);
void write_identity(JsonWriter& json, const registry::PluginFile& plugin);
void write_names(JsonWriter& json, const registry::FamilyNames& names);
// "forward", "backward", "gpu forward", "gpu backward".
std::vector<std::string> kernels_of(const registry::PluginOp& op);
std::string text_of(const lamina_str_t& text);

}  // namespace lamina::cli
