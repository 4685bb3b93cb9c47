#include "cli/train_plan.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/plan/memory_rows.h"
#include "cli/plugins.h"
#include "cli/text.h"
#include "cli/units.h"
#include "core/error.h"
#include "core/json_writer.h"
#include "decoder/call_limits.h"
#include "inspect/plan/train_plan.h"
#include "model/teacher.h"
#include "model/training.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

// Of what is available; the rest is for the data, the program itself and others.
constexpr double kUsableShare = 0.9;

std::string bytes(std::uint64_t n) { return bytes_text(static_cast<double>(n)); }

std::unique_ptr<decoder::Model> model_of(const Arguments& a, const config::RunConfig& run) {
  auto model = model::open_trained(run, plugin_catalog(a.globals));
  decoder::check_training_length(*model, run.data.sequence_length, "data.sequence_length");
  return model;
}

// What a run will take, and what there is for it.
struct Memory {
  std::uint64_t program = 0;  // this process as it is: what a run has beside its tensors
  std::uint64_t available = 0;

  std::uint64_t all(const inspect::TrainPlan& plan) const { return plan.memory_bytes() + program; }
};

std::string memory_text(const inspect::TrainPlan& plan, DType compute, const Memory& memory) {
  constexpr double kColumns = 32;
  auto rows = memory_rows(plan.memory, compute);
  rows.emplace_back("temporaries of a step", plan.step_bytes);
  if (plan.validation_bytes > 0) rows.emplace_back("of a validation", plan.validation_bytes);
  rows.emplace_back("the program", memory.program);
  const auto all = static_cast<double>(memory.all(plan));
  std::string out = "memory\n";
  for (const auto& [name, n] : rows)
    out += fmt::format(
        "  {:<30} {:>9}  {}\n", name, bytes(n),
        std::string(static_cast<std::size_t>(std::lround(static_cast<double>(n) / all * kColumns)),
                    '#'));
  return out + fmt::format("  {:<30} {:>9}  of {} available\n", "at most in all",
                           bytes(memory.all(plan)), bytes(memory.available));
}

// Of the file system on which `path` will be; nothing where it does not say.
std::optional<std::uint64_t> free_bytes(fs::path path) {
  std::error_code ec;
  path = fs::absolute(path, ec);
  while (!fs::exists(path, ec) && path != path.parent_path()) path = path.parent_path();
  const fs::space_info space = fs::space(path, ec);
  return ec ? std::nullopt : std::optional<std::uint64_t>(space.available);
}

std::string plan_text(const inspect::TrainPlan& plan, const decoder::Model& model,
                      const config::RunConfig& run, const Memory& memory) {
  const std::int64_t tokens = run.train.batch_size * run.data.sequence_length;
  const auto checkpoint = static_cast<std::uint64_t>(plan.checkpoint_bytes);
  std::string out = fmt::format(
      "model   {}: {} parameters\nrun     {} steps of {} tokens ({} x {} rows of {}), {} in all; "
      "{}, remat {}\n",
      model.family().name(), thousands_text(model.parameters().num_elements()),
      thousands_text(run.train.steps), thousands_text(tokens),
      run.train.batch_size / run.train.microbatch_size, run.train.microbatch_size,
      run.data.sequence_length, count_text(static_cast<double>(tokens * run.train.steps)),
      long_name(run.train.dtype), run.train.remat);
  const auto free = free_bytes(run.run.out);
  return out + memory_text(plan, run.train.dtype, memory) +
         fmt::format("disk    {} per checkpoint, at most {} at once: {}{} in {}\n",
                     bytes(checkpoint), plan.num_checkpoints,
                     bytes(checkpoint * static_cast<std::uint64_t>(plan.num_checkpoints)),
                     free ? fmt::format(" of {} free", bytes(*free)) : "", run.run.out) +
         "nothing was written; the data were not read\n";
}

std::string plan_json(const inspect::TrainPlan& plan, const Memory& memory) {
  JsonWriter json(2);
  json.begin_object();
  for (const auto& [name, bytes] : memory_fields(plan.memory)) json.key(name).value(bytes);
  json.key("step_bytes").value(plan.step_bytes);
  json.key("validation_bytes").value(plan.validation_bytes);
  json.key("program_bytes").value(memory.program);
  json.key("memory_bytes").value(memory.all(plan));
  json.key("available_bytes").value(memory.available);
  json.key("checkpoint_file_bytes").value(plan.checkpoint_bytes);
  json.key("max_checkpoints").value(plan.num_checkpoints).end_object();
  return json.text() + "\n";
}

std::string fit_text(const inspect::Fit& fit, const config::RunConfig& run,
                     std::uint64_t available) {
  std::string out =
      fmt::format("# {} of {} available; {}", bytes(fit.memory_bytes), bytes(available),
                  fit.microbatches == 1
                      ? "one microbatch"
                      : fmt::format("gradients of {} microbatches are added up", fit.microbatches));
  if (fit.recomputed_flops_per_token > 0)
    out += fmt::format("; {} operations per token are computed again",
                       count_text(fit.recomputed_flops_per_token));
  out += fmt::format("\n[train]\nbatch_size = {}\nmicrobatch_size = {}\nremat = \"{}\"\n",
                     run.train.batch_size, fit.microbatch_size, fit.remat);
  if (fit.async_checkpoints != run.checkpoint.async)
    out += "[checkpoint]\nasync = false  # training waits while they are written\n";
  return out;
}

std::string fit_json(const inspect::Fit& fit, std::uint64_t available) {
  JsonWriter json(2);
  json.begin_object().key("microbatch_size").value(fit.microbatch_size);
  json.key("microbatches").value(fit.microbatches).key("remat").value(fit.remat);
  json.key("async_checkpoints").value(fit.async_checkpoints);
  json.key("memory_bytes").value(fit.memory_bytes).key("available_bytes").value(available);
  json.key("recomputed_flops_per_token").value(fit.recomputed_flops_per_token).end_object();
  return json.text() + "\n";
}

std::string show_fit(const Arguments& a, const decoder::Model& model, const config::RunConfig& run,
                     const inspect::TeacherOfPlan& teacher, const Machine& machine,
                     std::uint64_t available) {
  const inspect::FitResult found = inspect::fit_training(
      model, run, static_cast<std::size_t>(kUsableShare * static_cast<double>(available)),
      machine.backend, teacher);
  if (!found.fit)
    throw UserError(
        ExitCode::memory,
        {a.positionals[0],
         fmt::format("does not fit: it takes at least {}, and {} of {} available may be used",
                     bytes(found.smallest_bytes),
                     bytes_text(kUsableShare * static_cast<double>(available)), bytes(available)),
         {"train fewer parameters ([lora]), shorter rows (data.sequence_length), or moments in "
          "fewer bytes (optimizer.moments)"}});
  return a.flag("json") ? fit_json(*found.fit, available) : fit_text(*found.fit, run, available);
}

}  // namespace

int show_train_plan(const Arguments& a, const config::RunConfig& run, const Machine& machine) {
  if (a.has("profile"))
    throw UserError(ExitCode::usage, {"--profile",
                                      "there are no steps to time with --dry-run or --fit",
                                      {"leave one of them out"}});
  machine.use_threads(a.globals.threads ? a.globals.threads : run.run.threads);
  const auto model = model_of(a, run);
  const inspect::TeacherOfPlan teacher =
      model::describe_teacher(run, plugin_catalog(a.globals), *model);
  const std::uint64_t available = machine.available_memory();
  if (a.flag("fit")) {
    print(show_fit(a, *model, run, teacher, machine, available));
    return 0;
  }
  const inspect::TrainPlan plan = inspect::plan_training(*model, run, machine.backend, teacher);
  const Memory memory{machine.resident_memory(), available};
  print(a.flag("json") ? plan_json(plan, memory) : plan_text(plan, *model, run, memory));
  return 0;
}

}  // namespace lamina::cli
