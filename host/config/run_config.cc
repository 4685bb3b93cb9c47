// Loads run files and models: layers, the model reference, checks across keys.
#include "config/run_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/file_faults.h"
#include "config/key_paths.h"
#include "config/layer_pair.h"
#include "config/model_text.h"
#include "config/published_keys.h"
#include "config/wrapper.h"
#include "core/without_dots.h"

namespace lamina::config {
namespace {

// `model = "..."` is short for [model] path = "...".
void expand_short_model(Raw& raw) {
  for (RawEntry& entry : raw.entries)
    if (entry.key == "model") entry.key = "model.path";
}

void append_overrides(Raw& raw, const Overrides& overrides) {
  raw.append(parse_environment(overrides.environment));
  for (const std::string& assignment : overrides.sets) raw.append(parse_override(assignment));
  for (const OptionSetting& setting : overrides.options)
    raw.append(parse_override(setting.assignment, setting.option));
}

// The keys of a run file that concern the model.
const Schema& model_schema() {
  static const Schema schema = [] {
    Schema out;
    for (const Section& section : run_schema().sections)
      if (section.name.empty() || section.name == "model") out.sections.push_back(section);
    return out;
  }();
  return schema;
}

Raw read_config_json(const std::filesystem::path& path) {
  Raw raw = read_json(path, "model.");
  lift_text_config(raw);
  return raw;
}

Raw read_model_file(const std::filesystem::path& path, const std::string& from) {
  std::error_code failure;
  auto status = std::filesystem::status(path, failure);
  if (status.type() == std::filesystem::file_type::not_found)
    throw UserError(ExitCode::usage, {path.string(), "no such model file or directory",
                                      from.empty() ? std::vector<std::string>{}
                                                   : std::vector<std::string>{"named at " + from}});
  if (std::filesystem::is_directory(status)) {
    if (!std::filesystem::exists(path / "config.json", failure))
      user_error(ExitCode::checkpoint, path.string(), "has no config.json: not a model directory");
    return read_config_json(path / "config.json");
  }
  if (path.extension() == ".json") return read_config_json(path);
  if (path.extension() == ".gguf")
    throw UserError(ExitCode::usage,
                    {path.string(),
                     "is a GGUF file; a run starts from a model directory or a TOML file",
                     {"`lamina decode` and `lamina chat` read GGUF files"}});
  Raw raw = read_toml(path, Origin::Kind::model_file);
  for (const RawEntry& entry : raw.entries)
    if (entry.key == "model" || entry.key == "model.path")
      user_error(ExitCode::usage, entry.origin.text, "a model file cannot refer to another model");
  return raw;
}

// Resolves the values of a file that describes a model.
Resolved resolve_file(const Raw& raw, const std::string& where) {
  const auto read = [&] { return resolve(model_schema(), raw, where); };
  return is_published(where) ? with_file_faults(read, read) : read();
}

// The keys of config.json that identify the family of a model.
const Schema& identity_schema() {
  static const Schema schema = {{{"model",
                                  "",
                                  {{.name = "model_type", .type = Type::string},
                                   {.name = "text_config.model_type", .type = Type::string},
                                   {.name = "architectures", .type = Type::list},
                                   {.name = std::string(kOwnFamily), .type = Type::string}},
                                  true}}};
  return schema;
}

// Takes the name of the family from the object "lamina"; null is no name. A family given elsewhere
// replaces it.
void take_own_family(const Table& identity, ModelSource& model) {
  const std::string key = fmt::format("model.{}", kOwnFamily);
  std::erase_if(model.raw.nulls, [&](const RawSection& null) { return null.key == key; });
  const Entry* own = identity.find(key);
  if (own == nullptr || !is_json(own->origin)) return;
  if (model.family.empty()) {
    model.family = identity.string(key);
    model.family_where = own->origin.text;
  }
  std::erase_if(model.raw.entries,
                [&](const RawEntry& entry) { return entry.key == key && is_json(entry.origin); });
}

void set_family(ModelSource& model, const Table& values) {
  if (!values.has("family")) return;
  model.family = values.string("family");
  model.family_where = values.where("family");
}

void read_identity(ModelSource& model) {
  const Table values = with_file_faults(
      [&] { return resolve(identity_schema(), model.raw, model.where).values; },
      [&] { return resolve(identity_schema(), published_part(model.raw), model.where).values; });
  if (values.has("model.model_type")) model.model_type = values.string("model.model_type");
  if (values.has("model.text_config.model_type"))
    model.text_model_type = values.string("model.text_config.model_type");
  if (values.has("model.architectures"))
    for (const Value& name : values.list("model.architectures"))
      model.architectures.push_back(*name.get_if<std::string>());
  take_own_family(values, model);
}

// Returns the file that describes the model at `path`.
std::string description_at(const std::filesystem::path& path) {
  std::error_code failure;
  return (std::filesystem::is_directory(path, failure) ? path / "config.json" : path).string();
}

// A run file and the model file that it names have one family; --set may replace it.
void check_family(const Table& run, const Table& model_file) {
  const Entry* given = run.find("family");
  if (!given || given->origin.kind != Origin::Kind::run_file || !model_file.has("family")) return;
  const std::string family = model_file.string("family");
  if (given->value != Value(family))
    throw UserError(ExitCode::usage,
                    {given->origin.text,
                     fmt::format("'family' is {}, but the model of {} is of family \"{}\"",
                                 to_toml(given->value), model_file.where("family"), family),
                     {"remove it, or name a model file of that family"}});
}

// Builds the model from a referenced file, overridden by `own`, the [model] entries of a run file.
ModelSource make_model(const std::string& path, const std::string& path_origin,
                       const std::string& where, const Table& top, Raw own) {
  ModelSource model{path, where, "", "", "", {}, {}};
  if (!path.empty()) {
    Resolved resolved = resolve_file(read_model_file(path, path_origin), path);
    model.raw = std::move(resolved.rest);
    set_family(model, resolved.values);
    model.where = description_at(path);
    check_family(top, resolved.values);
  }
  model.raw.append(std::move(own));
  set_family(model, top);
  read_identity(model);
  return model;
}

std::string divisors(std::int64_t number) {
  std::vector<std::string> out;
  for (std::int64_t i = 1; i <= number && i <= 1024 && out.size() < 12; ++i)
    if (number % i == 0) out.push_back(std::to_string(i));
  if (out.size() == 1) return out[0];
  std::string last = out.back();
  out.pop_back();
  return fmt::format("{} or {}", fmt::join(out, ", "), last);
}

std::map<std::string, std::string> read_remat_tags(const Table& values) {
  constexpr std::string_view kPrefix = "train.remat_tags.";
  std::map<std::string, std::string> out;
  for (const Entry& entry : values.entries())
    if (entry.key.starts_with(kPrefix))
      out[entry.key.substr(kPrefix.size())] = values.string(entry.key);
  return out;
}

// Returns the folder without a last "/" or "/.".
std::filesystem::path plain_folder(const std::string& folder) {
  const std::filesystem::path out = without_dots(folder);
  return out.has_filename() ? out : out.parent_path();
}

// `folder` is a plain_folder().
std::filesystem::path folder_above(const std::filesystem::path& folder) {
  const bool is_dots = folder.filename() == "." || folder.filename() == "..";
  return is_dots ? without_dots(folder / "..") : folder.parent_path();
}

// Fills in defaults that depend on other values.
void fill_computed(RunConfig& c, Table& values) {
  auto fill = [&values](const std::string& key, const Value& value) {
    values.put(
        {key, value, {Origin::Kind::preset, "default: " + run_schema().find(key)->preset_text}});
  };
  if (c.run.name.empty()) fill("run.name", c.run.name = c.file.stem().string());
  if (c.run.out.empty()) fill("run.out", c.run.out = "runs/" + c.run.name);
  // Every spelling of a run directory means the same paths in it and beside it.
  const std::filesystem::path out = plain_folder(c.run.out);
  Entry named = *values.find("run.out");
  named.value = c.run.out = out.string();
  values.put(std::move(named));
  if (!values.has("data.tokenizer"))
    fill("data.tokenizer", c.data.tokenizer = c.train.from.empty() ? "byte" : c.train.from);
  if (c.data.store.empty())
    fill("data.store", c.data.store = (folder_above(out) / "tokens").string());
  if (c.lora.alpha == 0) fill("lora.alpha", c.lora.alpha = static_cast<double>(c.lora.rank));
  if (c.train.microbatch_size == 0)
    fill("train.microbatch_size", c.train.microbatch_size = c.train.batch_size);
}

void check_schedule(const RunConfig& c, Problems& problems) {
  const ScheduleSection& s = c.schedule;
  const std::int64_t steps = s.steps.value_or(c.train.steps);
  if (s.kind == "wsd") {
    const std::int64_t decay = s.used_decay_steps(steps);
    if (s.warmup_steps + decay > steps)
      problems.add(
          {c.values.where(s.decay_steps ? "schedule.decay_steps" : "schedule.warmup_steps"),
           fmt::format("'schedule.warmup_steps' = {} and 'schedule.decay_steps' = {}{} "
                       "exceed the {} steps of the schedule",
                       s.warmup_steps, decay, s.decay_steps ? "" : " (default)", steps),
           {}});
  } else if (s.steps && s.warmup_steps > *s.steps) {  // of a run that is shorter: a warning
    problems.add({c.values.where("schedule.warmup_steps"),
                  fmt::format("'schedule.warmup_steps' is {}, more than 'schedule.steps' = {}: the "
                              "learning rate never reaches its peak",
                              s.warmup_steps, *s.steps),
                  {"raise schedule.steps, or lower schedule.warmup_steps"}});
  }
}

// Returns true if a source that overrides the key's own, eg: --set over a run file, gave the value
// that leaves the key without effect.
bool is_overruled(const Entry& key, const Requirement& unmet, const Table& values) {
  for (const std::string& name : {unmet.key, unmet.or_key})
    if (const Entry* other = values.find(name); other && other->origin.kind > key.origin.kind)
      return true;
  return false;
}

// Refuses keys that were given although other values leave them without effect. Overriding one
// value of a run file must not mean changing the others, and `false` asks for nothing.
void check_requirements(const RunConfig& c, Problems& problems) {
  for (const Entry& entry : c.values.entries()) {
    const Key* key = run_schema().find(entry.key);
    if (!key || entry.origin.kind == Origin::Kind::preset) continue;
    const Requirement* unmet = unmet_requirement(run_schema(), *key, c.values);
    if (!unmet || entry.value == Value(false) || is_overruled(entry, *unmet, c.values)) continue;
    std::string what = fmt::format("has no effect without '{}'", unmet->key),
                advice = "set " + unmet->key;
    if (!unmet->or_key.empty()) {
      what += fmt::format(" or '{}'", unmet->or_key);
      advice += " or " + unmet->or_key;
    }
    if (!unmet->values.empty()) {
      what = fmt::format("requires {} = {}, got {}", unmet->key, join_choices(unmet->values),
                         to_toml(c.values.find(unmet->key)->value));
      advice += " = " + join_choices(unmet->values);
    }
    problems.add(
        {entry.origin.text, fmt::format("'{}' {}", entry.key, what), {advice + ", or remove it"}});
  }
}

// Refuses values of the update rule that cannot be combined.
void check_optimizer(const RunConfig& c, Problems& problems) {
  const OptimizerSection& o = c.optimizer;
  const OptimizerSection preset;
  if (o.moments == "8bit" && o.name == "muon")
    problems.add({c.values.where("optimizer.moments"),
                  "'optimizer.moments' = \"8bit\" requires adamw, sgd or lion, got muon",
                  {"use \"bfloat16\""}});
  const bool splits = std::ranges::any_of(
      o.groups, [](const ParameterGroup& group) { return !group.split_rows.empty(); });
  const Entry* groups = c.values.find("optimizer.groups");
  if (splits && o.name != "muon" &&
      !(groups && is_overruled(*groups, {.key = "optimizer.name"}, c.values)))
    problems.add({c.values.where("optimizer.groups"),
                  fmt::format("'split_rows' of a group requires optimizer.name = \"muon\", got "
                              "\"{}\"",
                              o.name),
                  {"remove it"}});
  if (o.lazy_embeddings && (o.moments != preset.moments || o.eps_root != preset.eps_root))
    problems.add({c.values.where("optimizer.lazy_embeddings"),
                  "'optimizer.lazy_embeddings' requires moments = \"float32\" and eps_root = 0",
                  {}});
}

// Refuses options that need all gradients of a step before the first update.
void check_in_backward(const RunConfig& c, Problems& problems) {
  if (!c.optimizer.in_backward) return;
  const auto refuse = [&](bool used, const char* what, const char* instead) {
    if (used)
      problems.add({c.values.where("optimizer.in_backward"),
                    fmt::format("'optimizer.in_backward' updates a layer before the gradients of "
                                "other layers exist, but {}",
                                what),
                    {fmt::format("use {}, or remove optimizer.in_backward", instead)}});
  };
  refuse(c.train.clip_norm > 0 && !c.train.clip_each,
         "'train.clip_norm' needs the norm of all gradients",
         "train.clip_norm = 0, or train.clip_each = true");
  refuse(c.train.microbatch_size < c.train.batch_size,
         "gradients of several microbatches are accumulated first",
         fmt::format("train.microbatch_size = {}", c.train.batch_size).c_str());
  refuse(c.train.skip_spikes > 0, "'train.skip_spikes' needs the norm of all gradients",
         "train.skip_spikes = 0");
}

// Refuses keys of other losses with preference data.
void check_preference(const RunConfig& c, Problems& problems) {
  if (c.data.form != "preference") return;
  for (const auto& [key, used] :
       {std::pair{"train.z_loss", c.train.z_loss > 0},
        std::pair{"train.label_smoothing", c.train.label_smoothing > 0},
        std::pair{"distillation.teacher", !c.distillation.teacher.empty()}})
    if (used)
      problems.add({c.values.where(key),
                    fmt::format("'{}' has no effect on preferences", key),
                    {"remove it"}});
}

void check_distillation(const RunConfig& c, Problems& problems) {
  for (const std::string& pair : c.distillation.hidden_layers)
    if (!parse_layer_pair(pair))
      problems.add({c.values.where("distillation.hidden_layers"),
                    fmt::format("'{}' is not a pair of layers", pair),
                    {"write a layer of the model and one of the teacher, eg: \"4:8\"; layers are "
                     "counted from 0, and \"last\" is the last one"}});
  if (!c.distillation.teacher.empty() && c.distillation.alpha == 1 && c.train.label_smoothing > 0 &&
      !is_overruled(*c.values.find("train.label_smoothing"), {.key = "distillation.alpha"},
                    c.values))
    problems.add(
        {c.values.where("train.label_smoothing"),
         "'train.label_smoothing' has no effect with 'distillation.alpha' = 1, which gives "
         "the label loss the weight 0",
         {"lower distillation.alpha, or remove it"}});
}

void check_across_keys(const RunConfig& c, const std::string& where) {
  Problems problems;
  const Table& values = c.values;
  if (c.train.batch_size % c.train.microbatch_size != 0)
    problems.add({values.where("train.microbatch_size"),
                  fmt::format("'train.microbatch_size' is {}, which does not divide "
                              "'train.batch_size' = {}",
                              c.train.microbatch_size, c.train.batch_size),
                  {fmt::format("use {}", divisors(c.train.batch_size))}});
  check_requirements(c, problems);
  check_schedule(c, problems);
  check_optimizer(c, problems);
  check_in_backward(c, problems);
  check_preference(c, problems);
  check_distillation(c, problems);
  if (c.train.eval_weights == "ema" && c.train.ema == 0)
    problems.add({values.where("train.eval_weights"),
                  "'train.eval_weights' = \"ema\" requires 'train.ema', which is 0",
                  {"set train.ema, eg: 0.999"}});
  if (c.data.train.empty())
    problems.add(
        {values.where("data.train"), "'data.train' must name at least one file, got []", {}});
  if (const std::size_t numbers = c.data.weights.size(), entries = c.data.train.size();
      numbers > 0 && numbers != entries)
    problems.add({values.where("data.weights"),
                  fmt::format("'data.weights' has {} number{}, but 'data.train' has {} {}", numbers,
                              numbers == 1 ? "" : "s", entries, entries == 1 ? "entry" : "entries"),
                  {"give one number per entry; a folder or a glob is one entry"}});
  if (!c.data.validation.empty() && c.data.validation_fraction > 0)
    problems.add({values.where("data.validation_fraction"),
                  "'data.validation_fraction' and 'data.validation' cannot be combined",
                  {"keep one; the other is at " + values.where("data.validation")}});
  if (!c.train.from.empty()) {
    // The directory may provide the model; it is compared with the values here later.
  } else if (c.model.family.empty() && c.model.path.empty() && c.model.raw.entries.empty())
    problems.add({where,
                  "the model is missing",
                  {"set model = \"DIR or FILE.toml\", or family = \"...\" and [model]"}});
  else if (c.model.family.empty() && c.model.model_type.empty() && c.model.architectures.empty()) {
    std::vector<std::string> notes = {"`lamina plugin list` prints the families"};
    for (const RawEntry& entry : c.model.raw.entries)
      if (entry.key == "model.family")
        notes.insert(
            notes.begin(),
            fmt::format("it belongs above all sections, not in [model] ({})", entry.origin.text));
    problems.add({where, "missing key 'family'", std::move(notes)});
  }
  problems.raise();
}

// Removes variables that concern runs but not models from `raw`. They are errors here only if they
// would be errors for a run.
void leave_out_run_variables(Raw& raw) {
  static const Schema nothing_required = [] {
    Schema out = run_schema();
    for (Section& section : out.sections)
      for (Key& key : section.keys) key.required = false;
    return out;
  }();
  auto of_a_run = [](const RawEntry& entry) {
    return entry.origin.kind == Origin::Kind::environment && !entry.key.starts_with("model.") &&
           entry.key != "family";
  };
  Raw of_runs;
  std::ranges::copy_if(raw.entries, std::back_inserter(of_runs.entries), of_a_run);
  resolve(nothing_required, of_runs, "");
  std::erase_if(raw.entries, of_a_run);
}

RunConfig resolve_run(Raw raw, const std::filesystem::path& path, bool is_new = true) {
  expand_short_model(raw);
  std::string where = path.string();
  Resolved resolved = resolve(run_schema(), raw, where);
  const Table& values = resolved.values;

  RunConfig c;
  c.file = path;
  c.run = read("run", run_fields(), values);
  c.data = read("data", data_fields(), values);
  c.train = read("train", train_fields(), values);
  c.train.remat_tags = read_remat_tags(values);
  c.lora = read("lora", lora_fields(), values);
  c.preference = read("preference", preference_fields(), values);
  c.distillation = read("distillation", distillation_fields(), values);
  c.optimizer = read("optimizer", optimizer_fields(), values);
  c.schedule = read("schedule", schedule_fields(), values);
  c.checkpoint = read("checkpoint", checkpoint_fields(), values);
  fill_computed(c, resolved.values);
  c.model = make_model(values.has("model.path") ? values.string("model.path") : "",
                       values.where("model.path", ""), where, values, std::move(resolved.rest));
  c.values = std::move(resolved.values);
  if (is_new) check_across_keys(c, where);
  return c;
}

}  // namespace

namespace {

// Refuses the directory of a run, a model or a checkpoint in the place of a run file.
void refuse_run_or_model_directory(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto has = [&](const char* name) { return std::filesystem::exists(path / name, ignored); };
  if (!std::filesystem::is_directory(path, ignored)) return;
  if (has("config.toml"))
    throw UserError(ExitCode::usage, {path.string(),
                                      "is the directory of a run; expected a run file",
                                      {"give its config.toml"}});
  if (has("config.json") || has("model.toml"))
    throw UserError(
        ExitCode::usage,
        {path.string(),
         "is the directory of a model; expected a run file",
         {fmt::format("name it in a run file, eg: train.from = {}", toml_quote(path.string()))}});
}

}  // namespace

RunConfig load_run(const std::filesystem::path& path, const Overrides& overrides) {
  refuse_run_or_model_directory(path);
  Raw raw = read_toml(path, Origin::Kind::run_file);
  append_overrides(raw, overrides);
  return resolve_run(std::move(raw), path);
}

RunConfig load_written_run(const std::filesystem::path& path, const std::string& run) {
  Raw raw = read_toml(path, Origin::Kind::run_file);
  if (!run.empty()) find_moved_paths(raw, run);
  return resolve_run(std::move(raw), path, false);
}

RunConfig parse_run(std::string_view text, const std::string& name) {
  return resolve_run(parse_toml(text, name, Origin::Kind::run_file), name);
}

namespace {

// Resolves the overrides of a model without a run file. They cannot replace the model itself.
Resolved resolve_overrides(const Overrides& overrides, const std::string& where) {
  Raw raw;
  append_overrides(raw, overrides);
  expand_short_model(raw);
  leave_out_run_variables(raw);
  Resolved out = resolve(model_schema(), raw, where);
  if (const Entry* other = out.values.find("model.path"))
    throw UserError(ExitCode::usage,
                    {other->origin.text,
                     "sets the model of a run file, but the command has a model",
                     {"give the command the other model, or set keys of this one: model.KEY"}});
  return out;
}

}  // namespace

void check_environment(const std::vector<std::string>& environment) {
  Raw raw = parse_environment(environment);
  expand_short_model(raw);
  leave_out_run_variables(raw);
}

ModelSource load_model(const std::filesystem::path& path, const Overrides& overrides) {
  Resolved resolved = resolve_overrides(overrides, path.string());
  return make_model(path.string(), "", path.string(), resolved.values, std::move(resolved.rest));
}

ModelSource parse_model(std::string_view config_json, const std::string& name,
                        const Overrides& overrides) {
  Resolved own = resolve_overrides(overrides, name);
  ModelSource model{name, name, "", "", "", {}, {}};
  model.raw = resolve_file(parse_json(config_json, name, "model."), name).rest;
  model.raw.append(std::move(own.rest));
  set_family(model, own.values);
  read_identity(model);
  return model;
}

bool is_run_file(const std::filesystem::path& path) {
  if (path.extension() != ".toml") return false;
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  // If the status is unknown, read_toml() reports the reason.
  if (status_known(status) && !is_regular_file(status)) return false;
  Raw raw = read_toml(path, Origin::Kind::run_file);
  auto of_a_run = [](const std::string& key) {
    return key != "family" && key != "model" && !key.starts_with("model.");
  };
  expand_short_model(raw);
  return std::ranges::any_of(raw.entries, of_a_run, &RawEntry::key) ||
         std::ranges::any_of(raw.sections, of_a_run, &RawSection::key) ||
         std::ranges::find(raw.entries, "model.path", &RawEntry::key) != raw.entries.end();
}

KeyPlace place_in(const RunConfig& config) {
  return [&config](std::string_view key) {
    return fmt::format("{}: {}", config.values.where(key), key);
  };
}

}  // namespace lamina::config
