#include "imports/run_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "config/run_config.h"
#include "config/schema.h"
#include "core/error.h"
#include "core/suggest.h"
#include "imports/adapter_modules.h"
#include "imports/expression.h"
#include "imports/run_text.h"
#include "imports/table.h"

namespace lamina::imports {
namespace {

using config::Value;

// The note about a key that every configuration has.
constexpr const char* kInBase = "base.yml of every version since 2025 contains them";

// Returns a pointer to the number if the value is one.
const double* number_of(const Value& value, double& room) {
  if (const auto* whole = value.get_if<std::int64_t>())
    return room = static_cast<double>(*whole), &room;
  if (const auto* real = value.get_if<double>()) return room = *real, &room;
  return nullptr;
}

bool same(const Value& a, const Value& b) {
  double x = 0, y = 0;
  if (number_of(a, x) && number_of(b, y)) return x == y;
  return a == b;
}

// Returns the type for messages; "" for texts, which stand for other types too ("None").
std::string_view type_in_words(const Value& value) {
  double room = 0;
  if (number_of(value, room)) return "a number";
  if (value.get_if<bool>()) return "true or false";
  return value.get_if<config::List>() ? "a list" : "";
}

std::string bare_name(std::string_view key) {
  return std::string(key.starts_with("base_") ? key.substr(5) : key);
}

class Importer {
 public:
  explicit Importer(const Configuration& from) : from_(from) {
    for (const YamlSetting& setting : from.base) values_[setting.key] = &setting;
    for (const YamlSetting& setting : from.given) values_[setting.key] = &setting;
  }

  Imported import() {
    refuse_other_types();
    set_variables();
    find_block();
    find_adapters();
    refuse(table_.refused);
    for (const Part* part : parts_) refuse(part->refused);
    refuse_unknown_keys();
    refuse_other_values();
    problems_.raise();
    write();
    check_run();
    say();
    return std::move(out_);
  }

 private:
  // A value of another type would be converted to something else, or be an error of an expression.
  void refuse_other_types() {
    for (const YamlSetting& setting : from_.given) {
      const auto base = std::ranges::find(from_.base, setting.key, &YamlSetting::key);
      if (base == from_.base.end() || table_.reason_to_ignore(setting.key) ||
          std::ranges::find(table_.scaled, setting.key,
                            &decltype(table_.scaled)::value_type::first) != table_.scaled.end())
        continue;
      const std::string_view expected = type_in_words(base->value);
      if (!expected.empty() && type_in_words(setting.value) != expected)
        problems_.add({setting.where,
                       fmt::format("'{}' must be {}, got {}", setting.key, expected,
                                   config::to_toml(setting.value)),
                       {}});
    }
  }

  // Checks the values as training would.
  void check_run() {
    for (const config::RawEntry& entry :
         config::parse_toml(out_.toml, kRunFile, config::Origin::Kind::run_file).entries)
      if (const auto key = expressions_.find(entry.key); key != expressions_.end())
        out_.places[entry.origin.text] = place_of(key->second);
    try {
      static_cast<void>(config::parse_run(out_.toml, kRunFile));
    } catch (const UserError& error) {
      fail_at_settings(error, out_);
    }
  }

  void set_variables() {
    for (const auto& [key, setting] : values_) variables_.set(name_of_key(key), setting->value);
    for (const auto& [key, value] : table_.absent)
      if (const std::string name = name_of_key(key); !variables_.has(name))
        variables_.set(name, value_of_json(variables_.json(value, kTableName)));
    scale_sizes();
    for (const auto& [name, expression] : table_.names) {
      const std::string json = compute(expression);
      variables_.set(name, json == "null" ? Value("None") : value_of_json(json));
    }
  }

  // Applies MaxText's global_parameter_scale, a power of 2.
  void scale_sizes() {
    const YamlSetting* scale = find("global_parameter_scale");
    const auto* factor = scale ? scale->value.get_if<std::int64_t>() : nullptr;
    std::int64_t doublings = 0;
    if (scale && (!factor || *factor < 1 || (*factor & (*factor - 1)) || *factor > 1 << 20))
      problems_.add({scale->where,
                     fmt::format("'global_parameter_scale' must be a power of 2, got {}",
                                 config::to_toml(scale->value)),
                     {}});
    else if (factor)
      while ((std::int64_t{1} << doublings) < *factor) ++doublings;
    std::vector<std::string> missing;
    for (const auto& [key, ahead] : table_.scaled) {
      const YamlSetting* size = find(key);
      const auto* value = size ? size->value.get_if<std::int64_t>() : nullptr;
      std::int64_t scaled = 0;
      if (!size)
        missing.push_back(key);
      else if (!value)
        problems_.add(
            {size->where,
             fmt::format("'{}' must be an integer, got {}", key, config::to_toml(size->value)),
             {}});
      else if (__builtin_mul_overflow(*value, std::int64_t{1} << (doublings + ahead) / 3, &scaled))
        problems_.add(
            {size->where,
             fmt::format("'{}' times the scale of global_parameter_scale is too large", key),
             {}});
      else
        variables_.set(bare_name(key), Value(scaled));
    }
    if (!missing.empty())
      problems_.add({from_.file,
                     fmt::format("'{}' {} missing", fmt::join(missing, "', '"),
                                 missing.size() == 1 ? "is" : "are"),
                     {kInBase}});
    problems_.raise();
  }

  void find_block() {
    const YamlSetting* named = find("decoder_block");
    const auto* name = named ? named->value.get_if<std::string>() : nullptr;
    block_ = name ? table_.find_block(*name) : nullptr;
    if (!block_) {
      std::vector<std::string> known;
      for (const auto& [block, row] : table_.blocks) known.push_back(block);
      throw UserError(ExitCode::usage, {named ? named->where : from_.file,
                                        fmt::format("no family implements 'decoder_block' = {}",
                                                    named ? config::to_toml(named->value) : "none"),
                                        {fmt::format("expected one of "
                                                     "{}",
                                                     fmt::join(known, ", "))}});
    }
    out_.block = *name;
    parts_ = table_.parts_of(*block_);
    read_ = keys_of(*block_);
    read(table_.refused, true);
    read(table_.notes, true);
    read(table_.run, false);
    read(table_.first_groups, false);
    read(table_.groups, false);
    note_read(table_.tags_when, read_);
    for (const std::string& key : table_.tags) read_.insert(key);
    read_.insert({"model_name", "decoder_block", "global_parameter_scale"});
  }

  // Sets lora_modules to our names of the modules that lora_path matches.
  void find_adapters() {
    if (!is_true("lora__enable_lora")) return;
    const YamlSetting* given = find("lora.lora_module_path");
    const std::string place = given ? given->where : place_of("lora__enable_lora");
    if (given && (!given->value.get_if<std::string>() || given->value == Value("None"))) {
      problems_.add({place,
                     "'lora.lora_module_path' must be a regular expression, or '' for MaxText's "
                     "usual modules",
                     {}});
      return;
    }
    std::vector<AdapterModule> modules;
    for (const Part* part : parts_)
      for (const auto& [path, expression] : part->modules)
        if (const auto name = value_of(expression))
          if (std::vector<std::string> paths = module_paths(path); !paths.empty())
            modules.push_back({std::move(paths), std::get<std::string>(name->data)});
    try {
      const std::vector<std::string> names =
          match_adapter_modules(std::get<std::string>(value_of("lora_path")->data), modules,
                                std::get<std::int64_t>(value_of("num_decoder_layers")->data),
                                fmt::format("{}: 'lora.lora_module_path'", place));
      variables_.set("lora_modules", Value(config::List(names.begin(), names.end())));
    } catch (const UserError& error) {
      problems_.add(error.text());
    }
  }

  // Returns the spellings of a path of [modules]; empty if the model has no such layers.
  std::vector<std::string> module_paths(const std::string& path) const {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const auto layers =
        std::ranges::find(table_.layers, path.substr(0, slash), &TextRows::value_type::first);
    if (layers == table_.layers.end()) return {"decoder/" + path};
    std::vector<std::string> out;
    if (const auto spellings = value_of(layers->second))
      for (const Value& spelling : std::get<config::List>(spellings->data))
        out.push_back("decoder/" + std::get<std::string>(spelling.data) + path.substr(slash));
    return out;
  }

  void read(const TextRows& rows, bool by_name) { read(rows, by_name, read_); }
  void read(const TextRows& rows, bool by_name, std::set<std::string>& out) const {
    for (const auto& [name, expression] : rows) note_read(by_name ? name : expression, out);
  }

  // Returns the keys that this block reads.
  std::set<std::string> keys_of(const TableBlock& block) const {
    std::set<std::string> out(block.unread.begin(), block.unread.end());
    note_read(block.family, out);
    for (const Part* part : table_.parts_of(block)) {
      read(part->model, false, out), read(part->groups, false, out);
      read(part->refused, true, out), read(part->notes, true, out);
    }
    for (const auto& [key, reason] : block.missing) out.insert(key);
    return out;
  }

  // Adds the keys used by an expression, also through [names] and [scaled].
  void note_read(const std::string& expression, std::set<std::string>& out) const {
    for (const std::string& name : names_in(expression)) {
      auto derived = std::ranges::find(table_.names, name, &TextRows::value_type::first);
      if (derived != table_.names.end()) note_read(derived->second, out);
      auto scaled = std::ranges::find_if(
          table_.scaled, [&](const auto& row) { return bare_name(row.first) == name; });
      out.insert(scaled == table_.scaled.end() ? key_of_name(name) : scaled->first);
    }
  }

  const YamlSetting* find(const std::string& key) const {
    auto it = values_.find(key);
    return it == values_.end() ? nullptr : it->second;
  }

  // Returns "file:12" for a key in the expression, for a message; a given one if there is any.
  std::string place_of(const std::string& expression) const {
    std::string place = from_.file;
    std::set<std::string> keys;
    note_read(expression, keys);
    for (const bool given : {false, true})
      for (const std::string& key : keys)
        if (const YamlSetting* setting = find(key); setting && is_given(key) == given)
          place = setting->where;
    return place;
  }

  std::string compute(const std::string& expression) const {
    for (const std::string& name : names_in(expression))
      if (!variables_.has(name))
        throw UserError(ExitCode::usage,
                        {from_.file, fmt::format("'{}' is missing", key_of_name(name)), {kInBase}});
    try {
      return variables_.json(expression, fmt::format("{}: {}", kTableName, expression));
    } catch (const UserError& error) {
      std::set<std::string> keys;
      note_read(expression, keys);
      throw UserError(ExitCode::usage,
                      {place_of(expression),
                       fmt::format("cannot be converted: {}", error.text().what),
                       {fmt::format("the value is computed from {}", fmt::join(keys, ", "))}});
    }
  }
  bool is_true(const std::string& expression) const {
    return compute("true if " + expression + " else false") == "true";
  }

  void refuse(const TextRows& rows) {
    for (const auto& [expression, text] : rows)
      if (is_true(expression)) problems_.add({place_of(expression), text, {}});
  }

  std::set<std::string> known_keys() const {
    std::set<std::string> known;
    for (const auto& [key, value] : table_.kept) known.insert(key);
    for (const auto& [key, value] : table_.absent) known.insert(key);
    for (const YamlSetting& setting : from_.base) known.insert(setting.key);
    known.insert(read_.begin(), read_.end());
    return known;
  }

  void refuse_unknown_keys() {
    const std::set<std::string> known = known_keys();
    const std::vector<std::string> names(known.begin(), known.end());
    for (const YamlSetting& setting : from_.given) {
      if (known.contains(setting.key) || table_.reason_to_ignore(setting.key)) continue;
      const std::string nearest = nearest_name(setting.key, names);
      problems_.add({setting.where,
                     fmt::format("unknown key '{}'", setting.key),
                     {nearest.empty() ? "base.yml has no such key"
                                      : fmt::format("did you mean '{}'?", nearest)}});
    }
  }

  // Returns the reason why a key that the block does not read must keep its value.
  std::string reason_to_keep(const std::string& key) const {
    const bool elsewhere = std::ranges::any_of(
        table_.blocks, [&](const auto& row) { return keys_of(row.second).contains(key); });
    if (!elsewhere) return "lamina supports no other value";
    return std::ranges::find(table_.of_all_blocks, key) == table_.of_all_blocks.end()
               ? "MaxText's block does not read it"
               : "no family supports it for this block";
  }

  // Keys that the block does not read must have the values that are valid for every block.
  void refuse_other_values() {
    for (const auto& [key, setting] : values_) {
      if (read_.contains(key)) continue;
      const Value* right = table_.find_kept(key);
      if (!right && table_.reason_to_ignore(key)) continue;
      if (right && same(*right, setting->value)) continue;
      if (right)
        problems_.add(
            {setting->where,
             fmt::format("'{}' must be {} with decoder_block = {}, got {}; {}", key,
                         config::to_toml(*right), config::to_toml(find("decoder_block")->value),
                         config::to_toml(setting->value), reason_to_keep(key)),
             {}});
      else if (!is_of_base(key))
        continue;  // refused as unknown
      else if (is_given(key))
        problems_.add({setting->where,
                       fmt::format("'{}' is unknown to lamina", key),
                       {fmt::format("it is newer than {}", kTableName)}});
      else
        unknown_.push_back(key);
    }
  }

  bool is_given(std::string_view key) const { return has(from_.given, key); }
  bool is_of_base(std::string_view key) const { return has(from_.base, key); }
  static bool has(const std::vector<YamlSetting>& settings, std::string_view key) {
    return std::ranges::any_of(settings, [&](const YamlSetting& s) { return s.key == key; });
  }

  // Returns nothing if the expression is null.
  std::optional<Value> value_of(const std::string& expression) const {
    const std::string json = compute(expression);
    return json == "null" ? std::nullopt : std::optional(value_of_json(json));
  }

  void write() {
    RunText text(fmt::format("# {}, read by `lamina config import`.\nfamily = {}\n", from_.name,
                             compute(block_->family)));
    std::set<std::string> written;
    for (const Part* part : parts_)
      for (const auto& [key, expression] : part->model)
        if (written.insert(key).second)
          if (const auto value = value_of(expression)) {
            text.add("model", key, *value);
            expressions_.emplace(fmt::format("model.{}", key), expression);
          }
    for (const auto& [key, expression] : table_.run)
      if (const auto value = value_of(expression)) {
        const std::size_t dot = key.find('.');
        text.add(key.substr(0, dot), key.substr(dot + 1), *value);
        expressions_.emplace(key, expression);
      }
    write_tags(text);
    write_groups(text, table_.first_groups);
    for (const Part* part : parts_) write_groups(text, part->groups);
    write_groups(text, table_.groups);
    out_.toml = text.finish();
  }

  void write_tags(RunText& text) {
    if (!is_true(table_.tags_when)) return;
    for (const std::string& tag : table_.tags)
      if (const YamlSetting* setting = find(tag); setting && setting->value != Value("remat")) {
        text.add(table_.tags_section, tag, setting->value);
        expressions_.emplace(fmt::format("{}.{}", table_.tags_section, tag), tag);
      }
  }

  void write_groups(RunText& text, const TextRows& groups) const {
    for (const auto& [name, expression] : groups)
      if (const auto group = value_of(expression))
        text.add_table("optimizer.groups", std::get<config::Members>(group->data));
  }

  void say_notes(const TextRows& notes) {
    for (const auto& [expression, text] : notes)
      if (is_true(expression)) out_.said.push_back(text);
  }

  void say() {
    say_notes(table_.notes);
    for (const Part* part : parts_) say_notes(part->notes);
    for (const auto& [key, reason] : block_->missing)
      if (is_given(key)) out_.said.push_back(fmt::format("{}: {}", key, reason));
    std::map<std::string, std::set<std::string>> ignored;
    for (const YamlSetting& setting : from_.given)
      if (const std::string* reason = table_.reason_to_ignore(setting.key);
          reason && !read_.contains(setting.key) && !table_.find_kept(setting.key))
        ignored[*reason].insert(setting.key);
    for (const std::string& key : block_->unread)
      if (is_given(key)) ignored["decoder_block does not read it"].insert(key);
    for (const auto& [reason, keys] : ignored)
      out_.said.push_back(fmt::format("{}: not carried over: {}", fmt::join(keys, ", "), reason));
    if (!unknown_.empty())
      out_.said.push_back(
          fmt::format("{}: in base.yml, unknown to lamina and left at its value "
                      "there",
                      fmt::join(unknown_, ", ")));
  }

  const Configuration& from_;
  const KeyTable& table_ = key_table();
  std::map<std::string, const YamlSetting*> values_;
  ExpressionVariables variables_;
  const TableBlock* block_ = nullptr;
  std::vector<const Part*> parts_;
  std::set<std::string> read_;
  std::vector<std::string> unknown_;
  std::map<std::string, std::string> expressions_;  // by the key of the run file
  config::Problems problems_;
  Imported out_;
};

// Replaces the place `from`, which ends with the number of a line.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos;) {
    const std::size_t end = at + from.size();
    const bool is_whole =
        end == text.size() || !std::isdigit(static_cast<unsigned char>(text[end]));
    if (is_whole) text.replace(at, from.size(), to);
    at += is_whole ? to.size() : from.size();
  }
  return text;
}

}  // namespace

void fail_at_settings(const UserError& error, const Imported& imported) {
  ErrorText text = error.text();
  for (const auto& [from, to] : imported.places) {
    text.where = replaced(text.where, from, to);
    text.what = replaced(text.what, from, to);
    for (std::string& note : text.notes) note = replaced(note, from, to);
  }
  throw UserError(error.code(), std::move(text));
}

Imported import_run(const Configuration& configuration) { return Importer(configuration).import(); }

}  // namespace lamina::imports
