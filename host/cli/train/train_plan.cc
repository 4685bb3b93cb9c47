#include "cli/train/train_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "cli/plan/device_memory.h"
#include "cli/plan/dry_run.h"
#include "cli/shell/plugins.h"
#include "cli/shell/text.h"
#include "cli/shell/units.h"
#include "cli/train/run_warnings.h"
#include "core/error.h"
#include "core/json_writer.h"
#include "data/load.h"
#include "decoder/call_limits.h"
#include "inspect/plan/train_plan.h"
#include "model/teacher.h"
#include "model/training.h"
#include "train/checkpoint/checkpoint.h"
#include "train/loop/loop.h"
#include "train/loop/resumption.h"
#include "train/loop/run.h"

namespace lamina::cli {
namespace {

// Share of the available memory; the rest is for other programs.
constexpr double kUsableShare = 0.9;

std::string bytes(std::uint64_t n) { return bytes_text(static_cast<double>(n)); }

std::unique_ptr<decoder::Model> model_of(const Arguments& a, const config::RunConfig& run,
                                         const std::string& checkpoint) {
  auto model = model::open_trained(run, plugin_catalog(a.globals), checkpoint);
  decoder::check_training_length(*model, run.data.sequence_length,
                                 config::place_in(run)("data.sequence_length"));
  return model;
}

std::string fit_text(const inspect::Fit& fit, const config::RunConfig& run, std::uint64_t available,
                     std::size_t num_devices) {
  std::string out =
      fmt::format("# {} of {} available{}; {}", bytes(fit.memory_bytes), bytes(available),
                  num_devices == 1 ? "" : fmt::format(" on each of {} GPUs", num_devices),
                  fit.microbatches == 1
                      ? "one microbatch"
                      : fmt::format("gradients of {} microbatches are added up", fit.microbatches));
  if (fit.recomputed_flops_per_token > 0)
    out += fmt::format("; {} operations per token are recomputed",
                       count_text(fit.recomputed_flops_per_token));
  out += fmt::format("\n[train]\nbatch_size = {}\n", run.train.batch_size);
  // With optimizer.in_backward each device has one microbatch, its share of the batch.
  if (!fit.in_backward) out += fmt::format("microbatch_size = {}\n", fit.microbatch_size);
  out += fmt::format("remat = \"{}\"\n", fit.remat);
  if (fit.async_checkpoints != run.checkpoint.async)
    out += "[checkpoint]\nasync = false  # training waits while they are written\n";
  if (fit.in_backward != run.optimizer.in_backward)
    out += "[optimizer]\nin_backward = false  # gradients of smaller microbatches are added up\n";
  return out;
}

std::string fit_json(const inspect::Fit& fit, std::uint64_t available) {
  JsonWriter json(2);
  json.begin_object().key("microbatch_size").value(fit.microbatch_size);
  json.key("microbatches").value(fit.microbatches).key("remat").value(fit.remat);
  json.key("async_checkpoints").value(fit.async_checkpoints);
  json.key("in_backward").value(fit.in_backward);
  json.key("memory_bytes").value(fit.memory_bytes).key("available_bytes").value(available);
  json.key("recomputed_flops_per_token").value(fit.recomputed_flops_per_token).end_object();
  return json.text() + "\n";
}

// Returns settings that need less memory, without those that the run has.
std::string advice_on_fit(const config::RunConfig& run) {
  std::vector<std::string_view> ways;
  if (run.lora.rank == 0)
    ways.emplace_back("fewer trained parameters ([lora])");
  else if (!run.train.from.empty() && run.train.quantize.empty())
    ways.emplace_back("a quantised base (train.quantize)");
  ways.emplace_back("shorter rows (data.sequence_length)");
  if (run.optimizer.moments != "8bit" && run.optimizer.name != "adafactor")
    ways.emplace_back("moments in fewer bytes (optimizer.moments)");
  return fmt::format("use {}", fmt::join(ways, ", or "));
}

// `other_bytes`: of the program and of tokens in memory, which no setting changes.
std::string show_fit(const Arguments& a, const decoder::Model& model, const config::RunConfig& run,
                     const inspect::TeacherOfPlan& teacher,
                     const std::vector<const Device*>& devices, std::uint64_t available,
                     std::uint64_t other_bytes) {
  const auto usable = static_cast<std::uint64_t>(kUsableShare * static_cast<double>(available));
  inspect::FitResult found =
      inspect::fit_training(model, run, usable - std::min(usable, other_bytes),
                            devices.front()->backend(), teacher, static_cast<int>(devices.size()));
  if (!found.fit)
    throw UserError(
        ExitCode::memory,
        {a.positionals[0],
         fmt::format("does not fit: it needs at least {}, and may use {} of {} available",
                     bytes(found.smallest_bytes + other_bytes), bytes(usable), bytes(available)),
         {advice_on_fit(run)}});
  found.fit->memory_bytes += other_bytes;
  return a.flag("json") ? fit_json(*found.fit, available)
                        : fit_text(*found.fit, run, available, devices.size());
}

// Throws the errors that the run would, for data so small that an estimate reads all of them.
void check_data_of_run(const config::RunConfig& run, config::DataSection section,
                       const text::Tokenizer& tokenizer, const decoder::Model& model,
                       const std::string& checkpoint) {
  section.store = "none";  // nothing is written
  const data::RunData data = train::with_data_places(
      run, [&] { return data::load_data(section, run.run.seed, tokenizer, model.vocab_size()); });
  if (!checkpoint.empty())
    train::check_data(checkpoint, train::read_progress(checkpoint), data.fingerprint);
}

}  // namespace

int show_train_plan(const Arguments& a, const config::RunConfig& run,
                    const std::vector<const Device*>& devices) {
  if (a.has("profile"))
    throw UserError(ExitCode::usage,
                    {"--profile",
                     "cannot be combined with --dry-run or --fit, which run no steps",
                     {"remove one of them"}});
  if (a.flag("fit") && a.flag("dry-run"))
    throw UserError(ExitCode::usage,
                    {"--fit", "cannot be combined with --dry-run", {"remove one of them"}});
  const Device& device = *devices.front();
  device.use_threads(a.globals.threads ? a.globals.threads : run.run.threads);
  const std::string checkpoint = train::likely_checkpoint(a.text("resume"), run.run.out);
  const auto model = model_of(a, run, checkpoint);
  train::check_resume(run, *model, a.text("resume"));
  const inspect::TeacherOfPlan teacher =
      model::describe_teacher(run, plugin_catalog(a.globals), *model);
  std::uint64_t available = device.available_memory();
  for (const Device* other : devices) available = std::min(available, other->available_memory());
  const config::DataSection section = model::data_section(run, checkpoint);
  const auto tokenizer = data::load_tokenizer(section);
  train::check_vocabulary(*tokenizer, *model, run);
  const auto estimated = [&] {
    return train::with_data_places(
        run, [&] { return data::estimate_data(section, *tokenizer, model->vocab_size()); });
  };
  if (a.flag("fit")) {
    const std::uint64_t program_bytes = device.resident_memory();  // before data are read
    print(show_fit(a, *model, run, teacher, devices, available,
                   program_bytes + estimated().held_bytes));
    return 0;
  }
  DryRun found{.plan = inspect::plan_training(*model, run, device.backend(), teacher,
                                              static_cast<int>(devices.size()))};
  found.program_bytes = device.resident_memory();  // before data are read
  found.available_bytes = available;
  found.available_host_bytes = available_host_memory();
  found.num_devices = devices.size();
  found.data = estimated();
  if (found.data.is_whole) check_data_of_run(run, section, *tokenizer, *model, checkpoint);
  warn_of_settings(*model, run);
  warn_of_disk(*model, run);
  print(a.flag("json") ? dry_run_json(found) : dry_run_text(found, *model, run));
  return 0;
}

void check_train_memory(const Arguments& a, const config::RunConfig& run,
                        const std::vector<const Device*>& devices) {
  if (!has_own_memory(*devices.front())) return;
  const auto model = model_of(a, run, train::likely_checkpoint(a.text("resume"), run.run.out));
  const inspect::TeacherOfPlan teacher =
      model::describe_teacher(run, plugin_catalog(a.globals), *model);
  const inspect::TrainPlan plan = inspect::plan_training(*model, run, devices.front()->backend(),
                                                         teacher, static_cast<int>(devices.size()));
  for (const Device* device : devices)
    check_memory(
        train_need(plan, run.train.dtype), *device, a.positionals[0],
        "use smaller microbatches (train.microbatch_size), train.remat, shorter rows "
        "(data.sequence_length), optimizer.offload, or moments in fewer bytes (optimizer.moments): "
        "`lamina train --fit` finds settings");
  check_host_memory(train_host_need(plan), a.positionals[0], devices.size());
}

}  // namespace lamina::cli
