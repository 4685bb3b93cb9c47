// Schemas: lists of declared keys. Resolving raw values against a schema gives final values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/key.h"
#include "config/raw.h"

namespace lamina::config {

// The keys of one [table] of a run file. The name "" is the top of the file.
struct Section {
  std::string name;
  std::string doc;
  std::vector<Key> keys;
  bool open = false;  // true: other keys are allowed and returned unresolved ([model])
};

struct Schema {
  std::vector<Section> sections;

  // Returns nullptr if there is no such key. `dotted` is "train.steps", or "family" for a key of
  // the section "". A key with any_name matches every undeclared name.
  const Key* find(std::string_view dotted) const;
  std::vector<std::string> key_names() const;  // without keys that match any name
};

// Returns whether `name` is the key's name (without its section) or one of its aliases.
bool is_called(const Key& key, std::string_view name);

// Returns "train.steps", or the key's name alone in the section "".
std::string dotted_name(const Section& section, const Key& key);

struct Resolved {
  Table values;                  // of declared keys, in order of declaration
  Raw rest;                      // undeclared keys of open sections, with dotted names
  std::vector<RawEntry> unread;  // entries of JSON files that no key reads
  // By key: the other name under which a JSON file gives its value.
  std::map<std::string, std::string, std::less<>> names;
};

// Applies the layers of `raw` to the declared keys. `where` is the file in messages about missing
// keys. One UserError (exit 2) reports all mistakes: unknown keys and sections with the nearest
// valid name, wrong types, values out of range, keys given under two names, missing required keys.
// Unknown keys of JSON files are not errors; they are listed in `unread`.
Resolved resolve(const Schema& schema, const Raw& raw, const std::string& where);

// Returns the requirement (Key::only_for) without which the key has no effect under `values`, its
// own or one of the key that it requires; nullptr if there is none.
const Requirement* unmet_requirement(const Schema& schema, const Key& key, const Table& values);

// Resolves the [model] keys that a plugin declares. The keys of `raw` are "model.hidden_size";
// `keys` and the result omit "model.".
Resolved resolve_model(const std::vector<Key>& keys, const Raw& raw, const std::string& where);

// Collects all mistakes and throws one error: the first as the error, the others as its notes, each
// starting with "also: ".
class Problems {
 public:
  void add(ErrorText text) { texts_.push_back(std::move(text)); }
  bool empty() const { return texts_.empty(); }
  // Throws a UserError with exit code 2 unless empty.
  void raise() const;

 private:
  std::vector<ErrorText> texts_;
};

}  // namespace lamina::config
