// The sections of a run file, one struct per part of a run. A part includes this header, never the
// whole run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace lamina::config {

inline constexpr double kMaxSteps = 1e12;  // limit of keys that count optimizer steps

// Returns the origin of a key's value, for messages: "run.toml:7: train.remat".
using KeyPlace = std::function<std::string(std::string_view key)>;

// Name, run directory and settings shared by all parts.
struct RunSection {
  std::string name;  // never empty once loaded
  std::string out;   // the run directory; never empty once loaded
  std::uint64_t seed = 0;
  std::optional<int> threads;  // absent: all available cores
};

struct DataSection {
  std::vector<std::string> train;
  std::vector<double> weights;  // empty, or one for each entry of train
  std::vector<std::string> validation;
  double validation_fraction = 0.0;
  std::string form = "text";
  std::string field = "text";
  std::string loss_on = "assistant";
  std::optional<std::string> chat_template;
  std::string thinking = "keep";
  std::string bad_records = "stop";
  std::string store;  // a folder or "none"; "" before loading means "none"
  std::string tokenizer = "byte";
  std::int64_t sequence_length = 512;
  std::string document_separator = "file";
  bool pack = true;
  bool shuffle = true;
  bool shuffle_documents = false;
};

struct TrainSection {
  std::string from;                         // a directory or GGUF file; "": fresh weights
  std::vector<std::string> fresh;           // patterns of tensors that are missing in `from`
  std::string quantize;                     // a format of frozen matrices; "": as in `from`
  std::vector<std::string> quantize_rules;  // "PATTERN=FORMAT"
  std::int64_t steps = 1000;
  std::int64_t batch_size = 8;
  std::int64_t microbatch_size = 0;  // divides batch_size once loaded
  DType dtype = DType::f32;
  bool scan_layers = true;
  std::string remat = "none";
  std::map<std::string, std::string> remat_tags;  // [train.remat_tags]
  bool layer_metrics = false;
  bool tensorboard = false;
  double z_loss = 0.0;
  double label_smoothing = 0.0;
  double ema = 0.0;                    // decay; 0: none is kept
  std::string eval_weights = "model";  // or "ema"
  double clip_norm = 1.0;
  bool clip_each = false;
  double skip_spikes = 0.0;
  std::int64_t spike_window = 128;
  std::int64_t eval_every_steps = 100;
  std::optional<std::int64_t> eval_batches;  // of batch_size rows; absent: all rows
  std::int64_t sample_every_steps = 0;
  std::vector<std::string> sample_prompts = {""};
  std::int64_t sample_tokens = 64;
  double sample_temperature = 0.8;
  std::int64_t log_every_steps = 10;
};

// One of [[optimizer.groups]]: the parameters, and their settings.
struct ParameterGroup {
  std::optional<std::string> match, group, role;
  std::optional<bool> frozen;
  std::optional<double> lr_scale, multiplier, weight_decay;
  std::vector<std::int64_t> split_rows;
};

struct OptimizerSection {
  std::string name = "adamw";
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double eps_root = 0.0;
  double weight_decay = 0.1;
  std::optional<double> momentum;  // see used_momentum()
  std::optional<double> consistent_rms;
  std::int64_t newton_schulz_steps = 5, newton_schulz_stable_steps = 0;
  std::string moments = "float32";
  bool lazy_embeddings = false;
  bool in_backward = false;
  bool offload = false;                // state in host memory
  double qk_clip = 0.0;                // threshold of logits; 0: none
  std::string qk_clip_over = "layer";  // or "stack"
  std::vector<ParameterGroup> groups;  // the first that matches a parameter applies

  double used_momentum() const { return momentum.value_or(name == "muon" ? 0.95 : 0.0); }
};

struct LoraSection {
  std::int64_t rank = 0;  // 0: no adapter
  double alpha = 0;       // set once loaded
  std::vector<std::string> target_modules = {"all-linear"};
  double dropout = 0;
  bool rslora = false;
  bool use_dora = false;
};

struct PreferenceSection {
  std::string loss = "dpo";
  double beta = 0.1;
  double label_smoothing = 0.0;
};

struct DistillationSection {
  std::string teacher;  // in the forms of train.from; "": none
  double alpha = 0.5;
  double temperature = 1.0;
  std::int64_t top_k = 0;                  // 0: all
  std::vector<std::string> hidden_layers;  // see parse_layer_pair()
  double hidden_weight = 1.0;
  std::string hidden_loss = "mse";  // or "cosine"
  DType dtype = DType::bf16;
};

struct ScheduleSection {
  std::string kind = "cosine";
  std::int64_t warmup_steps = 0;
  double final_fraction = 0.1;
  std::optional<std::int64_t> steps;        // of the whole schedule; absent: the steps of the run
  std::optional<std::int64_t> decay_steps;  // for wsd; see used_decay_steps()
  std::string decay_shape = "linear";
  bool endpoints = false;

  // `num_steps`: of the whole schedule.
  std::int64_t used_decay_steps(std::int64_t num_steps) const {
    return decay_steps.value_or(std::max<std::int64_t>(1, num_steps / 10));
  }
};

struct CheckpointSection {
  std::int64_t every_steps = 500;
  std::int64_t keep = 3;
  bool keep_best = false;
  bool async = true;
};

}  // namespace lamina::config
