#include "inspect/plan/train_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/round_up.h"
#include "inspect/plan/transfers.h"
#include "program/bound_program.h"
#include "train/loop/eval_step.h"
#include "train/loop/run.h"
#include "train/loop/train_step.h"
#include "train/optimizer/update_rules.h"

namespace lamina::inspect {
namespace {

bool validates(const config::DataSection& data) {
  return !data.validation.empty() || data.validation_fraction > 0;
}

struct ValidationBytes {
  std::size_t temporaries = 0, transfers = 0;
};

ValidationBytes validation_bytes(const decoder::Model& model, const config::RunConfig& run,
                                 const Backend& backend) {
  if (!validates(run.data)) return {};
  decoder::ModelGraph graph =
      train::eval_graph(model, run.train.microbatch_size, run.data.sequence_length, run.train.dtype,
                        true, {.task = train::loop_options(run).task});
  ValidationBytes out{.transfers = transfer_bytes(graph, backend)};
  out.temporaries = program::BoundProgram(std::move(graph), backend).arena_bytes();
  return out;
}

// Returns the bytes of the scalars and norms of updates.
std::size_t update_transfer_bytes(const decoder::Model& model, const Backend& backend) {
  if (backend.reaches(MemoryKind::host)) return 0;
  std::size_t bytes = 0;
  for (const decoder::Parameter& p : model.parameters().all())
    if (p.learns()) bytes += aligned(train::kNumScalars * sizeof(float)) + aligned(sizeof(double));
  return bytes;
}

// The plan options of a run that outlives them.
PlanOptions placed_options(const config::RunConfig& run, const decoder::Model& model,
                           const TeacherOfPlan& teacher, int num_ranks) {
  PlanOptions out = plan_options(run, model, teacher, num_ranks);
  out.place = config::place_in(run);
  return out;
}

// All settings to choose from, each with its cost.
std::vector<Fit> all_settings(const decoder::Model& model, config::RunConfig run,
                              const Backend& backend, const TeacherOfPlan& teacher, int num_ranks) {
  std::vector<Fit> out;
  const std::int64_t share = run.train.batch_size / num_ranks;  // of each device
  for (std::int64_t rows = share; rows > 0; --rows) {
    if (share % rows != 0 || (run.optimizer.in_backward && rows < share)) continue;
    run.train.microbatch_size = rows;
    const PlanOptions options = placed_options(run, model, teacher, num_ranks);
    const TrainMemory memory = plan_train_memory(model, options, backend);
    const ValidationBytes validation = validation_bytes(model, run, backend);
    const std::size_t always = memory.total() + validation.temporaries + validation.transfers +
                               update_transfer_bytes(model, backend);
    for (const RematCost& cost : plan_activations(model, options, backend)) {
      if (cost.host_bytes > 0 && !cost.chosen) continue;
      Fit fit{
          .microbatch_size = rows,
          .microbatches = share / rows,
          .remat = cost.policies.front(),
          .async_checkpoints = options.async_checkpoints,
          .in_backward = run.optimizer.in_backward,
          .memory_bytes = always + static_cast<std::size_t>(cost.arena_bytes) + cost.transfer_bytes,
          .recomputed_flops_per_token = cost.recomputed_flops_per_token};
      out.push_back(fit);
      if (!fit.async_checkpoints) continue;
      fit.async_checkpoints = false;
      fit.memory_bytes -= memory.checkpoint;
      out.push_back(std::move(fit));
    }
  }
  return out;
}

// Chooses as fit_training() describes it.
FitResult best_of(const std::vector<Fit>& all, std::size_t memory_bytes) {
  FitResult out;
  out.smallest_bytes = std::ranges::min(all, {}, &Fit::memory_bytes).memory_bytes;
  // The first of equal settings has the largest microbatch.
  for (const bool async : {true, false}) {
    for (const Fit& fit : all)
      if (fit.async_checkpoints == async && fit.memory_bytes <= memory_bytes &&
          (!out.fit || fit.recomputed_flops_per_token < out.fit->recomputed_flops_per_token))
        out.fit = fit;
    if (out.fit) break;
  }
  return out;
}

}  // namespace

std::int64_t max_checkpoints(const config::RunConfig& run) {
  // The checkpoint being written exists before one of the kept ones is removed.
  const std::int64_t kept = run.checkpoint.keep + (run.checkpoint.keep_best ? 1 : 0);
  const std::int64_t every = run.checkpoint.every_steps;
  std::int64_t written = every > 0 ? (run.train.steps + every - 1) / every : 1;
  if (run.checkpoint.keep_best) written = run.train.steps;  // at most: one per validation
  return std::min(kept + 1, written);
}

PlanOptions plan_options(const config::RunConfig& run, const decoder::Model& model,
                         const TeacherOfPlan& teacher, int num_ranks) {
  const train::TrainStepOptions step = train::loop_options(run, num_ranks).step();
  return {.microbatches = step.microbatches,
          .num_ranks = num_ranks,
          .batch = step.shape.batch,
          .tokens = step.shape.tokens,
          .dtype = step.shape.dtype,
          .segments = step.features.segments,
          .remat = train::remat_policy(step, model, config::place_in(run)),
          .optimizer = run.optimizer,
          .layer_metrics = step.features.layer_metrics,
          .async_checkpoints = run.checkpoint.async,
          .average = train::kept_average(run.train),
          .task = step.task,
          .teacher = teacher,
          .teacher_dtype = run.distillation.dtype};
}

TrainPlan plan_training(const decoder::Model& model, const config::RunConfig& run,
                        const Backend& backend, const TeacherOfPlan& teacher, int num_ranks) {
  TrainPlan out;
  out.memory = plan_train_memory(model, placed_options(run, model, teacher, num_ranks), backend);
  decoder::ModelGraph graph = train::step_graph(model, train::loop_options(run, num_ranks).step());
  const ValidationBytes validation = validation_bytes(model, run, backend);
  out.transfer_bytes =
      transfer_bytes(graph, backend) + update_transfer_bytes(model, backend) + validation.transfers;
  const program::BoundProgram step(std::move(graph), backend);
  out.step_bytes = step.arena_bytes();
  out.step_host_bytes = step.program().host_bytes();
  out.validation_bytes = validation.temporaries;
  out.checkpoint_bytes = static_cast<std::int64_t>(out.memory.bytes.checkpoint());
  out.num_checkpoints = max_checkpoints(run);
  return out;
}

FitResult fit_training(const decoder::Model& model, const config::RunConfig& run,
                       std::size_t memory_bytes, const Backend& backend,
                       const TeacherOfPlan& teacher, int num_ranks) {
  FitResult out = best_of(all_settings(model, run, backend, teacher, num_ranks), memory_bytes);
  if (out.fit || !run.optimizer.in_backward) return out;
  config::RunConfig after = run;
  after.optimizer.in_backward = false;
  const FitResult other =
      best_of(all_settings(model, after, backend, teacher, num_ranks), memory_bytes);
  return {other.fit, std::min(out.smallest_bytes, other.smallest_bytes)};
}

}  // namespace lamina::inspect
