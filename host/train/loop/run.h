// A training run, made ready from its run file: data read, state made or loaded.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "core/error.h"
#include "data/find_files.h"
#include "data/load.h"
#include "io/directory_lock.h"
#include "runtime/communicator.h"
#include "train/loop/loop.h"
#include "train/loop/resumption.h"

namespace lamina::train {

// Returns the options of the loop from a run file, for `num_ranks` devices that share each step:
// share_among() was called for several. REQUIRES: `run` outlives them.
LoopOptions loop_options(const config::RunConfig& run, int num_ranks = 1);

// Returns [data] with the tokenizer and the chat template of `inherited`, unless that is "": the
// directory of the files that train.from or a checkpoint gives to the run.
config::DataSection data_section(const config::RunConfig& run, const std::string& inherited);

// Returns the text of an error about a path in [data], with the key that names it, its file and
// line.
ErrorText with_place(const config::RunConfig& run, const data::NoFiles& error);

// Calls `read`, which finds the files of [data], and adds the place to its errors.
template <typename Read>
auto with_data_places(const config::RunConfig& run, const Read& read) {
  try {
    return read();
  } catch (const data::NoFiles& error) {
    throw UserError(ExitCode::data, with_place(run, error));
  }
}

// Adapts a run file to a run on `num_ranks` devices, each of which runs the same number of
// microbatches: train.microbatch_size is by default the share of one device. Throws UserError (exit
// 2) at the key if they cannot share the batch.
void share_among(config::RunConfig& run, int num_ranks);

// Returns the final values of [model], without the keys that only config.json may have.
config::Table model_values(const decoder::Model& model);

// Sets how the parameters of the model learn in this run; see parameter_groups.h.
void set_learning(decoder::Model& model, const config::RunConfig& run);

// Throws UserError if Run would refuse `resume` (Resumption). Changes nothing.
void check_resume(const config::RunConfig& run, const decoder::Model& model,
                  const std::string& resume);

// Throws UserError (exit 2) if the tokenizer has more ids than the model has rows.
void check_vocabulary(const text::Tokenizer& tokenizer, const decoder::Model& model,
                      const config::RunConfig& run);

// Contents of train.from, or of the checkpoint that a run resumes.
struct Inherited {
  std::unique_ptr<StartWeights> weights;  // null if it resumes a checkpoint
  std::string summary;                    // of the weights, for people
  std::string directory;                  // of the tokenizer, unless data.tokenizer is another
  std::vector<SideFile> files;            // copied to every checkpoint
  std::vector<TeacherModel> teachers;     // of [distillation]: one per device
};

//   Run run(config, model, "auto", backend);
//   run.start();
//   run.loop().run({});
class Run {
 public:
  // Takes the lock of the run directory and changes nothing else in it; adds missing stores to
  // data.store. `resume` as in Resumption. Calls `hooks.between` between the parts, too. Throws
  // UserError for every reason to refuse the run. With a group of several devices, `backend` is
  // the backend of rank 0. REQUIRES: config, model, backend and group outlive this, and
  // share_among() was called for a group.
  Run(const config::RunConfig& config, const decoder::Model& model, const std::string& resume,
      const Backend& backend, const data::LoadHooks& hooks = {}, Inherited inherited = {},
      CommunicatorGroup* group = nullptr);

  Loop& loop() { return *loop_; }
  const data::RunData& data() const { return *data_; }
  const RematPolicy& remat() const { return remat_; }
  const Resumption& resumption() const { return *resumption_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const io::DirectoryLock& lock() const { return *lock_; }
  // Throws UserError of class checkpoint if the run directory was moved or replaced. If it was
  // removed, makes it and the log again, with a warning. Call it before each write by name. [any
  // thread]
  void check_directory();
  const Inherited& inherited() const { return inherited_; }

  // Makes the run directory ready to be written: removes leftovers, writes config.toml of this run.
  // REQUIRES: resumption().set_aside() was called.
  void start() const;

 private:
  Inherited inherited_;
  LoopOptions options_;
  RematPolicy remat_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<io::DirectoryLock> lock_;
  std::string run_file_;
  std::optional<Resumption> resumption_;
  std::optional<data::RunData> data_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace lamina::train
