#include "cli/train/training_display.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "cli/data/data_lines.h"
#include "cli/shell/shell_word.h"
#include "cli/shell/signals.h"
#include "cli/shell/terminal.h"
#include "cli/shell/units.h"
#include "cli/train/loss_curve.h"
#include "cli/train/progress.h"
#include "config/run_config.h"
#include "core/broken_pipe.h"
#include "core/error.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "core/printable.h"
#include "train/tasks/baseline.h"

namespace lamina::cli {
namespace {

// " --plugin FILE", for a command line that needs the same plugins.
std::string plugin_options(const Arguments& a) {
  std::string out;
  for (const std::string& plugin : a.globals.plugins) out += " --plugin " + shell_word(plugin);
  for (const std::string& folders : a.globals.plugin_folders)
    out += " --plugin-path " + shell_word(folders);
  return out;
}

// Returns false, after a warning, if stdout cannot be written: the run must not be lost for it.
bool print_json_step(const train::LoopEvents::Step& event) {
  JsonWriter json;
  json.begin_object().key("event").value("step").key("step").value(event.step);
  json.key("train/loss")
      .value(event.result.loss)
      .key("train/grad_norm")
      .value(event.result.gradient_norm);
  if (event.result.total != event.result.loss)
    json.key("train/total_loss").value(event.result.total);
  for (const train::AuxScalar& mean : event.result.task_means)
    json.key("train/" + mean.name).value(mean.value);
  json.key("train/lr")
      .value(event.result.lr)
      .key("perf/step_seconds")
      .value(event.seconds)
      .end_object();
  constexpr std::string_view kContinues = "training continues without lines of --json";
  try {
    print(json.text() + "\n");
    return true;
  } catch (const BrokenPipe&) {
    log::warning("stdout: its reader has ended; {}", kContinues);
  } catch (const UserError& failure) {
    log::warning("{}; {}", failure.what(), kContinues);
  }
  return false;
}

constexpr std::size_t kSampleBytes = 4096;  // of a sample's line in the log

// "accuracy 0.75  margin 0.120"
std::string task_text(const std::vector<train::AuxScalar>& means) {
  std::string out;
  for (const auto& [name, label, digits] :
       {std::tuple{"reward_accuracy", "accuracy", 2}, std::tuple{"reward_margin", "margin", 3}})
    if (const auto mean = std::ranges::find(means, name, &train::AuxScalar::name);
        mean != means.end())
      out += fmt::format("{}{} {:.{}f}", out.empty() ? "" : "  ", label, mean->value, digits);
  return out;
}

// With the terms of the loss that the task adds: "kl 0.1234  hidden 0.5678".
std::string progress_text(const train::StepResult& step) {
  std::string out = task_text(step.task_means);
  for (const train::LossMean& of : step.terms)
    if (of.term.report == decoder::LossReport::progress)
      out += fmt::format("{}{} {:.4f}", out.empty() ? "" : "  ", of.term.name, of.mean);
  return out;
}

// Points collected while the loop runs.
struct Curves {
  std::vector<CurvePoint> training, validation;
};

train::LoopEvents events_of(const Arguments& arguments, const train::Loop& loop,
                            ProgressDisplay& progress, Curves& curves, const Extras& extras) {
  train::LoopEvents events;
  events.step = [&, json = arguments.flag("json"),
                 profile = extras.profile](const train::LoopEvents::Step& event) mutable {
    if (profile) profile->end_step(event.step);
    progress.report({event.step, event.num_steps, event.result.loss, event.result.gradient_norm,
                     event.result.lr, event.result.num_labels, event.result.total,
                     progress_text(event.result)});
    curves.training.push_back({event.step, event.result.loss});
    json = json && print_json_step(event);
  };
  events.validation = [&](const train::LoopEvents::Validation& event) {
    curves.validation.push_back({event.step, event.loss});
    const std::string task = task_text(event.task_means);
    log::info("step {}: validation loss {:.4f}{}{}", event.step, event.loss,
              task.empty() ? "" : ", " + task,
              event.mtp_acceptance.empty()
                  ? ""
                  : fmt::format(", mtp acceptance {}", percents_text(event.mtp_acceptance)));
  };
  if (extras.profile)
    events.begin_step = [profile = extras.profile](std::int64_t step) {
      profile->begin_step(step);
    };
  if (extras.samples)
    events.sample = [samples = extras.samples](std::span<const ConstTensorRef> used) {
      auto out = samples->sample(used, [] { return stop_signal() != 0; });
      if (!out) return out;
      for (const train::Sample& sample : *out)
        log::info("sample  {}|{}", printable(sample.prompt), printable(sample.text, kSampleBytes));
      return out;
    };
  events.save.checkpoint = [](const train::SavedCheckpoint& saved) {
    log::debug("saved {} in {:.2f} s; training waited {:.3f} s, {} were copied", saved.path,
               saved.seconds, saved.pause_seconds,
               bytes_text(static_cast<double>(saved.num_copied)));
  };
  events.save.waiting = [](const train::SaveEvents::Waiting& saving) {
    log::info("waiting for the checkpoint of step {}: {} of {} written", saving.step,
              bytes_text(static_cast<double>(saving.num_written)),
              bytes_text(static_cast<double>(saving.num_bytes)));
  };
  if (extras.begin_writer) events.save.begin_thread = extras.begin_writer;
  events.should_stop = [&loop] {
    if (loop.progress().step == 0) end_if_asked();  // there is nothing to save
    return stop_signal() != 0;
  };
  events.should_save = [] { return take_save_request(); };
  return events;
}

}  // namespace

std::string resume_command(const Arguments& a) {
  std::string out;
  for (const std::string& variable : config::process_environment()) {
    const std::size_t equals = variable.find('=');
    if (variable.starts_with("LAMINA_") && variable.find("__") < equals)  // sets a key
      out += variable.substr(0, equals + 1) + shell_word(variable.substr(equals + 1)) + " ";
  }
  out += "lamina train " + shell_path(a.positionals[0]);
  auto add = [&](const std::string& option, const std::string& value) {
    out += " --" + option + " " + shell_word(value);
  };
  if (a.has("out")) add("out", a.text("out"));
  for (const std::string& set : a.texts("set")) add("set", set);
  if (a.has("quantize")) add("quantize", a.text("quantize"));
  for (const std::string& rule : a.texts("quantize-rule")) add("quantize-rule", rule);
  if (a.has("device")) add("device", a.text("device"));
  out += plugin_options(a);
  if (a.globals.threads) add("threads", std::to_string(*a.globals.threads));
  if (a.globals.quiet) out += " --quiet";
  if (a.flag("json")) out += " --json";
  return out + " --resume auto";
}

// Says which memory has the values that the run file offloads.
void print_offloading(const config::RunConfig& c, train::Run& run) {
  const std::size_t state = run.loop().offloaded_state_bytes(),
                    values = run.loop().offloaded_value_bytes();
  const auto size = [](std::size_t n) { return bytes_text(static_cast<double>(n)); };
  if (!run.remat().offloaded.empty()) {
    const std::string tags = fmt::format("{}", fmt::join(run.remat().offloaded, ", "));
    if (run.loop().has_host_memory())
      log::info("remat   {}: {} in host memory", tags, size(values));
    else
      log::info("remat   {} stay in memory: the CPU has no other memory to offload to", tags);
  }
  if (!c.optimizer.offload) return;
  if (run.loop().has_host_memory())
    log::info("optim   {} of state in host memory", size(state));
  else
    log::info("optim   the state stays in memory: the CPU has no other memory to offload to");
}

void print_banner(const decoder::Model& model, const config::RunConfig& c, train::Run& run) {
  std::int64_t embedding = 0, frozen = 0;
  for (const decoder::Parameter& p : model.parameters().all()) {
    if (p.learning.frozen) frozen += p.num_elements();
    if (p.layer < 0 && p.desc.shape.ndim() == 2) embedding += p.num_elements();
  }
  std::vector<std::string> blocks;
  for (const registry::Block& block : model.family().blocks()) {
    blocks.resize(std::max<std::size_t>(blocks.size(), block.id + 1));
    blocks[block.id] = block.name;
  }
  std::string also;
  if (frozen > 0) also = fmt::format(", {} are frozen", thousands_text(frozen));
  log::info("model   {}: {} parameters, {} of them in embeddings{}; {}", model.family().name(),
            thousands_text(model.parameters().num_elements()), thousands_text(embedding), also,
            decoder::to_string(model.stack(), blocks));
  if (!run.inherited().summary.empty())
    log::info("from    {}: {}", c.train.from, run.inherited().summary);
  if (!run.inherited().teachers.empty()) {
    const train::TeacherModel& teacher = run.inherited().teachers.front();
    log::info("teacher {}: {}, {} parameters, {}", c.distillation.teacher,
              teacher.model->family().name(),
              thousands_text(teacher.model->parameters().num_elements()), long_name(teacher.dtype));
  }
  std::string_view label = "data";
  for (const std::string& line : data_lines(run.data())) {
    log::info("{:<7} {}", label, line);
    label = "";
  }
  std::string copies;
  if (const std::size_t n = run.loop().checkpoint_copy_bytes(); n > 0)
    copies =
        fmt::format(", up to {} while a checkpoint is written", bytes_text(static_cast<double>(n)));
  log::info("run     {} of {} tokens, {}, seed {}; {} of state, {} of temporaries{}",
            number_of(c.train.steps, "step"),
            thousands_text(c.train.batch_size * c.data.sequence_length), long_name(c.train.dtype),
            c.run.seed, bytes_text(static_cast<double>(run.loop().state_bytes())),
            bytes_text(static_cast<double>(run.loop().temporary_bytes())), copies);
  log::info("out     {}", c.run.out);
  print_offloading(c, run);
  if (const std::string from = run.resumption().checkpoint(); !from.empty())
    log::info("resume  {} (step {})", from, run.loop().progress().step);
}

int run_and_show(const Arguments& arguments, const config::RunConfig& c,
                 const decoder::Model& model, train::Run& run, const Extras& extras) {
  ProgressDisplay progress(
      arguments.globals.quiet ? ProgressDisplay::Style::none : ProgressDisplay::Style::automatic,
      c.train.log_every_steps, arguments.globals.color);
  Curves curves;
  const train::LoopResult result =
      run.loop().run(events_of(arguments, run.loop(), progress, curves, extras));
  progress.finish();
  if (extras.profile) extras.profile->finish();

  if (result.stopped) {
    log::info("stopped after step {}; `{}` resumes the run", result.progress.step,
              resume_command(arguments));
    return static_cast<int>(ExitCode::resumable);
  }
  if (std::string curve = loss_curve(curves.training, curves.validation);
      !curve.empty() && !arguments.globals.quiet)
    log::info("{}", curve);
  if (result.validation_loss) {
    std::optional<double> baseline;
    if (train::loop_options(c).task->has_perplexity())
      baseline = train::bigram_loss(run.data().train, run.data().validation.front(),
                                    run.loop().num_validation_rows(), model.vocab_size());
    log::info(
        "validation loss {:.4f}{}", *result.validation_loss,
        baseline ? fmt::format("; a bigram model of the same tokens has {:.4f}", *baseline) : "");
  }
  const std::string next = fmt::format("`lamina decode -m {}{} -p \"...\"` continues a text",
                                       shell_word(c.run.out), plugin_options(arguments));
  if (curves.training.empty() && !result.sampled)
    log::info("nothing to do: the run is at step {}, and train.steps is {}; {}",
              thousands_text(result.progress.step), thousands_text(c.train.steps), next);
  else
    log::info("done; {}", next);
  return 0;
}

}  // namespace lamina::cli
