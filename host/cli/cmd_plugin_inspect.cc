// lamina plugin inspect: what a plugin says of itself.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/plugin_text.h"
#include "cli/plugins.h"
#include "cli/text.h"
#include "config/listing.h"
#include "registry/custom_ops.h"
#include "registry/library.h"

namespace lamina::cli {
namespace {

using registry::Family;
using registry::PluginFile;
using Rows = std::vector<std::pair<std::string, std::string>>;

std::string default_text(const registry::ModelKey& key) {
  return key.key.required ? "required" : config::preset_text(key.key);
}

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

std::vector<std::string> kernels_of(const registry::CustomOp& op) {
  std::vector<std::string> out;
  if (op.forward_kernel) out.emplace_back("forward");
  if (op.backward_kernel) out.emplace_back("backward");
  return out;
}

std::string text_of(const lamina_str_t& text) {
  return {text.ptr, static_cast<std::size_t>(text.len)};
}

void write_op(JsonWriter& json, const registry::CustomOp& op) {
  json.begin_object().key("name").value(op.op.name).key("doc").value(op.op.doc);
  json.key("inputs").value(text_of(op.source.inputs));
  json.key("outputs").value(text_of(op.source.outputs));
  json.key("attributes").value(text_of(op.source.attrs));
  write(json, "kernels", kernels_of(op));
  json.end_object();
}

// The plugin's own ops; "" where it has none.
std::string ops_text(const registry::CustomOps& ops) {
  Rows rows;
  for (const auto& op : ops) {
    const std::vector<std::string> kernels = kernels_of(*op);
    rows.emplace_back(fmt::format("{}({}) -> {}", op->op.name, text_of(op->source.inputs),
                                  text_of(op->source.outputs)),
                      fmt::format("{} [kernels: {}]", op->op.doc, registry::joined(kernels)));
  }
  return rows.empty() ? "" : "\nops of its own\n" + two_columns(rows);
}

std::string inspect_json(const PluginFile& plugin, const std::vector<Family>& families) {
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

std::string file_text(const PluginFile& plugin) {
  Rows rows = {{"file", plugin.path.string()},
               {"bytes", fmt::format("{}", plugin.elf.num_bytes)},
               {"machine", plugin.elf.machine},
               {"plugin ABI", abi_of(plugin)},
               {"exports", registry::joined(plugin.elf.exports)},
               {"needs", registry::joined(plugin.elf.needed)}};
  if (!plugin.elf.run_path.empty()) rows.emplace_back("run path", plugin.elf.run_path);
  if (plugin.elf.executable_stack) rows.emplace_back("stack", "asks for an executable stack");
  return fmt::format("{} {}\n{}", plugin.manifest.id, plugin.manifest.version, two_columns(rows));
}

std::string family_text(const Family& family) {
  std::string out = fmt::format("\nfamily {}\n  {}\n", family.name(), wrap(family.names().doc, 2));
  std::vector<std::string> blocks;
  for (const registry::Block& block : family.blocks()) blocks.push_back(block.name);
  Rows rows = {{"blocks", registry::joined(blocks)}};
  if (!family.names().aliases.empty())
    rows.emplace_back("aliases", registry::joined(family.names().aliases));
  rows.emplace_back("model_type", registry::joined(family.names().hf_model_types));
  rows.emplace_back("architectures", registry::joined(family.names().hf_architectures));
  rows.emplace_back("tensor rows", fmt::format("{}", family.tensor_rows().size()));
  out += two_columns(rows) + "\n  [model]\n";
  Rows keys;
  std::vector<std::string> of_host;
  for (const registry::ModelKey& key : family.keys()) {
    if (key.ignored) continue;
    if (key.host) {
      of_host.push_back(key.key.name);
      continue;
    }
    const std::string limits = config::limits_text(key.key);
    keys.emplace_back(fmt::format("{} = {}", key.key.name, default_text(key)),
                      key.key.doc + (limits.empty() ? "" : " [" + limits + "]"));
  }
  out += two_columns(keys);
  if (!of_host.empty())
    out += fmt::format("  and of every family, see `lamina config explain`:\n    {}\n",
                       wrap(registry::joined(of_host), 4));
  return out;
}

int inspect(const Arguments& arguments, const Machine&) {
  const PluginFile plugin = choose_plugin(arguments.positionals[0], arguments.globals);
  const std::vector<Family>& families = registry::load_plugin(plugin);
  if (arguments.flag("json")) {
    print(inspect_json(plugin, families));
    return 0;
  }
  std::string out = file_text(plugin);
  for (const Family& family : families) out += family_text(family);
  out += ops_text(families.front().custom_ops());
  print(out);
  return 0;
}

}  // namespace

Command plugin_inspect_command() {
  return {.name = "plugin inspect",
          .summary = "shows a plugin's file, its families, their blocks and keys",
          .details =
              "The plugin is loaded for this, after its file has been checked. `lamina "
              "plugin list` runs nothing.",
          .options = {json_option()},
          .positionals = {{.name = "FILE|NAME", .doc = "A .lamina.so, or the name of a family."}},
          .examples = {"lamina plugin inspect my_family",
                       "lamina plugin inspect build/my_family.lamina.so --json"},
          .run = inspect};
}

}  // namespace lamina::cli
