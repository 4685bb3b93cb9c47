// Resolves raw values against declared keys and reports every mistake in one error.
#include "config/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "config/key_paths.h"
#include "config/published_keys.h"
#include "config/suggest_keys.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "core/without_dots.h"

namespace lamina::config {
namespace {

constexpr std::string_view kModel = "model";

std::string join(std::string_view section, std::string_view key) {
  return section.empty() ? std::string(key) : fmt::format("{}.{}", section, key);
}

bool is_below(std::string_view key, std::string_view section) {
  return section.empty() ||
         (key.size() > section.size() && key.starts_with(section) && key[section.size()] == '.');
}

// Returns whether `name` matches `alias`, in which a part * matches any part.
bool fits_alias(std::string_view alias, std::string_view name) {
  for (;;) {
    const std::size_t a = alias.find('.'), n = name.find('.');
    const std::string_view part = alias.substr(0, a);
    if ((part != "*" && part != name.substr(0, n)) || (a == alias.npos) != (n == name.npos))
      return false;
    if (a == alias.npos) return true;
    alias.remove_prefix(a + 1);
    name.remove_prefix(n + 1);
  }
}

// Returns whether `name` is a table that contains some declared name of the key.
bool is_table_of(const Key& key, std::string_view name) {
  const auto parts = std::ranges::count(name, '.');
  auto leads_to = [&](std::string_view longer) {
    std::size_t end = 0;
    for (auto i = 0; i <= parts && end != longer.npos; ++i) end = longer.find('.', end + (i > 0));
    return end != longer.npos && fits_alias(longer.substr(0, end), name);
  };
  return leads_to(key.name) || std::ranges::any_of(key.aliases, leads_to);
}

// Returns the alias with a * that both names match; nullptr if there is none.
const std::string* common_alias(const Key& key, std::string_view a, std::string_view b) {
  for (const std::string& alias : key.aliases)
    if (alias.find('*') != alias.npos && fits_alias(alias, a) && fits_alias(alias, b))
      return &alias;
  return nullptr;
}

struct Match {
  const Section* section = nullptr;
  const Key* key = nullptr;
};

Match match(const Schema& schema, std::string_view dotted) {
  for (const Section& section : schema.sections) {
    if (!is_below(dotted, section.name)) continue;
    std::string_view name = dotted.substr(section.name.empty() ? 0 : section.name.size() + 1);
    for (const Key& key : section.keys)
      if (is_called(key, name)) return {&section, &key};
  }
  return {};
}

const Section* open_section(const Schema& schema, std::string_view dotted) {
  for (const Section& section : schema.sections)
    if (section.open && is_below(dotted, section.name)) return &section;
  return nullptr;
}

// Returns the precedence of a key's name among several in one file; the smallest is used. The name
// inside our own object comes first.
std::size_t rank_of_name(const Key& key, std::string_view name) {
  if (name.starts_with(kOwnObject)) return 0;
  if (precedes_newer_name(name)) return 1;
  if (name == key.name) return 2;
  const auto alias = std::ranges::find_if(
      key.aliases, [&](const std::string& one) { return fits_alias(one, name); });
  return 3 + static_cast<std::size_t>(alias - key.aliases.begin());
}

// Returns the key as messages write it: config.json files have no [model].
template <typename Entry>
std::string_view shown(const Entry& entry) {
  std::string_view key = entry.key;
  if (entry.origin.kind == Origin::Kind::json && is_below(key, kModel))
    key.remove_prefix(kModel.size() + 1);
  return key;
}

// Returns whether a declared key or section is at or below `prefix`.
bool leads_somewhere(const Schema& schema, const std::string& prefix) {
  for (const Section& section : schema.sections) {
    if (section.name == prefix || is_below(section.name, prefix)) return true;
    if (!is_below(prefix, section.name)) continue;
    const std::string_view name =
        std::string_view(prefix).substr(section.name.empty() ? 0 : section.name.size() + 1);
    for (const Key& key : section.keys)
      if (is_table_of(key, name)) return true;
  }
  return false;
}

// Returns an example of a key below `table`: the first declared one.
std::string first_key_below(const Schema& schema, std::string_view table) {
  for (const Section& section : schema.sections)
    for (const Key& key : section.keys) {
      std::vector<std::string> names = key.aliases;
      names.insert(names.begin(), key.name);
      for (const std::string& name : names)
        if (is_below(name, table)) return name;
    }
  return "";
}

// Describes a value in the place of a table, eg: "rope_scaling": "yarn".
ErrorText not_a_table(const Schema& schema, const RawEntry& entry) {
  ErrorText out{entry.origin.text, "", {}};
  if (entry.origin.kind != Origin::Kind::json) {
    out.what = fmt::format("'{}' is a section; write its keys below [{}]", entry.key, entry.key);
    return out;
  }
  out.what = fmt::format("'{}' must be an object, got {} ({})", shown(entry),
                         printable(to_toml(entry.value)), kind_of(entry.value));
  if (const std::string eg = first_key_below(schema, shown(entry)); !eg.empty())
    out.notes.push_back(fmt::format("an object with keys such as '{}'", eg));
  return out;
}

// Reports lists that no key accepts: they contain nulls or objects.
void check_mixed_lists(const Schema& schema, const Raw& raw, Problems& problems) {
  constexpr std::string_view kGot = "a list that contains nulls or objects";
  for (const RawSection& list : raw.mixed_lists) {
    if (const Key* key = match(schema, list.key).key)
      problems.add({list.origin.text,
                    fmt::format("'{}' must be {}, got {}", shown(list), expected_text(*key), kGot),
                    {}});
    else if (leads_somewhere(schema, list.key))
      problems.add(
          {list.origin.text, fmt::format("'{}' must be an object, got {}", shown(list), kGot), {}});
  }
}

// Returns whether the objects in the list are also given as columns, "list[].member".
bool has_columns(const Raw& raw, const std::string& list) {
  return std::ranges::any_of(raw.entries, [&](const RawEntry& entry) {
    return entry.key.starts_with(list) && entry.key.compare(list.size(), 3, "[].") == 0;
  });
}

std::vector<std::string> section_names(const Schema& schema) {
  std::vector<std::string> names;
  for (const Section& section : schema.sections)
    if (!section.name.empty()) names.push_back(section.name);
  return names;
}

// Describes a table in the place of another value, eg: [train.steps].
ErrorText not_a_section(const Key& key, const RawSection& section) {
  if (key.type == Type::list && key.element == Type::table)
    return {section.origin.text,
            fmt::format("'{}' is a list of tables; write [[{}]], with double brackets, once for "
                        "each of them",
                        section.key, section.key),
            {}};
  return {section.origin.text,
          fmt::format("'{}' is a key, not a section; write {} = ...", section.key, section.key),
          {fmt::format("it must be {}", expected_text(key))}};
}

// Reports sections that contain no declared key, once each and without their keys. Unknown sections
// of JSON files are not errors.
std::vector<std::string> check_sections(const Schema& schema, const Raw& raw, Problems& problems) {
  std::vector<std::string> unknown;
  for (const RawSection& section : raw.sections) {
    if (leads_somewhere(schema, section.key)) continue;
    if (section.origin.kind == Origin::Kind::json) {
      if (const Key* key = match(schema, section.key).key)
        problems.add(
            {section.origin.text,
             fmt::format("'{}' must be {}, got an object", shown(section), expected_text(*key)),
             {}});
      continue;
    }
    if (open_section(schema, section.key) && !match(schema, section.key).key) continue;
    bool reported = std::any_of(unknown.begin(), unknown.end(), [&](const std::string& parent) {
      return section.key == parent || is_below(section.key, parent);
    });
    if (reported) continue;
    unknown.push_back(section.key);
    if (const Key* key = match(schema, section.key).key) {
      problems.add(not_a_section(*key, section));
      continue;
    }
    std::vector<std::string> names = section_names(schema);
    std::string nearest = nearest_name(section.key, names);
    problems.add({section.origin.text,
                  fmt::format("unknown section [{}]", section.key),
                  {nearest.empty() ? fmt::format("expected one of [{}]", fmt::join(names, "], ["))
                                   : fmt::format("did you mean [{}]?", nearest)}});
  }
  return unknown;
}

// Returns the value with relative paths resolved against the folder of its file.
Value rebase(const Key& key, const Value& value, const std::filesystem::path& folder) {
  return change_paths(key, value, [&](const std::string& path) {
    if (folder.empty() || std::filesystem::path(path).is_absolute()) return path;
    return without_dots(folder / path).string();
  });
}

bool has_empty_path(const Value& value) {
  if (auto* list = value.get_if<List>())
    return std::any_of(list->begin(), list->end(), has_empty_path);
  auto* text = value.get_if<std::string>();
  return text && text->empty();
}

// Selects the entry that determines each key: the one of the latest kind, or the last within a
// kind.
class Winners {
 public:
  // Adds a problem if one file gives a key under two names.
  void offer(const Key* key, const RawEntry& entry, Problems& problems) {
    auto [at, first] = by_key_.try_emplace(key, &entry);
    if (first) return;
    const RawEntry& current = *at->second;
    bool same_kind = current.origin.kind == entry.origin.kind;
    const bool is_typed = entry.origin.kind >= Origin::Kind::environment;
    if (same_kind && current.key != entry.key && !is_typed) {
      // Published configs repeat values under several names; the first declared name is used.
      if (entry.origin.kind == Origin::Kind::json) {
        if (rank_of_name(*key, shown(entry)) < rank_of_name(*key, shown(current)))
          at->second = &entry;
        if (common_alias(*key, shown(current), shown(entry)) && !(current.value == entry.value))
          problems.add({entry.origin.text,
                        fmt::format("'{}' is {}, but '{}' is {}; they must be equal", shown(entry),
                                    to_toml(entry.value), shown(current), to_toml(current.value)),
                        {fmt::format("the other value is at {}", current.origin.text)}});
        return;
      }
      problems.add(
          {entry.origin.text,
           fmt::format("'{}' and '{}' are names of the same key; keep one", current.key, entry.key),
           {fmt::format("the other is at {}", current.origin.text)}});
      return;
    }
    if (entry.origin.kind >= current.origin.kind) at->second = &entry;
  }

  const RawEntry* of(const Key* key) const {
    auto at = by_key_.find(key);
    return at == by_key_.end() ? nullptr : at->second;
  }

 private:
  std::map<const Key*, const RawEntry*> by_key_;
};

// Converts 256.0 to 256 where the key is an integer. Some publishers, and earlier versions of ours,
// write such numbers.
Value as_integer(const Key& key, const Value& value) {
  constexpr double kExact = 9007199254740992;  // 2^53
  const double* number = key.type == Type::integer ? value.get_if<double>() : nullptr;
  if (!number || *number != std::floor(*number) || std::abs(*number) > kExact) return value;
  return Value(static_cast<std::int64_t>(*number));
}

// Converts the integer of a config.json to a flag. 0 and 1 are equal to the flags in Python; other
// numbers are flags for a few keys only, and mistakes elsewhere.
Value as_flag(const Key& key, const Value& value) {
  const std::int64_t* number = key.type == Type::boolean ? value.get_if<std::int64_t>() : nullptr;
  if (!number || (*number != 0 && *number != 1 && !is_number_for_flag(key.name))) return value;
  return Value(*number != 0);
}

// Returns the value in the type of the key, where the file has another form of it.
Value in_type(const Key& key, const RawEntry& entry) {
  if (!is_below(entry.key, kModel)) return entry.value;
  return is_json(entry.origin) ? as_flag(key, as_integer(key, entry.value))
                               : as_integer(key, entry.value);
}

// Describes a required key without a value, in the words of a config.json if the model has one.
ErrorText missing(const std::string& name, const Key& key, const Raw& raw,
                  const std::string& where) {
  std::vector<std::string> names{name};
  if (is_below(name, kModel) && std::ranges::any_of(raw.entries, is_json, &RawEntry::origin)) {
    names = {key.name};
    std::ranges::copy_if(key.aliases, std::back_inserter(names), [](const std::string& alias) {
      return !alias.starts_with(kOwnObject) && alias.find('*') == alias.npos;
    });
  }
  return {where, fmt::format("missing key '{}'", fmt::join(names, "' or '")), {key.doc}};
}

void settle(const std::string& name, const Key& key, const RawEntry* entry,
            const std::string& where, Resolved& out, const Raw& raw, Problems& problems) {
  if (!entry) {
    if (key.required)
      problems.add(missing(name, key, raw, where));
    else if (key.preset)
      out.values.add({name, *key.preset, {}});
    return;
  }
  auto checked = check_value(key, shown(*entry), in_type(key, *entry), entry->source);
  if (auto* wrong = std::get_if<ErrorText>(&checked)) {
    wrong->where = entry->origin.text;
    problems.add(std::move(*wrong));
    return;
  }
  Value value = std::get<Value>(std::move(checked));
  if (key.path) {
    if (has_empty_path(value))
      problems.add(
          {entry->origin.text, fmt::format("'{}' must be a path, got \"\"", shown(*entry)), {}});
    change_paths(key, value, [&](const std::string& path) {
      if (const auto advice = advice_on_home(path))
        problems.add(
            {entry->origin.text,
             fmt::format("'{}' must not begin with ~, got {}", shown(*entry), toml_quote(path)),
             {*advice}});
      return path;
    });
    value = rebase(key, value, entry->folder);
  }
  if (is_json(entry->origin) && shown(*entry) != key.name) out.names.emplace(name, shown(*entry));
  out.values.add({name, std::move(value), entry->origin});
}

}  // namespace

bool is_called(const Key& key, std::string_view name) {
  return key.any_name || key.name == name ||
         std::ranges::any_of(key.aliases,
                             [&](const std::string& alias) { return fits_alias(alias, name); });
}

const Key* Schema::find(std::string_view dotted) const { return match(*this, dotted).key; }

std::vector<std::string> Schema::key_names() const {
  std::vector<std::string> names;
  for (const Section& section : sections)
    for (const Key& key : section.keys)
      if (!key.any_name) names.push_back(dotted_name(section, key));
  return names;
}

std::string dotted_name(const Section& section, const Key& key) {
  return join(section.name, key.name);
}

void Problems::raise() const {
  if (texts_.empty()) return;
  ErrorText all = texts_.front();
  for (std::size_t i = 1; i < texts_.size(); ++i) {
    all.notes.push_back(fmt::format("also: {}: {}", texts_[i].where, texts_[i].what));
    for (const std::string& note : texts_[i].notes) all.notes.push_back("  " + note);
  }
  throw UserError(ExitCode::usage, std::move(all));
}

Resolved resolve(const Schema& schema, const Raw& raw, const std::string& where) {
  Problems problems;
  Resolved out;
  Winners winners;
  std::map<std::string, Key> named;  // by dotted name: copies of any_name keys, one per name
  std::vector<std::string> unknown_sections = check_sections(schema, raw, problems);
  check_mixed_lists(schema, raw, problems);
  for (const RawEntry& entry : raw.entries) {
    if (Match found = match(schema, entry.key); found.key) {
      bool any = found.key->any_name;
      winners.offer(any ? &named.try_emplace(entry.key, *found.key).first->second : found.key,
                    entry, problems);
    } else if (leads_somewhere(schema, entry.key)) {
      problems.add(not_a_table(schema, entry));
    } else if (open_section(schema, entry.key)) {
      out.rest.entries.push_back(entry);
    } else if (entry.origin.kind == Origin::Kind::json) {
      out.unread.push_back(entry);
    } else if (std::none_of(
                   unknown_sections.begin(), unknown_sections.end(),
                   [&](const std::string& section) { return is_below(entry.key, section); })) {
      problems.add({entry.origin.text, fmt::format("unknown key '{}'", printable(entry.key)),
                    suggest_keys(schema, entry.key)});
    }
  }
  for (const RawSection& list : raw.mixed_lists)
    if (!match(schema, list.key).key && !leads_somewhere(schema, list.key) &&
        !open_section(schema, list.key) && !has_columns(raw, list.key))
      out.unread.push_back({list.key, Value(List{}), list.origin, {}, ""});
  for (const RawSection& section : raw.sections)
    if (open_section(schema, section.key)) out.rest.sections.push_back(section);
  for (const RawSection& null : raw.nulls)
    if (open_section(schema, null.key)) out.rest.nulls.push_back(null);
  for (const RawSection& list : raw.mixed_lists)
    if (open_section(schema, list.key)) out.rest.mixed_lists.push_back(list);
  for (const Section& section : schema.sections)
    for (const Key& key : section.keys)
      if (!key.any_name)
        settle(dotted_name(section, key), key, winners.of(&key), where, out, raw, problems);
  for (const auto& [name, key] : named)
    settle(name, key, winners.of(&key), where, out, raw, problems);
  problems.raise();
  return out;
}

const Requirement* unmet_requirement(const Schema& schema, const Key& key, const Table& values) {
  if (!key.only_for) return nullptr;
  const Requirement& required = *key.only_for;
  const Key* other = schema.find(required.key);
  LAMINA_ASSERT(other);
  if (const Requirement* first = unmet_requirement(schema, *other, values)) return first;
  const Entry* entry = values.find(required.key);
  if (!required.values.empty()) {
    const auto* text = entry ? entry->value.get_if<std::string>() : nullptr;
    return text && std::ranges::count(required.values, *text) ? nullptr : &required;
  }
  if (required.positive) return entry && entry->value != Value(0.0) ? nullptr : &required;
  const auto is_set = [&](const std::string& name) {
    const Entry* value = values.find(name);
    return value && value->value != schema.find(name)->preset.value_or(Value("")) &&
           value->value != Value(List{});
  };
  if (is_set(required.key)) return nullptr;
  return !required.or_key.empty() && is_set(required.or_key) ? nullptr : &required;
}

Resolved resolve_model(const std::vector<Key>& keys, const Raw& raw, const std::string& where) {
  Resolved resolved = resolve({{{std::string(kModel), "", keys}}}, raw, where);
  Table values;
  for (Entry entry : resolved.values.entries()) {
    entry.key.erase(0, kModel.size() + 1);
    values.add(std::move(entry));
  }
  resolved.values = std::move(values);
  std::map<std::string, std::string, std::less<>> names;
  for (auto& [key, name] : resolved.names) names.emplace(key.substr(kModel.size() + 1), name);
  resolved.names = std::move(names);
  return resolved;
}

}  // namespace lamina::config
