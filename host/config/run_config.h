// A run file: one struct per section, and how to load it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/fields.h"
#include "config/raw.h"
#include "config/schema.h"
#include "core/dtype.h"

namespace lamina::config {

// What the run is called, where it writes, and what all of it shares.
struct RunSection {
  std::string name;  // never empty once loaded
  std::string out;   // the run directory; never empty once loaded
  std::uint64_t seed = 0;
  std::optional<int> threads;  // as many as the machine allows unless given
};

struct DataSection {
  std::vector<std::string> train;
  std::vector<std::string> validation;
  double validation_fraction = 0.0;
  std::string tokenizer = "byte";
  std::int64_t sequence_length = 512;
  std::string document_separator = "file";
  bool pack = true;
  bool shuffle = true;
};

struct TrainSection {
  std::int64_t steps = 1000;
  std::int64_t batch_size = 8;
  std::int64_t microbatch_size = 0;  // divides batch_size once loaded
  DType dtype = DType::f32;
  bool scan_layers = true;
  std::string remat = "none";
  std::map<std::string, std::string> remat_tags;  // [train.remat_tags]
  bool layer_metrics = false;
  double z_loss = 0.0;
  double clip_norm = 1.0;
  std::int64_t eval_every_steps = 100;
  std::int64_t eval_batches = 8;
  std::int64_t log_every_steps = 10;
};

struct OptimizerSection {
  std::string name = "adamw";
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool lazy_embeddings = false;
};

struct ScheduleSection {
  std::string kind = "cosine";
  std::int64_t warmup_steps = 0;
  double final_fraction = 0.1;
};

struct CheckpointSection {
  std::int64_t every_steps = 500;
  std::int64_t keep = 3;
};

const Fields<RunSection>& run_fields();
const Fields<DataSection>& data_fields();
const Fields<TrainSection>& train_fields();
const Fields<OptimizerSection>& optimizer_fields();
const Fields<ScheduleSection>& schedule_fields();
const Fields<CheckpointSection>& checkpoint_fields();

// What is known of a model before its plugin has read it.
struct ModelSource {
  std::string path;        // as given: an HF directory, a .toml or a .json file; "" when inline
  std::string where;       // the file for messages about missing keys
  std::string family;      // "" when only model_type and architectures can tell
  std::string model_type;  // of a config.json
  std::string text_model_type;             // of its text_config, see wrapper.h
  std::vector<std::string> architectures;  // of a config.json
  Raw raw;  // keys "model.<name>", lowest layer first: give it to resolve_model()
};

struct RunConfig {
  std::filesystem::path file;
  RunSection run;
  DataSection data;
  TrainSection train;
  OptimizerSection optimizer;
  ScheduleSection schedule;
  CheckpointSection checkpoint;
  ModelSource model;
  Table values;  // every final value with its origin, [model] aside
};

// Every key of run files except those that a plugin declares.
const Schema& run_schema();

// What changes values from outside the file. Precedence: file < environment < --set.
struct Overrides {
  std::vector<std::string> sets;         // "section.key=value"
  std::vector<std::string> environment;  // "NAME=value", from process_environment()
};

// Reads, resolves and cross-checks a run file. Relative paths in the file start at its folder,
// those of overrides at the current directory. Errors: exit 2, every mistake at once.
RunConfig load_run(const std::filesystem::path& path, const Overrides& overrides = {});

// A run file from memory; `name` replaces its path in messages.
RunConfig parse_run(std::string_view text, const std::string& name);

// Reads a model alone: a .toml with `family` and [model], a config.json, or a directory that holds
// one. Only overrides of "model.*" and "family" are allowed. Errors: exit 2; for JSON exit 4.
ModelSource load_model(const std::filesystem::path& path, const Overrides& overrides = {});

}  // namespace lamina::config
