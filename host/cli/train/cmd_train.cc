// lamina train: trains the model of a run file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "cli/plan/dry_run.h"
#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/shell_word.h"
#include "cli/shell/signals.h"
#include "cli/shell/version.h"
#include "cli/shell/weight_choice.h"
#include "cli/train/run_warnings.h"
#include "cli/train/train_plan.h"
#include "cli/train/training_display.h"
#include "config/listing.h"
#include "core/error.h"
#include "core/log.h"
#include "core/utf8.h"
#include "device/connect.h"
#include "device/workers.h"
#include "model/training.h"
#include "train/loop/output_folders.h"
#include "train/loop/run.h"
#include "train/loop/run_directory.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

// Logs a stop before the loop; returns the exit code.
int stopped_early(const Arguments& arguments, const std::string& run) {
  const std::string newest = train::newest_checkpoint(run);
  if (newest.empty()) {
    log::info("stopped before the first step; nothing was done yet");
    return 128 + stop_signal();
  }
  log::info("stopped before the first step; `{}` resumes from {}", resume_command(arguments),
            newest);
  return static_cast<int>(ExitCode::resumable);
}

// Called after every check that could refuse this run: changes the run directory.
void begin(train::Run& run, const decoder::Model& model, const config::RunConfig& c) {
  run.check_directory();
  log::set_file(c.run.out + "/log.txt");
  log::info("{}, plugin {} {}", version_line(), model.family().plugin().id,
            model.family().plugin().version);
  if (!run.lock().problem().empty()) log::warning("{}", run.lock().problem());
  warn_of_settings(model, c);
  warn_of_disk(model, c);
  for (const std::string& change : run.resumption().changes()) log::info("{}", change);
  for (const std::string& warning : run.resumption().set_aside()) log::warning("{}", warning);
  run.start();
}

int train_run(const Arguments& arguments, const config::RunConfig& c, const Device& device,
              const std::vector<const Device*>& devices) {
  std::optional<std::pair<std::int64_t, std::int64_t>> steps;
  if (arguments.has("profile")) steps = parse_profiled_steps(arguments.text("profile"));
  // Before anything is opened, and again when it is known where the run continues.
  if (steps) check_profiled_steps(*steps, 0, c.train.steps);
  device.use_threads(arguments.globals.threads ? arguments.globals.threads : c.run.threads);
  check_train_memory(arguments, c, devices);
  const std::string& resume = arguments.text("resume");
  std::vector<const Backend*> backends;
  for (const Device* of : devices) backends.push_back(&of->backend());
  model::Training training = model::open_training(
      c, plugin_catalog(arguments.globals), train::likely_checkpoint(resume, c.run.out), backends);
  const decoder::Model& model = *training.model;
  CommunicatorGroup group;
  if (devices.size() > 1) group = device::connect(devices);
  train::Run run(c, model, resume, device.backend(),
                 {.between = end_if_asked, .workers = device::workers(device)},
                 std::move(training.inherited), devices.size() > 1 ? &group : nullptr);
  if (steps) check_profiled_steps(*steps, run.loop().progress().step, c.train.steps);
  std::optional<model::TextSamples> samples;
  if (c.train.sample_every_steps > 0)
    samples.emplace(model::training_samples(c), model, run.tokenizer(), device.backend());
  begin(run, model, c);
  print_banner(model, c, run);
  if (devices.size() > 1)
    log::info("gpus    {}: {} rows of each step and a copy of the state each",
              arguments.text("device"),
              c.train.batch_size / static_cast<std::int64_t>(devices.size()));
  std::optional<TrainingProfile> profile;
  if (steps) profile.emplace(*steps, c.run.out, run.loop(), device);
  return run_and_show(arguments, c, model, run,
                      {samples ? &*samples : nullptr, profile ? &*profile : nullptr,
                       [&device] { device.unpin_this_thread(); }});
}

Option training_quantize_option() {
  Option out = quantize_option();
  out.key.doc = fmt::format(
      "Round the frozen matrices of train.from to a format when the run starts, under an adapter: "
      "{}. Sets train.quantize.",
      quantize_formats());
  return out;
}

Option training_quantize_rule_option() {
  Option out = quantize_rule_option();
  out.key.doc += " Sets train.quantize_rules; for a run file with train.quantize use --set.";
  return out;
}

Option training_device_option() {
  Option out = device_option();
  out.value = "NAME|cuda:0,1";
  out.key.doc +=
      " cuda:0,1 and more: the rows of each step are shared by these GPUs of the machine.";
  return out;
}

// Refuses a run directory in the place of the run file.
void refuse_run_directory(const fs::path& path) {
  std::error_code ignored;
  const fs::path config = path / "config.toml";
  if (!fs::is_directory(path, ignored) || !fs::exists(config, ignored)) return;
  throw UserError(
      ExitCode::usage,
      {path.string(),
       "is the directory of a run; expected a run file",
       {fmt::format("`lamina train {}` continues the run in it", shell_path(config.string()))}});
}

// config.toml is UTF-8 and has absolute paths.
void refuse_unwritable_directory() {
  std::error_code ignored;
  const std::string here = fs::current_path(ignored).string();
  if (find_invalid_utf8(here) == here.npos) return;
  throw UserError(ExitCode::usage,
                  {here,
                   "is the current directory, whose name is not UTF-8; config.toml of a run cannot "
                   "record its paths",
                   {"rename it, or train in another directory"}});
}

int run_train(const Arguments& arguments, const Device& device) {
  catch_stop_signals();  // before anything that takes time
  refuse_unwritable_directory();
  refuse_run_directory(arguments.positionals[0]);
  config::Overrides overrides{arguments.texts("set"), config::process_environment(),
                              quantise_settings(arguments)};
  if (arguments.has("out"))
    overrides.options.push_back(
        {"--out " + arguments.text("out"),
         "run.out=" + config::toml_quote(fs::absolute(arguments.text("out")).string())});
  config::RunConfig c = config::load_run(arguments.positionals[0], overrides);
  const std::vector<const Device*> devices = device::open_all(arguments.text("device"));
  if (devices.size() > 1) train::share_among(c, static_cast<int>(devices.size()));
  train::check_output_folders(c);
  if (arguments.flag("fit") || arguments.flag("dry-run"))
    return show_train_plan(arguments, c, devices);
  require_computing(device);
  try {
    return train_run(arguments, c, device, devices);
  } catch (const StopAsked&) {
    return stopped_early(arguments, c.run.out);
  }
}

}  // namespace

Command train_command() {
  return {
      .name = "train",
      .summary = "trains the model of a run file",
      .details =
          "Writes metrics, log and checkpoints to the run directory. SIGINT or SIGTERM saves and "
          "exits with 75; the same command line resumes the run, to the same bits. SIGUSR1 "
          "saves and continues.",
      .options = {set_option(),
                  training_device_option(),
                  training_quantize_option(),
                  training_quantize_rule_option(),
                  text_option("out", 'o', "DIR", "The run directory; overrides run.out."),
                  {.key = {.name = "resume",
                           .type = Type::string,
                           .preset = Value("auto"),
                           .doc = "auto: from the newest checkpoint of the run directory that is "
                                  "not damaged, if any; none; or a checkpoint: newer ones "
                                  "are then set aside.",
                           .path = true},
                   .value = "auto|none|PATH"},
                  text_option("profile", 0, "steps=FIRST:LAST",
                              "Time every kernel of these steps: a table on stderr, and "
                              "profile.json in the run directory for trace viewers."),
                  {.key = {.name = "dry-run",
                           .type = Type::boolean,
                           .doc = "Print the data, memory and disk that the run needs, and exit."}},
                  {.key = {.name = "fit",
                           .type = Type::boolean,
                           .doc = "Print the microbatch and rematerialisation with which the run "
                                  "fits into the available memory, as lines for the run "
                                  "file, and exit."}},
                  flag_option(
                      "json",
                      "Print one JSON object per step on stdout; with --dry-run or --fit, a "
                      "single object.")},
      .positionals = {{.name = "RUN.toml", .doc = "The run file."}},
      .examples = {"lamina train configs/train/quickstart.toml",
                   "lamina train run.toml --set train.steps=100 --out runs/short"},
      .run = run_train,
      .takes_several_devices = true,
      .takes_described_devices = true};
}

}  // namespace lamina::cli
