// lamina plugin inspect: shows a plugin's identity and contents.
#include <fmt/format.h>

#include "cli/plugin/plugin_json.h"
#include "cli/plugin/plugin_text.h"
#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/text.h"
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

// The plugin's custom ops; "" if it has none.
std::string ops_text(const registry::CustomOps& ops) {
  Rows rows;
  for (const auto& op : ops) {
    const std::vector<std::string> kernels = kernels_of(*op);
    rows.emplace_back(fmt::format("{}({}) -> {}", op->op.name, text_of(op->source.inputs),
                                  text_of(op->source.outputs)),
                      fmt::format("{} [kernels: {}]", op->op.doc, registry::joined(kernels)));
  }
  return rows.empty() ? "" : "\ncustom ops\n" + two_columns(rows);
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
    out += fmt::format("    and the keys of every family, see `lamina config explain`:\n    {}\n",
                       wrap(registry::joined(of_host), 4));
  return out;
}

// The families of the plugin, or the one of that name.
std::vector<Family> choose_families(const PluginFile& plugin, const Arguments& arguments) {
  const std::vector<Family>& all = registry::load_plugin(plugin);
  if (arguments.positionals.size() < 2) return all;
  const std::string& name = arguments.positionals[1];
  std::vector<std::string> names;
  for (const Family& family : all) {
    if (family.names().is_called(name)) return {family};
    names.push_back(family.name());
  }
  throw UserError(ExitCode::usage, {plugin.path.string(),
                                    fmt::format("the plugin has no family '{}'", name),
                                    {fmt::format("there are: {}", registry::joined(names))}});
}

int inspect(const Arguments& arguments, const Device&) {
  const PluginFile plugin = choose_plugin(arguments.positionals[0], arguments.globals);
  const std::vector<Family> families = choose_families(plugin, arguments);
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
              "Loads the plugin, after a check of its file. `lamina "
              "plugin list` runs no code of plugins.",
          .options = {json_option()},
          .positionals = {{.name = "FILE|NAME", .doc = "A .lamina.so, or the name of a family."},
                          {.name = "FAMILY",
                           .doc = "One family of the file; default: all.",
                           .required = false}},
          .examples = {"lamina plugin inspect my_family",
                       "lamina plugin inspect build/lib/lamina/plugins/my_family.lamina.so --json",
                       "lamina plugin inspect build/lib/lamina/plugins/my_family.lamina.so "
                       "my_family"},
          .run = inspect};
}

}  // namespace lamina::cli
