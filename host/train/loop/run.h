// A training run as its run file asks for it, made ready: data read, state made or loaded.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/load.h"
#include "io/directory_lock.h"
#include "train/loop/loop.h"
#include "train/loop/resumption.h"

namespace lamina::train {

// What the loop is told of a run file. REQUIRES: `run` outlives it.
LoopOptions loop_options(const config::RunConfig& run);

// [data], with the tokenizer of train.from where that has it.
config::DataSection data_section(const config::RunConfig& run);

// Tells the model how the run trains its parameters; parameter_groups.h.
void set_learning(decoder::Model& model, const config::RunConfig& run);

// What a run takes over from train.from, or from the checkpoint that it goes on from.
struct Inherited {
  std::unique_ptr<StartWeights> weights;  // null where it goes on from a checkpoint
  std::string summary;                    // of the weights, for people
  std::string directory;                  // of the tokenizer, unless data.tokenizer is another
  std::vector<SideFile> files;            // that go along to every checkpoint
  std::optional<TeacherModel> teacher;    // of [distillation]
};

//   Run run(config, model, "auto", backend);
//   run.start();
//   run.loop().run({});
class Run {
 public:
  // Takes the run directory's lock and changes nothing else in it; data.store gets what is not
  // there yet. `resume` as in Resumption. `hooks.between` is called between the parts, too. Throws
  // UserError for whatever could refuse the run. REQUIRES: config, model and backend outlive this.
  Run(const config::RunConfig& config, const decoder::Model& model, const std::string& resume,
      const Backend& backend, const data::LoadHooks& hooks = {}, Inherited inherited = {});

  Loop& loop() { return *loop_; }
  const data::RunData& data() const { return *data_; }
  const RematPolicy& remat() const { return remat_; }
  const Resumption& resumption() const { return *resumption_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const io::DirectoryLock& lock() const { return *lock_; }
  // Throws UserError of class checkpoint where the run directory was moved or replaced; makes it
  // again, with a warning, where it was removed. Call it before each write by name. [any thread]
  void check_directory();
  const Inherited& inherited() const { return inherited_; }

  // Makes the run directory ready to be written: no leftovers, config.toml as the run is now.
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
