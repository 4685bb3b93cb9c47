// lamina train: trains the model of a run file.
#include <fmt/format.h>

#include <filesystem>

#include "backends/cpu/backend.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/data_lines.h"
#include "cli/loss_curve.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/units.h"
#include "cli/version.h"
#include "config/listing.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "data/load.h"
#include "decoder/call_limits.h"
#include "io/directory_commit.h"
#include "io/directory_lock.h"
#include "io/durable_file.h"
#include "model/open.h"
#include "train/baseline.h"
#include "train/gradients.h"
#include "train/loop.h"
#include "train/resumption.h"
#include "train/run_directory.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

// The values of [model] as a file may give them: without the keys that only config.json knows.
config::Table model_values(const decoder::Model& model) {
  config::Table out;
  for (const config::Entry& entry : model.config().values().entries()) {
    const registry::ModelKey* key = model.family().find_key(entry.key);
    if (!key || !key->json_only) out.add(entry);
  }
  return out;
}

std::string model_file(const decoder::Model& model) {
  std::vector<config::Entry> entries{{"family",
                                      config::Value(model.family().name()),
                                      {config::Origin::Kind::preset, "the plugin"}}};
  const config::Table values = model_values(model);
  for (config::Entry entry : values.entries()) {
    entry.key.insert(0, "model.");
    entries.push_back(std::move(entry));
  }
  return config::to_toml(entries);
}

// Thrown between the parts of getting ready.
struct StopAsked {};

void end_if_asked() {
  if (stop_signal() != 0) throw StopAsked{};
}

// `word` as a shell reads it back.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  std::string out = "'";
  for (char c : word) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

// The command line that goes on with this run.
std::string command_to_go_on(const Arguments& a) {
  std::string out = "lamina train " + shell_word(a.positionals[0]);
  auto add = [&](const std::string& option, const std::string& value) {
    out += " --" + option + " " + shell_word(value);
  };
  if (a.given("out")) add("out", a.text("out"));
  for (const std::string& set : a.texts("set")) add("set", set);
  for (const std::string& plugin : a.globals.plugins) add("plugin", plugin);
  for (const std::string& folders : a.globals.plugin_folders) add("plugin-path", folders);
  if (a.globals.threads) add("threads", std::to_string(*a.globals.threads));
  if (a.globals.quiet) out += " --quiet";
  if (a.flag("json")) out += " --json";
  return out + " --resume auto";
}

// What there is to say, and the exit code, when the stop came before the loop.
int stopped_early(const Arguments& arguments, const std::string& run) {
  const std::string newest = train::newest_checkpoint(run);
  if (newest.empty()) {
    log::info("stopped before the first step; nothing was done yet");
    return 128 + stop_signal();
  }
  log::info("stopped before the first step; `{}` goes on from {}", command_to_go_on(arguments),
            newest);
  return static_cast<int>(ExitCode::resumable);
}

void print_banner(const decoder::Model& model, const config::RunConfig& c,
                  const data::RunData& data, const train::Loop& loop) {
  std::int64_t embedding = 0;
  for (const decoder::Parameter& p : model.parameters().all())
    if (p.layer < 0 && p.desc.shape.ndim() == 2) embedding += p.num_elements();
  std::vector<std::string> blocks;
  for (const registry::Block& block : model.family().blocks()) {
    blocks.resize(std::max<std::size_t>(blocks.size(), block.id + 1));
    blocks[block.id] = block.name;
  }
  log::info("model   {}: {} parameters, {} of them in embeddings; {}", model.family().name(),
            thousands_text(model.parameters().num_elements()), thousands_text(embedding),
            decoder::to_string(model.stack(), blocks));
  std::string_view label = "data";
  for (const std::string& line : data_lines(data)) {
    log::info("{:<7} {}", label, line);
    label = "";
  }
  log::info("run     {} steps of {} tokens, {}, seed {}; {} of state, {} of temporaries",
            thousands_text(c.train.steps),
            thousands_text(c.train.batch_size * c.data.sequence_length), long_name(c.train.dtype),
            c.run.seed, bytes_text(static_cast<double>(loop.state_bytes())),
            bytes_text(static_cast<double>(loop.arena_bytes())));
  log::info("out     {}", c.run.out);
}

void print_json_step(const train::LoopEvents::Step& event) {
  JsonWriter json;
  json.begin_object().key("event").value("step").key("step").value(event.step);
  json.key("train/loss")
      .value(event.result.loss)
      .key("train/grad_norm")
      .value(event.result.gradient_norm);
  if (event.result.total != event.result.loss)
    json.key("train/total_loss").value(event.result.total);
  json.key("train/lr")
      .value(event.result.lr)
      .key("perf/step_seconds")
      .value(event.seconds)
      .end_object();
  print(json.text() + "\n");
}

// Runs the loop and shows it; the exit code.
int run_loop(const Arguments& arguments, const config::RunConfig& c, const data::RunData& data,
             std::int64_t vocab_size, train::Loop& loop) {
  bool json = arguments.flag("json");
  Progress progress(arguments.globals.quiet ? Progress::Style::none : Progress::Style::automatic,
                    c.train.log_every_steps, arguments.globals.color);
  std::vector<CurvePoint> training, validation;
  train::LoopEvents events;
  events.step = [&](const train::LoopEvents::Step& event) {
    progress.report({event.step, event.num_steps, event.result.loss, event.result.gradient_norm,
                     event.result.lr, event.result.num_labels, event.result.total});
    training.push_back({event.step, event.result.loss});
    if (json) print_json_step(event);
  };
  events.validation = [&](const train::LoopEvents::Validation& event) {
    validation.push_back({event.step, event.loss});
    log::info("step {}: validation loss {:.4f}{}", event.step, event.loss,
              event.mtp_acceptance.empty()
                  ? ""
                  : fmt::format(", mtp acceptance {}", percents_text(event.mtp_acceptance)));
  };
  events.checkpoint = [&](const std::string& path) { log::debug("saved {}", path); };
  events.should_stop = [] { return stop_signal() != 0; };
  events.should_save = [] { return take_save_request(); };
  train::LoopResult result = loop.run(events);
  progress.finish();

  if (result.stopped) {
    log::info("stopped after step {}; `{}` goes on from there", result.progress.step,
              command_to_go_on(arguments));
    return static_cast<int>(ExitCode::resumable);
  }
  if (std::string curve = loss_curve(training, validation);
      !curve.empty() && !arguments.globals.quiet)
    log::info("{}", curve);
  if (result.validation_loss) {
    auto baseline = train::bigram_loss(data.train, data.validation.front(), vocab_size);
    log::info(
        "validation loss {:.4f}{}", *result.validation_loss,
        baseline ? fmt::format("; a bigram model of the same tokens has {:.4f}", *baseline) : "");
  }
  log::info("done; `lamina decode -m {} -p \"...\"` continues a text", shell_word(c.run.out));
  return 0;
}

// Gets everything ready, and runs it.
int train_run(const Arguments& arguments, const config::RunConfig& c) {
  Globals globals = arguments.globals;
  if (!globals.threads) globals.threads = c.run.threads;
  apply_threads(globals);
  decoder::Model model = make_model(
      c.model, globals, {.scan_layers = c.train.scan_layers, .compress_tokens = [&](std::int64_t) {
                           return compressed_tokens(*data::load_tokenizer(c.data));
                         }});
  decoder::check_training_length(model, c.data.sequence_length, "data.sequence_length");
  const autodiff::RematPolicy remat = train::remat_policy(c, model);
  std::unique_ptr<text::Tokenizer> tokenizer = data::load_tokenizer(c.data);
  if (tokenizer->vocab_size() > model.vocab_size())
    throw UserError(ExitCode::usage, {"model.vocab_size",
                                      fmt::format("is {}; the tokenizer has {} ids",
                                                  model.vocab_size(), tokenizer->vocab_size()),
                                      {"raise it to at least that"}});
  end_if_asked();

  const io::DirectoryLock lock(c.run.out);
  const std::string run_file =
      config::resolved_run_file(c, model.family().name(), model_values(model));
  Resumption from(arguments.text("resume"), c.run.out, run_file);
  data::RunData data =
      data::load_data(c.data, c.run.seed, *tokenizer, model.vocab_size(), end_if_asked);
  train::Loop loop({c, model, *tokenizer, data.train,
                    data.validation.empty() ? nullptr : &data.validation.front(), data.fingerprint,
                    run_file, model_file(model)},
                   cpu::cpu_backend());
  end_if_asked();
  from.load(loop);
  end_if_asked();

  // Whatever could refuse this run has had its chance: only now is something changed.
  log::set_file(c.run.out + "/log.txt");
  log::info("{}, plugin {} {}", version_line(), model.family().plugin().id,
            model.family().plugin().version);
  if (!lock.problem().empty()) log::warning("{}", lock.problem());
  for (const std::string& change : from.changes()) log::info("{}", change);
  for (const std::string& warning : from.set_aside()) log::warning("{}", warning);
  fs::create_directories(train::checkpoints_directory(c.run.out));
  io::remove_leftovers(train::checkpoints_directory(c.run.out));
  io::write_durably(c.run.out + "/config.toml", run_file);
  print_banner(model, c, data, loop);
  if (!remat.offloaded.empty())
    log::info("remat   {} stay in memory: the CPU backend has no other memory to offload to",
              fmt::join(remat.offloaded, ", "));
  if (!from.checkpoint().empty())
    log::info("resume  {} (step {})", from.checkpoint(), loop.progress().step);
  return run_loop(arguments, c, data, model.vocab_size(), loop);
}

int run(const Arguments& arguments) {
  catch_stop_signals();  // before anything that takes time
  std::vector<std::string> sets = arguments.texts("set");
  if (arguments.given("out"))
    sets.push_back("run.out=" + config::toml_quote(fs::absolute(arguments.text("out")).string()));
  const config::RunConfig c =
      config::load_run(arguments.positionals[0], {sets, config::process_environment()});
  try {
    return train_run(arguments, c);
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
          "exits with 75; the same command line goes on from there, to the same bits. SIGUSR1 "
          "saves and goes on.",
      .options = {set_option(),
                  {.key = {.name = "out",
                           .type = Type::string,
                           .doc = "The run directory; overrides run.out."},
                   .short_name = 'o',
                   .value = "DIR"},
                  {.key = {.name = "resume",
                           .type = Type::string,
                           .preset = Value("auto"),
                           .doc = "auto: from the newest checkpoint of the run directory that is "
                                  "not damaged, if it has any; none; or a checkpoint: newer ones "
                                  "are then set aside."},
                   .value = "auto|none|PATH"},
                  json_option()},
      .positionals = {{.name = "RUN.toml", .doc = "The run file."}},
      .examples = {"lamina train configs/train/quickstart.toml",
                   "lamina train run.toml --set train.steps=100 --out runs/short"},
      .run = run};
}

}  // namespace lamina::cli
