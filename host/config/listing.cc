// Lists values grouped by section, with the top of the file first, as TOML requires.
#include "config/listing.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/key_paths.h"
#include "config/model_keys.h"
#include "core/json_writer.h"
#include "core/printable.h"
#include "core/without_dots.h"

namespace lamina::config {
namespace {

std::string section_of(std::string_view key) {
  auto dot = key.find('.');
  return std::string(dot == key.npos ? "" : key.substr(0, dot));
}

// Returns the key of `entry` below its section as TOML. Keys of JSON files are not quoted yet.
std::string key_below(const Entry& entry, std::string_view section) {
  std::string_view key = entry.key;
  if (!section.empty()) key.remove_prefix(section.size() + 1);
  if (!is_json(entry.origin)) return std::string(key);
  std::string out;
  for (std::size_t at = 0; at <= key.size();) {
    const std::size_t dot = std::min(key.find('.', at), key.size());
    out += (at > 0 ? "." : "") + toml_key(key.substr(at, dot - at));
    at = dot + 1;
  }
  return out;
}

// Returns the last entry of each key, as resolve() would, for models that no plugin has read.
std::vector<Entry> raw_model_values(const Raw& raw) {
  std::vector<Entry> out;
  for (const RawEntry& entry : raw.entries) {
    auto same = std::find_if(out.begin(), out.end(),
                             [&](const Entry& other) { return other.key == entry.key; });
    if (same == out.end())
      out.push_back({entry.key, entry.value, entry.origin});
    else if (entry.origin.kind >= same->origin.kind)
      *same = {entry.key, entry.value, entry.origin};
  }
  return out;
}

Value absolute(const Key& key, const Value& value) {
  return change_paths(key, value, [](const std::string& path) {
    return without_dots(std::filesystem::absolute(path)).string();
  });
}

// Returns the values that differences() compares: declared values with absolute paths, and the
// model as given.
std::vector<Entry> comparable(const RunConfig& c) {
  std::vector<Entry> out = list_values(c);
  std::erase_if(out, [](const Entry& entry) { return entry.key == "model.path"; });
  for (Entry& entry : out)
    if (const Key* key = run_schema().find(entry.key)) entry.value = absolute(*key, entry.value);
  return out;
}

// Returns whether the value is the default of train.microbatch_size, which depends on the number of
// devices, so that it is no setting of the run.
bool is_device_share(const Entry& entry) {
  return entry.key == "train.microbatch_size" && entry.origin.kind == Origin::Kind::preset;
}

const Entry* find(const std::vector<Entry>& entries, std::string_view key) {
  for (const Entry& entry : entries)
    if (entry.key == key) return &entry;
  return nullptr;
}

// Returns the value as TOML. Run files omit the host's keys of [model] that were not given: an
// absent hot one has its default.
std::string toml_of(const Entry* entry, std::string_view key, const Key* declared) {
  if (entry) return to_toml(entry->value);
  return declared && declared->hot && section_of(key) == "model" ? to_toml(*declared->preset) : "";
}

// Escapes a cell of a Markdown table: a bar would end it.
std::string cell(std::string text) {
  for (auto at = text.find('|'); at != text.npos; at = text.find('|', at + 2))
    text.insert(at, 1, '\\');
  return text;
}

}  // namespace

std::vector<Entry> list_values(const RunConfig& c, const Table* model) {
  std::vector<Entry> out;
  for (const Section& section : run_schema().sections) {
    for (const Key& key : section.keys) {
      const Entry* entry = c.values.find(dotted_name(section, key));
      if (entry && !unmet_requirement(run_schema(), key, c.values)) out.push_back(*entry);
      if (!key.any_name) continue;
      for (const Entry& named : c.values.entries())
        if (run_schema().find(named.key) == &key) out.push_back(named);
    }
    if (section.name != "model") continue;
    if (!model) {
      for (Entry& entry : raw_model_values(c.model.raw)) out.push_back(std::move(entry));
      continue;
    }
    for (Entry entry : model->entries()) {
      entry.key = "model." + entry.key;
      out.push_back(std::move(entry));
    }
  }
  return out;
}

std::string to_toml(const std::vector<Entry>& values) {
  std::string out, current;
  for (const Entry& entry : values) {
    std::string section = section_of(entry.key);
    if (section != current) out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section);
    current = section;
    std::string line = fmt::format("{} = {}", key_below(entry, section), to_toml(entry.value));
    out += fmt::format("{:<39} # {}\n", line, printable(entry.origin.text));
  }
  return out;
}

std::string to_json(const std::vector<Entry>& values) {
  JsonWriter json(2);
  json.begin_object();
  for (const Entry& entry : values)
    json.key(entry.key)
        .begin_object()
        .key("value")
        .raw(to_json(entry.value))
        .key("origin")
        .value(entry.origin.text)
        .end_object();
  return json.end_object().text() + "\n";
}

std::string resolved_run_file(const RunConfig& c, const std::string& family, const Table& model) {
  std::vector<Entry> values = comparable(c);
  std::erase_if(values, [](const Entry& entry) {
    return entry.key == "family" || section_of(entry.key) == "model" || is_device_share(entry);
  });
  std::vector<Entry> out = {{"family", family, {Origin::Kind::preset, "the plugin"}}};
  for (const Entry& entry : values) out.push_back(entry);
  for (Entry entry : model.entries()) {
    entry.key = "model." + entry.key;
    out.push_back(std::move(entry));
  }
  return fmt::format("# Every value of the run {} and where it came from.\n\n{}",
                     toml_quote(c.run.name), to_toml(out));
}

std::vector<Difference> differences(const RunConfig& before, const RunConfig& now, bool moved) {
  std::vector<Entry> a = comparable(before), b = comparable(now);
  const std::string from = *find(a, "run.out")->value.get_if<std::string>(),
                    to = *find(b, "run.out")->value.get_if<std::string>();
  std::vector<Difference> out;
  auto compare = [&](const std::string& key) {
    const Entry *old_entry = find(a, key), *new_entry = find(b, key);
    const Key* declared = documented_schema().find(key);
    std::string was = toml_of(old_entry, key, declared);
    std::string is = toml_of(new_entry, key, declared);
    if (moved && declared && old_entry &&
        is == to_toml(change_paths(*declared, old_entry->value, [&](const std::string& path) {
          return moved_path(path, from, to);
        })))
      return;
    const bool was_share = old_entry && is_device_share(*old_entry);
    if (was_share && new_entry && is_device_share(*new_entry)) return;
    if (was_share) was = "the default";
    if (was != is) out.push_back({key, was, is, was_share || (declared && declared->hot)});
  };
  for (const Entry& entry : b) compare(entry.key);
  for (const Entry& entry : a)
    if (!find(b, entry.key)) compare(entry.key);
  return out;
}

std::string preset_text(const Key& key) {
  if (key.required) return "required";
  if (!key.preset_text.empty()) return key.preset_text;
  return key.preset ? to_toml(*key.preset) : "none";
}

std::string reference_page(const Schema& schema) {
  std::string out =
      "# Keys of run files\n\n"
      "<!-- Generated: lamina config explain --markdown > docs/config.md -->\n\n"
      "A run file is TOML 1.0. Values come from the defaults below, then the model that the file "
      "names,\nthe file, the environment (`LAMINA_TRAIN__STEPS=10`) and the command line "
      "(`--set train.steps=10`);\nlater ones win. `lamina config show RUN.toml` prints every final "
      "value with its origin. Relative\npaths start at the folder of the file that contains them. "
      "An "
      "unknown key is an error. Keys marked \"hot\"\nmay differ when a run is resumed. A list "
      "of one value may be written without brackets:\n`train = \"corpus.txt\"`.\n";
  for (const Section& section : schema.sections) {
    out += section.name.empty() ? "\n## Top of the file\n\n"
                                : fmt::format("\n## [{}]\n\n", section.name);
    out += section.doc + "\n\n| key | type | default | limits | meaning |\n|---|---|---|---|---|\n";
    for (const Key& key : section.keys) {
      std::string type = type_text(key) + (key.unit.empty() ? "" : ", " + key.unit);
      auto row = [&](const std::string& name, const std::string& kind, const Key& of) {
        out += fmt::format("| `{}` | {} | {} | {} | {}{} |\n", name, kind, cell(preset_text(of)),
                           cell(limits_text(of)), cell(of.doc), of.hot ? " *hot*" : "");
      };
      row(key.name, type, key);
      for (const Key& member : key.members)
        row(fmt::format("{}[].{}", key.name, member.name), type_text(member), member);
    }
  }
  return out;
}

}  // namespace lamina::config
