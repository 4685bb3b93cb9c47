// The conversion table for keys of another program: configs/import/maxtext.toml, in memory.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/value.h"

namespace lamina::imports {

extern const char* const kTableName;  // for messages
extern const char* const kTableText;

// Names and texts in the order of the file.
using TextRows = std::vector<std::pair<std::string, std::string>>;

// A part of a block, or a block without its parts.
struct Part {
  TextRows model;    // our key: expression
  TextRows refused;  // expression that must be false: the error
  // Path of a module below decoder/: our name of it, "" if it cannot have an adapter, none if the
  // model lacks it.
  TextRows modules;
  TextRows groups;  // name for the reader: expression for one of [[optimizer.groups]], or null
  TextRows notes;   // expression: the note if it is true
};

struct TableBlock {
  std::string family;  // an expression
  std::vector<std::string> parts;
  Part own;
  std::vector<std::string> unread;
  TextRows missing;  // their key: the error if it is given
};

struct IgnoredKeys {
  std::string reason;
  std::vector<std::string> patterns;  // * matches any letters
};

struct KeyTable {
  std::vector<std::pair<std::string, std::int64_t>> scaled;
  TextRows absent, names, layers, run, refused, first_groups, groups, notes;
  std::string tags_when, tags_section;
  std::vector<std::string> tags;
  std::map<std::string, Part> parts;
  std::vector<std::pair<std::string, TableBlock>> blocks;
  std::vector<std::pair<std::string, config::Value>> kept;
  // Keys that MaxText reads in every block, also if no family here does.
  std::vector<std::string> of_all_blocks;
  std::vector<IgnoredKeys> ignored;

  // Returns nullptr if there is none.
  const TableBlock* find_block(std::string_view name) const;
  // Returns the block's parts in order, the block itself first. REQUIRES: a block of this table.
  std::vector<const Part*> parts_of(const TableBlock& block) const;
  // Returns the reason why the key has no effect here, or nullptr.
  const std::string* reason_to_ignore(std::string_view key) const;
  const config::Value* find_kept(std::string_view key) const;
};

// Errors (exit 2): an invalid section or form in the table.
const KeyTable& key_table();

// Returns whether `pattern`, in which * matches any letters, matches `key`.
bool matches(std::string_view pattern, std::string_view key);

}  // namespace lamina::imports
