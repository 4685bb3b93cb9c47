#include "train/loop/run.h"

#include <algorithm>

#include "config/listing.h"
#include "core/error.h"
#include "core/log.h"
#include "decoder/call_limits.h"
#include "io/directories.h"
#include "io/directory_commit.h"
#include "io/durable_file.h"
#include "train/loop/run_directory.h"
#include "train/optimizer/parameter_groups.h"

namespace lamina::train {

config::Table model_values(const decoder::Model& model) {
  config::Table out;
  for (const config::Entry& entry : model.config().values().entries()) {
    const registry::ModelKey* key = model.family().find_key(entry.key);
    if (!key || !key->json_only) out.add(entry);
  }
  return out;
}

namespace {

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

std::shared_ptr<const Task> task_of(const config::RunConfig& run) {
  if (run.data.form == "preference") return preference_task(run.preference);
  if (!run.distillation.teacher.empty())
    return distillation_task(run.distillation, config::place_in(run));
  return next_token_task();
}

}  // namespace

LoopOptions loop_options(const config::RunConfig& run, int num_ranks) {
  return {.train = run.train,
          .optimizer = run.optimizer,
          .schedule = run.schedule,
          .checkpoint = run.checkpoint,
          .sequence_length = run.data.sequence_length,
          .seed = run.run.seed,
          .task = task_of(run),
          .reference_folder = run.data.store == "none" ? "" : run.data.store,
          .out = run.run.out,
          .place = config::place_in(run),
          .num_ranks = num_ranks};
}

config::DataSection data_section(const config::RunConfig& run, const std::string& inherited) {
  config::DataSection out = run.data;
  if (!inherited.empty()) out.tokenizer = inherited;
  return out;
}

ErrorText with_place(const config::RunConfig& run, const data::NoFiles& error) {
  const bool trains = std::ranges::find(run.data.train, error.pattern()) != run.data.train.end();
  const std::string key = trains ? "data.train" : "data.validation";
  ErrorText text = error.text();
  text.what = fmt::format("{}: {}", text.where, text.what);
  text.where = config::place_in(run)(key);
  const config::Entry* entry = run.values.find(key);
  if (entry && entry->origin.kind == config::Origin::Kind::run_file)
    text.notes = {"check the path; it is relative to the folder of the run file"};
  return text;
}

void share_among(config::RunConfig& run, int num_ranks) {
  const config::KeyPlace place = config::place_in(run);
  const auto refuse = [&](const char* key, std::string what, std::string note) {
    throw UserError(ExitCode::usage, {place(key), std::move(what), {std::move(note)}});
  };
  if (run.train.batch_size % num_ranks != 0)
    refuse(
        "train.batch_size",
        fmt::format("is {} rows, which {} devices cannot share", run.train.batch_size, num_ranks),
        fmt::format("use a multiple of {}", num_ranks));
  const std::int64_t share = run.train.batch_size / num_ranks;
  const config::Entry* entry = run.values.find("train.microbatch_size");
  const bool is_default = entry && entry->origin.kind == config::Origin::Kind::preset;
  if (is_default || run.optimizer.in_backward) run.train.microbatch_size = share;
  if (share % run.train.microbatch_size != 0)
    refuse("train.microbatch_size",
           fmt::format("is {}; each of {} devices has {} of the {} rows of a step",
                       run.train.microbatch_size, num_ranks, share, run.train.batch_size),
           fmt::format("use a divisor of {}", share));
}

void set_learning(decoder::Model& model, const config::RunConfig& run) {
  const LoopOptions options = loop_options(run);
  set_learning(model, options.optimizer, options.step().shape, options.place, *options.task);
}

void check_vocabulary(const text::Tokenizer& tokenizer, const decoder::Model& model,
                      const config::RunConfig& run) {
  if (tokenizer.num_own_ids() <= model.vocab_size()) return;
  throw UserError(
      ExitCode::usage,
      {"model.vocab_size",
       fmt::format("is {}; the tokenizer has {} ids", model.vocab_size(), tokenizer.num_own_ids()),
       {model.config().describe("vocab_size"),
        run.train.from.empty()
            ? "raise it to at least that"
            : fmt::format("raise it to at least that, and name the new rows: train.fresh = "
                          "[\"embed.weight\"{}]",
                          model.parameters().find("head.weight") < 0 ? "" : ", \"head.weight\"")}});
}

void check_resume(const config::RunConfig& run, const decoder::Model& model,
                  const std::string& resume) {
  const Resumption would_resume(
      resume, run.run.out,
      config::resolved_run_file(run, model.family().name(), model_values(model)));
}

Run::Run(const config::RunConfig& config, const decoder::Model& model, const std::string& resume,
         const Backend& backend, const data::LoadHooks& hooks, Inherited inherited,
         CommunicatorGroup* group)
    : inherited_(std::move(inherited)), options_(loop_options(config, group ? group->size() : 1)) {
  decoder::check_training_length(model, options_.sequence_length,
                                 options_.place("data.sequence_length"));
  remat_ = remat_policy(options_.step(), model, options_.place);
  const config::DataSection data = data_section(config, inherited_.directory);
  tokenizer_ = data::load_tokenizer(data);
  check_vocabulary(*tokenizer_, model, config);
  if (hooks.between) hooks.between();
  lock_.emplace(options_.out);
  run_file_ = config::resolved_run_file(config, model.family().name(), model_values(model));
  resumption_.emplace(resume, options_.out, run_file_);
  data_ = with_data_places(config, [&] {
    return data::load_data(data, options_.seed, *tokenizer_, model.vocab_size(), hooks);
  });
  loop_ = std::make_unique<Loop>(
      LoopInputs{options_, model, *tokenizer_, data_->train,
                 data_->validation.empty() ? nullptr : &data_->validation.front(),
                 data_->fingerprint, run_file_, model_file(model), inherited_.teachers,
                 inherited_.weights.get(), inherited_.files, !resumption_->checkpoint().empty(),
                 hooks.workers, [this] { check_directory(); }, group},
      backend);
  inherited_.weights.reset();  // unmaps their files
  if (hooks.between) hooks.between();
  resumption_->load(*loop_);
  if (hooks.between) hooks.between();
  loop_->prepare(hooks.between);
}

void Run::check_directory() {
  if (!lock_->renew()) return;
  start();
  log::set_file(options_.out + "/log.txt");
  log::warning(
      "{} was removed while this run trains in it, and is made again for later files; earlier "
      "metrics and log are lost, copy the next checkpoint to a safe place",
      options_.out);
}

void Run::start() const {
  const std::string checkpoints = checkpoints_directory(options_.out);
  io::make_folder(checkpoints);
  io::remove_leftovers(checkpoints);
  io::write_durably(options_.out + "/config.toml", run_file_);
}

}  // namespace lamina::train
