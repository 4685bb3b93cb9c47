// Final values and declared keys as text: the resolved config of a run, and the reference page.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"

namespace lamina::config {

// Every final value of the run in the order of their declarations, [model] included. `model` is
// what resolve_model() made of c.model; without it the model's values are listed as they were
// given. Keys that are absent are left out.
std::vector<Entry> list_values(const RunConfig& c, const Table* model = nullptr);

// TOML with a comment after each value that says where it came from.
std::string to_toml(const std::vector<Entry>& values);

// {"train.steps": {"value": 40, "origin": "run.toml:7"}, ...} and a line feed.
std::string to_json(const std::vector<Entry>& values);

// The run file for the run directory: complete, with its model inline and absolute paths, so that
// loading it from anywhere gives the same run. `family` and `model` are what the plugin resolved.
std::string resolved_run_file(const RunConfig& c, const std::string& family, const Table& model);

// What a resumed run changes. Keys that only one of them has count as changed.
struct Difference {
  std::string key;
  std::string before;  // as TOML; "" when absent
  std::string now;
  bool hot = false;  // true: the key may differ between parts of a run
};
std::vector<Difference> differences(const RunConfig& before, const RunConfig& now);

// The reference page of all sections, in Markdown.
std::string reference_page(const Schema& schema);

// The default as help shows it: 1000, "byte", none, or how it is computed.
std::string preset_text(const Key& key);

}  // namespace lamina::config
