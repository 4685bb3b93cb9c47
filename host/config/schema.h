// A schema is a list of declared keys; resolving raw values against it gives final values.
#pragma once

#include <string>
#include <vector>

#include "config/key.h"
#include "config/raw.h"

namespace lamina::config {

// The keys of one [table] of a run file. name "" is the top of the file.
struct Section {
  std::string name;
  std::string doc;
  std::vector<Key> keys;
  bool open = false;  // true: keys that are not declared here belong to someone else ([model])
};

struct Schema {
  std::vector<Section> sections;

  // nullptr when there is no such key. `dotted` is "train.steps", or "family" for a key of "".
  // A key with any_name is found under every name that has no declaration.
  const Key* find(std::string_view dotted) const;
  std::vector<std::string> key_names() const;  // of keys with names of their own
};

// Whether `name` is the key's own (without the section's), or one of its aliases.
bool is_called(const Key& key, std::string_view name);

// "train.steps", or the key's own name in the section "".
std::string dotted_name(const Section& section, const Key& key);

struct Resolved {
  Table values;                  // of declared keys, in order of declaration
  Raw rest;                      // what open sections hold beside their keys, with whole names
  std::vector<RawEntry> unread;  // entries of JSON files that no key reads
};

// Applies the layers of `raw` to the declared keys. `where` replaces the file in messages about
// missing keys. One UserError (exit 2) reports everything that is wrong: unknown keys and sections
// with the nearest right name, wrong types, values out of range, keys given twice under two names,
// missing required keys. Unknown keys of JSON files are not errors; they are listed in `unread`.
Resolved resolve(const Schema& schema, const Raw& raw, const std::string& where);

// Likewise for the [model] keys that a plugin declares. The keys of `raw` are "model.hidden_size";
// `keys` and the result have them without "model.".
Resolved resolve_model(const std::vector<Key>& keys, const Raw& raw, const std::string& where);

// Collects everything that is wrong before throwing one error: the first as the error, the others
// as its notes, each starting with "also: ".
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
