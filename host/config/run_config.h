// Run files: one struct per section, and functions that load them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/fields.h"
#include "config/raw.h"
#include "config/schema.h"
#include "config/sections.h"

namespace lamina::config {

const Fields<RunSection>& run_fields();
const Fields<DataSection>& data_fields();
const Fields<TrainSection>& train_fields();
const Fields<LoraSection>& lora_fields();
const Fields<PreferenceSection>& preference_fields();
const Fields<DistillationSection>& distillation_fields();
const Fields<OptimizerSection>& optimizer_fields();
const Fields<ScheduleSection>& schedule_fields();
const Fields<CheckpointSection>& checkpoint_fields();

// A model before its plugin has read it.
struct ModelSource {
  std::string path;        // as given: an HF directory, a .toml or a .json file; "" when inline
  std::string where;       // the file for messages about missing keys
  std::string family;      // "" if model_type and architectures determine it; see kOwnFamily
  std::string model_type;  // of a config.json
  std::string text_model_type;             // of its text_config, see wrapper.h
  std::vector<std::string> architectures;  // of a config.json
  Raw raw;  // keys "model.<name>", lowest layer first: give it to resolve_model()
  std::string family_where = {};  // the place of `family`: a line of a file, or an option
};

struct RunConfig {
  std::filesystem::path file;
  RunSection run;
  DataSection data;
  TrainSection train;
  LoraSection lora;
  PreferenceSection preference;  // for data.form = "preference"
  DistillationSection distillation;
  OptimizerSection optimizer;
  ScheduleSection schedule;
  CheckpointSection checkpoint;
  ModelSource model;
  Table values;  // every final value with its origin, except [model]
};

// Returns whether `path` is a run file: a .toml with anything but `family` and [model], or
// with the path of a model.
bool is_run_file(const std::filesystem::path& path);

// "run.toml:7: train.steps". REQUIRES: the config outlives it.
KeyPlace place_in(const RunConfig& config);

// Every key of run files except those that a plugin declares.
const Schema& run_schema();

// A key that another option than --set sets. Errors name the option.
struct OptionSetting {
  std::string option;      // as typed, eg: "--kv-dtype int8"
  std::string assignment;  // "section.key=value"
};

// Values from outside the file. Precedence: file < environment < --set < other options.
struct Overrides {
  std::vector<std::string> sets;         // "section.key=value"
  std::vector<std::string> environment;  // "NAME=value", from process_environment()
  std::vector<OptionSetting> options = {};

  bool empty() const { return sets.empty() && environment.empty() && options.empty(); }
};

// Reads, resolves and cross-checks a run file. Relative paths in the file start at its folder,
// those in overrides at the current directory. Errors: exit 2, all mistakes in one error.
RunConfig load_run(const std::filesystem::path& path, const Overrides& overrides = {});

// Reads the run file of a run directory (resolved_run_file). Combinations of keys were checked when
// it was written. `run` is the absolute path of that directory now, to find paths that moved with
// it; "": they are as they were written.
RunConfig load_written_run(const std::filesystem::path& path, const std::string& run = {});

// Reads a run file from memory; `name` replaces its path in messages.
RunConfig parse_run(std::string_view text, const std::string& name);

// Checks the names of environment variables ("NAME=value"), and the keys and values of those that
// set a key of a run. Keys of [model] are checked by the functions above and below, which know the
// model. Errors: exit 2, as parse_environment().
void check_environment(const std::vector<std::string>& environment);

// Reads a model without a run: a .toml with `family` and [model], a config.json, or a directory
// that contains one. Overrides may set only keys of the model and "family", not "model" itself.
// Errors: exit 2; for JSON exit 4.
ModelSource load_model(const std::filesystem::path& path, const Overrides& overrides = {});

}  // namespace lamina::config
