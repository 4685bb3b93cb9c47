// lamina plugin list: lists the available families.
#include <fmt/format.h>

#include <algorithm>

#include "cli/plugin/plugin_text.h"
#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/text.h"

namespace lamina::cli {
namespace {

using registry::Catalog;
using registry::FamilyNames;
using registry::PluginFile;

std::vector<std::string> searched(const Catalog& catalog) {
  std::vector<std::string> out;
  for (const auto& folder : catalog.search().named_folders) out.push_back(folder.string());
  for (const auto& folder : catalog.search().folders) out.push_back(folder.string());
  return out;
}

std::string list_json(const Catalog& catalog) {
  JsonWriter json(2);
  json.begin_object().key("plugins").begin_array();
  for (const PluginFile& plugin : catalog.plugins()) {
    json.begin_object();
    write_identity(json, plugin);
    json.key("families").begin_array();
    for (const FamilyNames& family : plugin.manifest.families) {
      json.begin_object();
      write_names(json, family);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().key("unusable").begin_array();
  for (const registry::BrokenFile& broken : catalog.broken())
    json.begin_object()
        .key("file")
        .value(broken.path.string())
        .key("error")
        .value(broken.error.what)
        .end_object();
  json.end_array();
  write(json, "folders", searched(catalog));
  return json.end_object().text() + "\n";
}

// Rows of cells, each column as wide as its widest cell.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      out += fmt::format("{:<{}}  ", row[i], widths[i]);
    out += row.back() + "\n";
  }
  return out;
}

std::string list_text(const Catalog& catalog) {
  std::string out;
  if (catalog.plugins().empty()) {
    out = fmt::format("no plugins in: {}\n", registry::joined(searched(catalog)));
  } else {
    std::vector<std::vector<std::string>> rows = {{"family", "plugin", "version", "abi", "file"}};
    for (const PluginFile& plugin : catalog.plugins())
      for (const FamilyNames& family : plugin.manifest.families)
        rows.push_back({family.name, plugin.manifest.id, plugin.manifest.version, abi_of(plugin),
                        plugin.path.string()});
    std::stable_sort(rows.begin() + 1, rows.end(),
                     [](const auto& a, const auto& b) { return a[0] < b[0]; });
    out = table(rows);
  }
  if (!catalog.broken().empty()) out += "\nunusable:\n";
  for (const registry::BrokenFile& broken : catalog.broken())
    out += fmt::format("  {}: {}\n", broken.path.string(), broken.error.what);
  return out;
}

int list(const Arguments& arguments, const Device&) {
  const Catalog catalog = find_plugins(arguments.globals);
  print(arguments.flag("json") ? list_json(catalog) : list_text(catalog));
  return 0;
}

}  // namespace

Command plugin_list_command() {
  return {.name = "plugin list",
          .summary = "lists the model families and their plugin files",
          .details =
              "Reads the files without running their code. Unusable files are listed "
              "with the reason.",
          .options = {json_option()},
          .examples = {"lamina plugin list", "lamina plugin list --json"},
          .run = list};
}

}  // namespace lamina::cli
