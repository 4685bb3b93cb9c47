// A checkpoint: everything that a run needs to go on, in one directory that appears whole.
//
//   model.safetensors      parameters by our names, f32; frozen ones as TrainState keeps them
//                          (sharded when large)
//   optimizer.safetensors  what the optimizer keeps: "m.<parameter>", "v.<parameter>", ...
//   ema.safetensors        the moving average of what learns, with train.ema: f32, by our names
//   reference.bin          what the task compares with: log-probabilities by the first weights
//   model.toml             family and [model], so that decoding needs nothing else
//   run.toml               the resolved run file
//   tokenizer files, and what else of train.from goes along, such as generation_config.json
//   adapter_config.json, adapter_model.safetensors   the adapter as PEFT has it, with [lora]
//   published.json         the form of train.from, where that is a published directory
//   manifest.json          sizes and checksums of all that, step and data cursor; written last
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

// What a checkpoint knows beside tensors.
struct Progress {
  std::int64_t step = 0;  // optimizer steps done
  data::DataCursor cursor;
  std::string data_fingerprint;
  std::uint64_t num_tokens = 0;  // counted labels trained on so far
  SpikeHistory spikes;
  std::optional<double> validation_loss = {};  // after this step, where it was validated
};

// A file that goes along unchanged, by its name in the checkpoint.
struct SideFile {
  std::string name, bytes;
};

struct CheckpointContents {
  const decoder::Model& model;
  const TrainState& state;
  const text::Tokenizer& tokenizer;
  std::string run_file;                       // text of run.toml
  std::string model_file;                     // text of model.toml
  std::span<const SideFile> side_files = {};  // those of a tokenizer go before its own
  Snapshot* snapshot = nullptr;               // of `state`, where training goes on meanwhile
  // Asked before anything is made and again before the checkpoint gets its name; may throw.
  std::function<void()> guard = {};
};

// Writes `path`, which must not exist: beside it, synced, then renamed. On failure nothing is left
// under that name: a full disk is a DeviceError, exit 4; a weight that training made, or its
// average, which is not finite is a NumericalError, exit 3.
void save_checkpoint(const std::string& path, const CheckpointContents& contents,
                     const Progress& progress);

// Compares everything but the values of tensors with the manifest, so it takes no time. Throws
// io::Damaged, naming the file; UserError, exit 4, for a manifest of a later version.
void check_structure(const std::string& path);

// Reads parameters and moments into `state` (copies refreshed) and compares every byte with the
// manifest while it is read. Throws io::Damaged, naming file and tensor: the state then holds
// something in between. UserError, exit 4, where the tensors are not those of the model.
Progress load_checkpoint(const std::string& path, const decoder::Model& model, TrainState& state,
                         const Workers& workers = {});

// Removes all but the newest `keep` checkpoints of a run and, with `keep_best`, the best one; 0
// keeps all. Goes on after one that cannot be removed, and returns what was wrong with each.
// REQUIRES: no checkpoint is being written.
std::vector<std::string> remove_old_checkpoints(const std::string& run, std::int64_t keep,
                                                bool keep_best);

// What `read` returns. A mistake in what it reads, a file that training wrote, is damage: nobody
// wrote it by hand. Throws UserError (exit 4) for it.
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
