// A checkpoint: everything that a run needs to continue, in one directory that appears whole.
//
//   model.safetensors      parameters by our names, f32; frozen ones as TrainState keeps them
//                          (sharded when large)
//   optimizer.safetensors  state of the optimizer: "m.<parameter>", "v.<parameter>", ...
//   ema.safetensors        the moving average of the weights, with train.ema: f32, by our names
//   reference.bin          log-probabilities by the first weights, if the task compares with them
//   model.toml             family and [model], so that decoding needs nothing else
//   run.toml               the resolved run file
//   tokenizer and other side files of train.from, such as generation_config.json
//   adapter_config.json, adapter_model.safetensors   the adapter in PEFT's format, with [lora]
//   published.json         the form of train.from, if that is a published directory
//   manifest.json          sizes and checksums of all files, step and data cursor; written last
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/workers.h"
#include "data/dataset.h"
#include "decoder/model.h"
#include "text/tokenizer.h"
#include "train/loop/spikes.h"
#include "train/optimizer/train_state.h"

namespace lamina::train {

class Snapshot;

// Contents of a checkpoint beside tensors.
struct Progress {
  std::int64_t step = 0;  // optimizer steps done
  data::DataCursor cursor;
  std::string data_fingerprint;
  std::uint64_t num_tokens = 0;  // counted labels trained on so far
  SpikeHistory spikes;
  std::optional<double> validation_loss = {};  // after this step, if it was validated
  std::uint64_t validation_rows = 0;           // of that validation
  bool samples_due = false;                    // a signal cut the samples of this step
};

// A file that is copied to checkpoints unchanged, by its name there.
struct SideFile {
  std::string name, bytes;
};

struct CheckpointContents {
  const decoder::Model& model;
  const TrainState& state;
  const text::Tokenizer& tokenizer;
  std::string run_file;    // text of run.toml
  std::string model_file;  // text of model.toml
  // A tokenizer here replaces all of `tokenizer`'s files, another file the one of its name.
  std::span<const SideFile> side_files = {};
  Snapshot* snapshot = nullptr;  // of `state`, if training continues meanwhile
  // Called before anything is written and again before the checkpoint gets its name; may throw.
  std::function<void()> guard = {};
};

// Writes `path`, which must not exist: under another name, synced, then renamed. Leaves nothing
// under that name on failure. Throws DeviceError (exit 4), eg for a full disk, and NumericalError
// (exit 3) if a weight that training changed, or its average, is not finite.
void save_checkpoint(const std::string& path, const CheckpointContents& contents,
                     const Progress& progress);

// Compares everything except the values of tensors with the manifest, which is quick. Throws
// io::Damaged, naming the file, and UserError (exit 4) for a manifest of a later version.
void check_structure(const std::string& path);

// Reads the progress alone. Throws UserError (exit 4) if the manifest is missing or damaged.
Progress read_progress(const std::string& path);

// Reads parameters and moments into `state` and refreshes the copies; compares every byte with the
// manifest while reading. Throws io::Damaged, naming file and tensor, which leaves `state` partly
// loaded, and UserError (exit 4) if the tensors do not match the model.
Progress load_checkpoint(const std::string& path, const decoder::Model& model, TrainState& state,
                         const Workers& workers = {});

// Removes all but the newest `keep` checkpoints of a run and, with `keep_best`, the best one; 0
// keeps all. Keeps those that may be the best one, too. Continues after one that is kept for that
// reason or cannot be removed, and returns the error of each. REQUIRES: no checkpoint is being
// written.
std::vector<std::string> remove_old_checkpoints(const std::string& run, std::int64_t keep,
                                                bool keep_best);

// Returns the result of `read`, which parses a file that training wrote. No user wrote it, so a
// mistake in it is damage: throws UserError of class checkpoint (exit 4) for it.
template <typename Read>
auto as_damage(Read read) {
  try {
    return read();
  } catch (const UserError& error) {
    if (error.code() != ExitCode::usage) throw;
    ErrorText text = error.text();
    text.notes.emplace_back(
        "training wrote this file, so it is damaged or was changed: `lamina ckpt verify` checks");
    throw UserError(ExitCode::checkpoint, std::move(text));
  }
}

}  // namespace lamina::train
