// lamina train: trains the model of a run file.
#include <fmt/format.h>

#include <filesystem>

#include "backends/cpu/backend.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/loss_curve.h"
#include "cli/open_model.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/units.h"
#include "cli/version.h"
#include "config/listing.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "data/load.h"
#include "io/directory_commit.h"
#include "io/durable_file.h"
#include "train/baseline.h"
#include "train/gradients.h"
#include "train/loop.h"
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

// The checkpoint that --resume leads to; "" to start afresh.
std::string checkpoint_to_resume(const std::string& resume, const std::string& out) {
  if (resume == "auto") return train::newest_checkpoint(out);
  if (resume == "none") {
    if (!train::list_checkpoints(out).empty())
      throw UserError(
          ExitCode::usage,
          {out,
           "has checkpoints of an earlier run, which --resume none would mix with new ones",
           {"choose another --out, or --resume auto"}});
    return "";
  }
  std::string path = resolve_model_directory(resume);
  if (!fs::exists(fs::path(path) / "optimizer.safetensors") &&
      !fs::exists(fs::path(path) / "optimizer.safetensors.index.json"))
    throw UserError(ExitCode::checkpoint,
                    {path, "holds no optimizer state, so it is no checkpoint to resume from", {}});
  return path;
}

// Keys that shape a run must be as they were; hot ones may change and are named.
void check_same_run(const std::string& checkpoint, const std::string& now_path) {
  config::RunConfig before = config::load_run(fs::path(checkpoint) / "run.toml");
  config::RunConfig now = config::load_run(now_path);
  std::vector<std::string> notes;
  for (const config::Difference& d : config::differences(before, now)) {
    if (d.hot) {
      log::info("{} is {} now, it was {}", d.key, d.now, d.before);
      continue;
    }
    notes.push_back(fmt::format("{} was {} and is {} now", d.key,
                                d.before.empty() ? "absent" : d.before,
                                d.now.empty() ? "absent" : d.now));
  }
  if (notes.empty()) return;
  notes.push_back("go on with the old values, or start a new run with another --out");
  throw UserError(ExitCode::usage,
                  {checkpoint, "belongs to a run with other settings", std::move(notes)});
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
  log::info("data    {} tokens in {} rows of {}; {} rows to validate on",
            thousands_text(static_cast<std::int64_t>(data.counts.num_tokens)),
            thousands_text(static_cast<std::int64_t>(data.train.num_rows())),
            c.data.sequence_length,
            data.validation.empty()
                ? "no"
                : thousands_text(static_cast<std::int64_t>(data.validation.front().num_rows())));
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

int run(const Arguments& arguments) {
  std::vector<std::string> sets = arguments.texts("set");
  if (arguments.given("out"))
    sets.push_back("run.out=" + config::toml_quote(fs::absolute(arguments.text("out")).string()));
  config::RunConfig c =
      config::load_run(arguments.positionals[0], {sets, config::process_environment()});
  Globals globals = arguments.globals;
  if (!globals.threads) globals.threads = c.run.threads;
  apply_threads(globals);
  decoder::Model model = make_model(
      c.model, globals, {.scan_layers = c.train.scan_layers, .compress_tokens = [&](std::int64_t) {
                           return compressed_tokens(*data::load_tokenizer(c.data));
                         }});
  model.check_length(c.data.sequence_length, "data.sequence_length");
  const autodiff::RematPolicy remat = train::remat_policy(c, model);
  std::unique_ptr<text::Tokenizer> tokenizer = data::load_tokenizer(c.data);
  if (tokenizer->vocab_size() > model.vocab_size())
    throw UserError(ExitCode::usage, {"model.vocab_size",
                                      fmt::format("is {}; the tokenizer has {} ids",
                                                  model.vocab_size(), tokenizer->vocab_size()),
                                      {"raise it to at least that"}});
  data::RunData data = data::load_data(c.data, c.run.seed, *tokenizer, model.vocab_size());

  std::string resume = checkpoint_to_resume(arguments.text("resume"), c.run.out);
  std::string run_file = config::resolved_run_file(c, model.family().name(), model_values(model));
  fs::create_directories(train::checkpoints_directory(c.run.out));
  io::remove_leftovers(train::checkpoints_directory(c.run.out));
  for (const std::string& path : train::set_aside_damaged(c.run.out))
    log::warning(
        "{} has no manifest.json, so it is no whole checkpoint; look into it and remove it", path);
  std::string config_path = c.run.out + "/config.toml";
  if (!resume.empty()) {
    std::string candidate = config_path + ".resumed";
    io::write_durably(candidate, run_file);
    check_same_run(resume, candidate);
    fs::remove(candidate);
  }
  io::write_durably(config_path, run_file);
  log::set_file(c.run.out + "/log.txt");
  log::info("{}, plugin {} {}", version_line(), model.family().plugin().id,
            model.family().plugin().version);

  train::Loop loop({c, model, *tokenizer, data.train,
                    data.validation.empty() ? nullptr : &data.validation.front(), data.fingerprint,
                    run_file, model_file(model)},
                   cpu::cpu_backend());
  print_banner(model, c, data, loop);
  if (!remat.offloaded.empty())
    log::info("remat   {} stay in memory: the CPU backend has no other memory to offload to",
              fmt::join(remat.offloaded, ", "));
  if (!resume.empty()) {
    loop.resume(resume);
    log::info("resume  {} (step {})", resume, loop.progress().step);
  }

  catch_stop_signals();
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
    log::info("stopped after step {}; `lamina train {} --resume auto` goes on from there",
              result.progress.step, arguments.positionals[0]);
    return static_cast<int>(ExitCode::resumable);
  }
  if (std::string curve = loss_curve(training, validation);
      !curve.empty() && !arguments.globals.quiet)
    log::info("{}", curve);
  if (result.validation_loss) {
    auto baseline = train::bigram_loss(data.train, data.validation.front(), model.vocab_size());
    log::info(
        "validation loss {:.4f}{}", *result.validation_loss,
        baseline ? fmt::format("; a bigram model of the same tokens has {:.4f}", *baseline) : "");
  }
  log::info("done; `lamina decode -m {} -p \"...\"` continues a text", c.run.out);
  return 0;
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
                           .doc = "auto: from the newest checkpoint of the run directory, if any; "
                                  "none; or a checkpoint."},
                   .value = "auto|none|PATH"},
                  json_option()},
      .positionals = {{.name = "RUN.toml", .doc = "The run file."}},
      .examples = {"lamina train configs/train/quickstart.toml",
                   "lamina train run.toml --set train.steps=100 --out runs/short"},
      .run = run};
}

}  // namespace lamina::cli
