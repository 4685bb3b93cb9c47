// lamina config show | explain: the final values of a run file, and the meaning of its keys.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/text.h"
#include "config/listing.h"
#include "config/model_keys.h"
#include "config/suggest_keys.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "model/training.h"
#include "train/loop/run.h"

namespace lamina::cli {
namespace {

// Returns the values of [model] by its plugin; nothing, with a warning, if the plugin or the
// directory of train.from does not exist here.
std::optional<config::Table> model_values(const Arguments& arguments,
                                          const config::RunConfig& run) {
  try {
    return train::model_values(*model::open_trained(run, plugin_catalog(arguments.globals)));
  } catch (const Error& error) {
    if (error.code() != ExitCode::plugin && error.code() != ExitCode::checkpoint) throw;
    log::warning("{}: {}; [model] has only the given keys", error.text().where, error.text().what);
    return {};
  }
}

int show(const Arguments& arguments, const Device&) {
  const config::RunConfig run = config::load_run(
      arguments.positionals[0], {arguments.texts("set"), config::process_environment()});
  const std::optional<config::Table> model = model_values(arguments, run);
  const std::vector<config::Entry> values = config::list_values(run, model ? &*model : nullptr);
  print(arguments.flag("json") ? config::to_json(values) : config::to_toml(values));
  return 0;
}

// "train.steps" -> LAMINA_TRAIN__STEPS; keys at the top of the file have no variable.
std::string variable_of(const std::string& key) {
  std::string out = "LAMINA_";
  for (char c : key)
    if (c == '.')
      out += "__";
    else
      out += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

// A key of the tables in a list: "optimizer.groups[].match".
struct TableKey {
  std::string list_name;
  const Key* key;

  std::string name() const { return fmt::format("{}[].{}", list_name, key->name); }
};

// Returns the members of a key, in order.
std::vector<TableKey> members_of(const config::Section& section, const Key& list) {
  std::vector<TableKey> out;
  for (const Key& key : list.members) out.push_back({config::dotted_name(section, list), &key});
  return out;
}

// Returns the member that is called "optimizer.groups[].match" or "optimizer.groups.match".
std::optional<TableKey> find_member(const config::Schema& schema, const std::string& name) {
  for (const config::Section& section : schema.sections)
    for (const Key& list : section.keys)
      for (const TableKey& member : members_of(section, list))
        if (name == member.name() || name == member.list_name + "." + member.key->name)
          return member;
  return {};
}

// Appends a row for each key of a list's tables.
void add_members(const Key& list, std::vector<std::pair<std::string, std::string>>& rows) {
  for (const Key& key : list.members)
    rows.emplace_back(fmt::format("{}[].{} = {}", list.name, key.name, config::preset_text(key)),
                      key.doc);
}

std::string explain_member(const TableKey& member) {
  const Key& key = *member.key;
  std::vector<std::pair<std::string, std::string>> rows = {{"type", config::type_text(key)}};
  if (!key.unit.empty()) rows.emplace_back("unit", key.unit);
  rows.emplace_back("default", config::preset_text(key));
  if (std::string limits = config::limits_text(key); !limits.empty())
    rows.emplace_back("limits", limits);
  rows.emplace_back("part of", fmt::format("each table [[{0}]]; see `lamina config explain {0}`",
                                           member.list_name));
  return fmt::format("{}\n  {}\n{}", member.name(), wrap(key.doc, 2), two_columns(rows));
}

std::string explain_key(const std::string& name, const Key& key) {
  std::vector<std::pair<std::string, std::string>> rows = {{"type", config::type_text(key)}};
  if (!key.unit.empty()) rows.emplace_back("unit", key.unit);
  rows.emplace_back("default", config::preset_text(key));
  if (std::string limits = config::limits_text(key); !limits.empty())
    rows.emplace_back("limits", limits);
  rows.emplace_back("resume", key.hot ? "may differ when a run is resumed"
                                      : "must stay the same when a run is resumed");
  std::string ways = fmt::format("--set {}=...", name);
  if (name.find('.') != name.npos) ways += " or " + variable_of(name);
  rows.emplace_back("override", ways);
  std::vector<std::pair<std::string, std::string>> members;
  add_members(key, members);
  return fmt::format("{}\n  {}\n{}{}{}", name, wrap(key.doc, 2), two_columns(rows),
                     members.empty() ? "" : "keys of each table:\n", two_columns(members));
}

std::string section_text(const config::Section& section) {
  std::string title = section.name.empty() ? "" : fmt::format("[{}] ", section.name);
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Key& key : section.keys) {
    rows.emplace_back(fmt::format("{} = {}", key.name, config::preset_text(key)), key.doc);
    add_members(key, rows);
  }
  return wrap(title + section.doc, 0) + "\n" + two_columns(rows);
}

std::string overview(const config::Schema& schema) {
  std::string out;
  for (const config::Section& section : schema.sections) out += section_text(section) + "\n";
  return out + "`lamina config explain KEY` describes one key.\n";
}

void add_to_json(JsonWriter& json, const std::string& name, const Key& key) {
  json.key(name).begin_object();
  json.key("type").value(config::type_text(key)).key("unit").value(key.unit);
  json.key("default");
  key.preset ? json.raw(config::to_toml(*key.preset)) : json.null();
  json.key("required").value(key.required).key("limits").value(config::limits_text(key));
  json.key("hot").value(key.hot).key("doc").value(key.doc).end_object();
}

// One key or section, or all with an empty name. A key of tables is followed by theirs.
std::string as_json(const config::Schema& schema, const std::string& name) {
  JsonWriter json(2);
  json.begin_object();
  const std::optional<TableKey> only = find_member(schema, name);
  for (const config::Section& section : schema.sections)
    for (const Key& key : section.keys) {
      const bool all = name.empty() || name == section.name || &key == schema.find(name);
      if (all) add_to_json(json, config::dotted_name(section, key), key);
      for (const TableKey& member : members_of(section, key))
        if (all || (only && only->key == member.key)) add_to_json(json, member.name(), *member.key);
    }
  return json.end_object().text() + "\n";
}

int explain(const Arguments& arguments, const Device&) {
  const config::Schema& schema = config::documented_schema();
  const bool all = arguments.positionals.empty();
  if (arguments.flag("markdown")) {
    if (all) return print(config::reference_page(schema)), 0;
    throw UserError(ExitCode::usage, {"--markdown", "prints the whole page; remove KEY", {}});
  }
  if (all) return print(arguments.flag("json") ? as_json(schema, "") : overview(schema)), 0;
  const std::string& name = arguments.positionals[0];
  const Key* key = schema.find(name);
  const auto section = std::ranges::find(schema.sections, name, &config::Section::name);
  const bool is_section = !key && !name.empty() && section != schema.sections.end();
  const std::optional<TableKey> member = find_member(schema, name);
  if (!key && !is_section && !member) {
    std::vector<std::string> notes = config::suggest_keys(schema, name);
    if (name.starts_with("model."))
      notes.emplace_back(
          "keys of [model] belong to a family; `lamina plugin inspect NAME` lists them");
    if (notes.empty()) notes.emplace_back("`lamina config explain` lists the keys");
    throw UserError(ExitCode::usage, {"", fmt::format("unknown key '{}'", name), notes});
  }
  print(arguments.flag("json") ? as_json(schema, name)
        : is_section           ? section_text(*section)
        : member               ? explain_member(*member)
                               : explain_key(name, *key));
  return 0;
}

}  // namespace

Command config_show_command() {
  return {.name = "config show",
          .summary = "prints every final value of a run file and where it came from",
          .details =
              "The output is a run file itself. Values come from the defaults, the model that "
              "the run file names, the run file, the environment and --set; later ones win. The "
              "plugin of the family gives the defaults of [model].",
          .options = {set_option(), json_option()},
          .positionals = {{.name = "RUN.toml", .doc = "The run file."}},
          .examples = {"lamina config show configs/train/quickstart.toml",
                       "lamina config show run.toml --set optimizer.lr=1e-3 --json"},
          .run = show};
}

Command config_explain_command() {
  return {.name = "config explain",
          .summary = "describes the keys of run files: type, unit, default, limits",
          .options = {json_option(),
                      {.key = {.name = "markdown",
                               .type = Type::boolean,
                               .doc = "Print the reference page docs/config.md."}}},
          .positionals = {{.name = "KEY",
                           .doc = "A key or a section, eg: train.steps; default: all keys.",
                           .required = false}},
          .examples = {"lamina config explain", "lamina config explain train.steps"},
          .run = explain};
}

}  // namespace lamina::cli
