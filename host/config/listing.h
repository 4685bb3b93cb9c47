// Prints final values and declared keys: the resolved config of a run, and the reference page.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"

namespace lamina::config {

// Lists every final value of the run in the order of declaration, including [model]. `model` is the
// result of resolve_model() for c.model; without it the model's values are listed as given. Absent
// keys and those without effect (Key::only_for) are omitted.
std::vector<Entry> list_values(const RunConfig& c, const Table* model = nullptr);

// Prints TOML with a comment after each value that gives its origin.
std::string to_toml(const std::vector<Entry>& values);

// {"train.steps": {"value": 40, "origin": "run.toml:7"}, ...} and a line feed.
std::string to_json(const std::vector<Entry>& values);

// Returns the run file for the run directory: complete, with its model inline and absolute paths,
// so that it gives the same run from any directory. `family` and `model` are the plugin's resolved
// values.
std::string resolved_run_file(const RunConfig& c, const std::string& family, const Table& model);

// A value that differs between two configs of a run. A key that only one of them has counts as
// different, except hot keys of [model], which have their default. A run without a
// train.microbatch_size may continue with any. `moved`: both have the same run directory, so a path
// may also have moved together with it.
struct Difference {
  std::string key;
  std::string before;  // as TOML, or "the default"; "" when absent
  std::string now;
  bool hot = false;  // true: the key may differ between parts of a run
};
std::vector<Difference> differences(const RunConfig& before, const RunConfig& now,
                                    bool moved = false);

// Returns the reference page of all sections, in Markdown.
std::string reference_page(const Schema& schema);

// Returns the default as help shows it: 1000, "byte", none, or how it is computed.
std::string preset_text(const Key& key);

}  // namespace lamina::config
