#include "cli/plugin/plugin_json.h"

#include "cli/plugin/plugin_text.h"
#include "config/listing.h"

namespace lamina::cli {

using registry::Family;

namespace {

void write_family(JsonWriter& json, const Family& family) {
  json.begin_object();
  write_names(json, family.names());
  json.key("blocks").begin_array();
  for (const registry::Block& block : family.blocks())
    json.begin_object().key("id").value(block.id).key("name").value(block.name).end_object();
  json.end_array().key("keys").begin_array();
  for (const registry::ModelKey& key : family.keys()) {
    if (key.ignored) continue;
    json.begin_object().key("name").value(key.key.name);
    json.key("type").value(config::type_text(key.key)).key("default");
    key.key.preset ? json.raw(config::to_toml(*key.key.preset)) : json.null();
    json.key("required").value(key.key.required);
    json.key("limits").value(config::limits_text(key.key)).key("doc").value(key.key.doc);
    write(json, "aliases", key.key.aliases);
    json.end_object();
  }
  json.end_array().key("tensors").begin_array();
  for (const registry::TensorRow& row : family.tensor_rows())
    json.begin_object()
        .key("published")
        .value(row.published)
        .key("parameter")
        .value(row.param)
        .key("block")
        .value(row.block)
        .end_object();
  json.end_array().end_object();
}

void write_op(JsonWriter& json, const registry::PluginOp& op) {
  json.begin_object().key("name").value(op.op.name).key("doc").value(op.op.doc);
  json.key("inputs").value(text_of(op.source.inputs));
  json.key("outputs").value(text_of(op.source.outputs));
  json.key("attributes").value(text_of(op.source.attrs));
  write(json, "kernels", kernels_of(op));
  json.end_object();
}

}  // namespace

std::string inspect_json(const registry::PluginFile& plugin, const std::vector<Family>& families) {
  JsonWriter json(2);
  json.begin_object();
  write_identity(json, plugin);
  json.key("sdk").value(families.front().plugin().sdk);
  json.key("toolchain").value(families.front().plugin().toolchain);
  json.key("bytes").value(plugin.elf.num_bytes).key("machine").value(plugin.elf.machine);
  write(json, "exports", plugin.elf.exports);
  write(json, "needs", plugin.elf.needed);
  json.key("run_path").value(plugin.elf.run_path);
  json.key("executable_stack").value(plugin.elf.executable_stack);
  json.key("unique_symbols").value(plugin.elf.num_unique_symbols);
  json.key("families").begin_array();
  for (const Family& family : families) write_family(json, family);
  json.end_array().key("ops").begin_array();
  for (const auto& op : families.front().custom_ops()) write_op(json, *op);
  return json.end_array().end_object().text() + "\n";
}

}  // namespace lamina::cli
