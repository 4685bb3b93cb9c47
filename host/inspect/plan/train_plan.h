// What a run will take before it runs: memory and disk; and settings with which it fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/run_config.h"
#include "inspect/plan/model_plan.h"

namespace lamina::inspect {

// The second model of a run's task, as its directory describes it; null where there is none.
using TeacherOfPlan = std::shared_ptr<const decoder::Model>;

// What a plan is asked for a run. Throws UserError (exit 2) as train::remat_policy() does.
PlanOptions plan_options(const config::RunConfig& run, const decoder::Model& model,
                         const TeacherOfPlan& teacher);

struct TrainPlan {
  TrainMemory memory;
  std::size_t step_bytes = 0;         // temporaries of a training step
  std::size_t validation_bytes = 0;   // of a validation; 0 where there is none
  std::int64_t checkpoint_bytes = 0;  // masters and states of the optimizer
  std::int64_t num_checkpoints = 0;   // on the disk at once, with the one that is written

  std::size_t memory_bytes() const { return memory.total() + step_bytes + validation_bytes; }
};

// Of the run as it is set. REQUIRES: set_learning(model, run).
TrainPlan plan_training(const decoder::Model& model, const config::RunConfig& run,
                        const Backend& backend, const TeacherOfPlan& teacher = nullptr);

// Settings of a run, and what it takes with them.
struct Fit {
  std::int64_t microbatch_size = 0;  // rows
  std::int64_t microbatches = 0;     // whose gradients are added up
  std::string remat;                 // the policy
  bool async_checkpoints = true;
  std::size_t memory_bytes = 0;
  double recomputed_flops_per_token = 0;
};

struct FitResult {
  std::optional<Fit> fit;          // nothing where none fits
  std::size_t smallest_bytes = 0;  // what the most frugal settings take
};

// The settings that compute least again of those that take at most `memory_bytes`, of these the
// ones with the largest microbatch; the batch stays as it is. Training waits for its checkpoints
// only where nothing fits otherwise. REQUIRES: set_learning(model, run).
FitResult fit_training(const decoder::Model& model, const config::RunConfig& run,
                       std::size_t memory_bytes, const Backend& backend,
                       const TeacherOfPlan& teacher = nullptr);

}  // namespace lamina::inspect
