// Memory and disk that a run needs, computed before it runs; and settings with which it fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/run_config.h"
#include "inspect/plan/model_plan.h"

namespace lamina::inspect {

// The second model of a run's task, as its directory describes it; null if there is none.
using TeacherOfPlan = std::shared_ptr<const decoder::Model>;

// Returns the maximum number of checkpoints on the disk at once, including the one being written.
std::int64_t max_checkpoints(const config::RunConfig& run);

// The plan options of a run. Throws UserError (exit 2) as train::remat_policy() does.
// `num_ranks` devices share each step.
PlanOptions plan_options(const config::RunConfig& run, const decoder::Model& model,
                         const TeacherOfPlan& teacher, int num_ranks = 1);

struct TrainPlan {
  TrainMemory memory;
  std::size_t step_bytes = 0;         // of a training step's temporaries
  std::size_t step_host_bytes = 0;    // of its values in host memory
  std::size_t validation_bytes = 0;   // of a validation; 0 without one
  std::size_t transfer_bytes = 0;     // of inputs, losses and numbers of updates on the device
  std::int64_t checkpoint_bytes = 0;  // master weights and optimizer state
  std::int64_t num_checkpoints = 0;   // max_checkpoints()

  // In the memory of the device. The CPU has no host_bytes().
  std::size_t memory_bytes() const {
    return memory.total() + step_bytes + validation_bytes + transfer_bytes;
  }
  // In pinned host memory.
  std::size_t host_bytes() const { return memory.bytes.offloaded + step_host_bytes; }
};

// The plan of the run with its current settings, of each of `num_ranks` devices. REQUIRES:
// set_learning(model, run).
TrainPlan plan_training(const decoder::Model& model, const config::RunConfig& run,
                        const Backend& backend, const TeacherOfPlan& teacher = nullptr,
                        int num_ranks = 1);

// Settings of a run, and their cost.
struct Fit {
  std::int64_t microbatch_size = 0;  // rows of a device
  std::int64_t microbatches = 0;     // of a device: gradients are accumulated over them
  std::string remat;                 // the policy
  bool async_checkpoints = true, in_backward = false;
  std::size_t memory_bytes = 0;
  double recomputed_flops_per_token = 0;
};

struct FitResult {
  std::optional<Fit> fit;          // nothing if no settings fit
  std::size_t smallest_bytes = 0;  // of the settings that need least memory
};

// The settings with the least recomputation among those with which each of `num_ranks` devices
// needs at most `memory_bytes`, and among these the ones with the largest microbatch; the batch
// does not change. Training waits for its checkpoints, or updates after the backward pass (with
// microbatches) in spite of optimizer.in_backward, only if nothing fits otherwise. Proposes a
// policy that offloads only if the run has it, because it costs copies, not recomputation.
// REQUIRES: set_learning(model, run).
FitResult fit_training(const decoder::Model& model, const config::RunConfig& run,
                       std::size_t memory_bytes, const Backend& backend,
                       const TeacherOfPlan& teacher = nullptr, int num_ranks = 1);

}  // namespace lamina::inspect
