// A run file's run, prepared as by `lamina train`, and its training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/backend.h"
#include "model/training.h"
#include "support/models.h"
#include "train/loop/run_directory.h"

namespace lamina::testing {

//   RunOfFile run(folder.write("run.toml", text), {"train.steps=4"});
//   run.train(2);
struct RunOfFile {
  config::RunConfig config;
  model::Training training;
  std::unique_ptr<train::Run> run;

  // `group`: several devices; `backend` is the first one's.
  explicit RunOfFile(const std::string& file, const std::vector<std::string>& sets = {},
                     const Backend& backend = cpu::cpu_backend(),
                     CommunicatorGroup* group = nullptr)
      : config(load(file, sets, group)),
        training(model::open_training(config, built_plugins(),
                                      train::likely_checkpoint("auto", config.run.out),
                                      backends_of(backend, group))),
        run(std::make_unique<train::Run>(config, *training.model, "auto", backend,
                                         data::LoadHooks{}, std::move(training.inherited), group)) {
    run->resumption().set_aside();
    run->start();
  }

  // Trains to the last step, or until this many are done; writes a checkpoint at the end.
  train::LoopResult train(std::int64_t stop_after = 1000) {
    train::LoopEvents events;
    events.should_stop = [&] { return run->loop().progress().step >= stop_after; };
    return run->loop().run(events);
  }
  // Returns the results of all steps.
  std::vector<train::StepResult> steps() {
    std::vector<train::StepResult> out;
    train::LoopEvents events;
    events.step = [&](const train::LoopEvents::Step& step) { out.push_back(step.result); };
    run->loop().run(events);
    return out;
  }
  std::string checkpoint() const { return train::newest_checkpoint(config.run.out); }

 private:
  static std::vector<const Backend*> backends_of(const Backend& first,
                                                 const CommunicatorGroup* group) {
    std::vector<const Backend*> out{&first};
    for (int i = 1; group && i < group->size(); ++i)
      out.push_back(&group->ranks[static_cast<std::size_t>(i)]->backend());
    return out;
  }
  static config::RunConfig load(const std::string& file, const std::vector<std::string>& sets,
                                const CommunicatorGroup* group) {
    config::RunConfig out = config::load_run(file, {sets, {}});
    if (group) train::share_among(out, group->size());
    return out;
  }
};

}  // namespace lamina::testing
