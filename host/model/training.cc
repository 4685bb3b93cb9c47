#include "model/training.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/log.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "data/load.h"
#include "data/sources.h"
#include "lamina/names.h"
#include "model/adapter.h"
#include "model/export.h"
#include "model/start_keys.h"
#include "model/teacher.h"
#include "publishers/formats.h"
#include "registry/library.h"
#include "text/token_difference.h"
#include "train/loop/run_directory.h"
#include "weights/publish/peft_names.h"
#include "weights/publish/published_form.h"
#include "weights/quantise/quantise.h"

namespace lamina::model {
namespace {

namespace fs = std::filesystem;

std::string place_of(const config::RunConfig& run, std::string_view key) {
  return config::place_in(run)(key);
}

// Returns what `find` finds in the directory of train.from. An error about its path names the key.
template <typename Find>
auto find_in_start(const config::RunConfig& run, Find find) {
  const std::string& from = run.train.from;
  try {
    return find(from);
  } catch (const UserError& error) {
    ErrorText text = error.text();
    if (text.where != from) throw;
    text.what = fmt::format("{}: {}", from, text.what);
    text.where = place_of(run, "train.from");
    const config::Entry* entry = run.values.find("train.from");
    std::error_code none;
    if (entry && entry->origin.kind == config::Origin::Kind::run_file && !fs::exists(from, none))
      text.notes.emplace_back("check the path; it is relative to the folder of the run file");
    throw UserError(error.code(), std::move(text));
  }
}

Description describe_start(const config::RunConfig& run, const registry::Catalog& plugins) {
  return find_in_start(run, [&](const std::string& from) {
    return describe(from, plugins, {}, {}, WeightForm::published);
  });
}

std::unique_ptr<decoder::Model> make_model(const config::ModelSource& source,
                                           const registry::Catalog& plugins,
                                           const decoder::ModelOptions& options) {
  return std::make_unique<decoder::Model>(make(source, plugins, options));
}

weights::PeftConfig lora_of(const config::RunConfig& run) {
  return {.rank = run.lora.rank,
          .alpha = run.lora.alpha,
          .dropout = run.lora.dropout,
          .rslora = run.lora.rslora,
          .dora = run.lora.use_dora,
          .target_modules = run.lora.target_modules,
          .base = run.train.from};
}

// Builds a model with the adapter of [lora], else the adapter of `other`, a directory that may have
// one.
std::unique_ptr<decoder::Model> make_adapted(const config::ModelSource& source,
                                             const registry::Catalog& plugins,
                                             decoder::ModelOptions options,
                                             const config::RunConfig& run,
                                             const std::string& other) {
  auto model = make_model(source, plugins, options);
  if (run.lora.rank == 0 && other.empty()) return model;
  const auto make = [&](const decoder::Adapter& adapter) {
    options.adapter = adapter;
    return make_model(source, plugins, options);
  };
  if (run.lora.rank == 0) return make_with_adapter(*model, other, make);
  return make(adapter_of(*model, lora_of(run), place_of(run, "lora.target_modules")));
}

// Adds the adapter's PEFT configuration to the side files of every checkpoint, for a base that is
// published as in published.json.
void add_adapter_file(const config::RunConfig& run, const std::string& other, Training& out) {
  if (!out.model->adapter()) return;
  std::vector<train::SideFile>& files = out.inherited.files;
  const auto text = std::ranges::find(files, weights::kPublishedFormFile, &train::SideFile::name);
  std::optional<weights::PublishedForm> form;
  if (text != files.end()) form = weights::PublishedForm::of_text(text->bytes);
  const weights::PeftConfig config =
      run.lora.rank > 0 ? lora_of(run) : weights::read_peft_config(other);
  const weights::AdapterNames names(*out.model, form ? &*form : nullptr);
  files.push_back({std::string(publishers::kAdapterConfig),
                   weights::peft_config_text(names.for_peft(*out.model, config))});
  if (const std::string module = weights::module_named_as_experts(*out.model); !module.empty())
    log::warning(
        "PEFT 0.21 with transformers 5 does not apply the adapters of '{}', because experts' "
        "modules have the same name; `lamina ckpt merge` writes a model for it",
        module);
  if (const auto missing = weights::module_missing_in_base(*out.model, form ? &*form : nullptr))
    log::warning(
        "PEFT does not load an adapter of '{}', because transformers has separate modules; name "
        "these in lora.target_modules: \"{}\"; or `lamina ckpt merge` writes a model for it",
        missing->name, fmt::join(missing->parts, "\", \""));
}

// Warns about a base of an adapter that only lamina reads right.
void warn_of_joined(const std::string& base, const decoder::Model& model,
                    const weights::TensorMap& map) {
  if (map.own_names()) return;
  if (const std::string name = joined_tensor(model, map); !name.empty())
    log::warning(
        "{}: {} joins matrices that are published apart; transformers does not find them in it, "
        "and PEFT computes another model with the adapter; `lamina ckpt export --layout published` "
        "separates them",
        base, name);
}

// Returns whether both have the same matrices and compute the same sums. Settings of training may
// differ.
bool is_same_adapter(const decoder::Model& a, const decoder::Model& b) {
  const auto names_in = [](const decoder::Model& model) {
    std::set<std::string> out;
    for (const decoder::Parameter& p : model.parameters().all())
      if (decoder::is_adapter(p.name)) out.insert(p.name);
    return out;
  };
  const decoder::Adapter &x = *a.adapter(), &y = *b.adapter();
  const bool same_scale =
      std::abs(x.scale - y.scale) <= 1e-12 * std::abs(x.scale);  // read from a decimal
  return x.rank == y.rank && same_scale && x.dora == y.dora && names_in(a) == names_in(b);
}

// Returns the directory's description, overridden by keys of the run file.
config::ModelSource with_own_keys(const Description& from, const config::RunConfig& run) {
  if (!run.model.path.empty()) return run.model;
  config::ModelSource out = from.source;
  if (!run.model.family.empty()) {
    out.family = run.model.family;
    out.family_where = run.model.family_where;
  }
  config::Raw own = run.model.raw;
  out.raw.append(std::move(own));
  return out;
}

[[noreturn]] void other_family(const config::RunConfig& run, const std::string& given,
                               const std::string& source, std::vector<std::string> notes) {
  const bool has_key = run.values.has("family");  // else the model file determines it
  notes.emplace_back("remove it: with train.from the directory defines the family");
  throw UserError(
      ExitCode::usage,
      {has_key ? place_of(run, "family") : fmt::format("{}: model", run.values.where("model.path")),
       fmt::format("{} '{}', but {} is of family '{}'",
                   has_key ? "is" : "describes a model of family", given, run.train.from, source),
       notes});
}

// Builds the model of the run file from the directory's description, or from its model file. Its
// family is the directory's, or one that exports as that family and trains its weights.
std::unique_ptr<decoder::Model> make_own(const config::RunConfig& run, const Description& from,
                                         const decoder::Model& source,
                                         const registry::Catalog& plugins,
                                         const decoder::ModelOptions& options) {
  const auto make = [&] {
    return make_adapted(with_own_keys(from, run), plugins, options, run, from.adapter);
  };
  const std::string& theirs = source.family().name();
  const auto trains_theirs = [&](const decoder::Model& model) {
    return model.family().name() == theirs || model.options().exports_as == theirs;
  };
  if (run.model.family.empty()) {
    auto model = make();
    if (trains_theirs(*model)) return model;
    other_family(run, model->family().name(), theirs, {});
  }
  const std::string given =
      registry::load_family(plugins, run.model.family, run.model.family_where).name();
  if (given == theirs) return make();
  try {
    auto model = make();
    if (trains_theirs(*model)) return model;
  } catch (const UserError& error) {
    other_family(run, given, theirs,
                 {fmt::format("it cannot be '{}': {}", given, first_line(error.text()))});
  }
  other_family(run, given, theirs, {});
}

// An adapter requires existing weights: PEFT's form cannot contain new ones.
void check_adapter_has_base(const config::RunConfig& run, const decoder::Model& model) {
  if (!model.adapter() || run.train.fresh.empty()) return;
  throw UserError(
      ExitCode::usage,
      {place_of(run, "train.fresh"),
       fmt::format("cannot be combined with {}: '{}' would be initialised and never trained, "
                   "because only the adapter is trained",
                   run.lora.rank > 0 ? "[lora]" : "an adapter in train.from",
                   run.train.fresh.front()),
       {"first train the new tensors without an adapter and write the model with `lamina ckpt "
        "export`; `[[optimizer.groups]]` with frozen = true freezes the others",
        "then train the adapter with train.from = that directory"}});
}

// The configured tokenizer must exist, and token ids of the directory's must have the same text in
// it.
void check_tokenizer(const config::RunConfig& run, const std::string& directory) {
  const auto ours = data::load_tokenizer(run.data);
  if (!fs::is_directory(directory) || !text::has_tokenizer(directory)) return;
  const auto theirs = text::load_tokenizer(directory);
  if (const auto other = text::first_difference(*ours, *theirs))
    throw UserError(ExitCode::usage,
                    {place_of(run, "data.tokenizer"),
                     fmt::format("gives token {} the text '{}', but in {} it is '{}'", other->id,
                                 printable(other->ours), run.train.from, printable(other->theirs)),
                     {"remove the key, or add tokens after the existing ones"}});
}

train::SideFile read_side_file(const std::string& directory, const std::string& name) {
  return {name, read_file(directory + "/" + name, ExitCode::checkpoint)};
}

std::vector<train::SideFile> side_files(const std::string& directory) {
  std::vector<train::SideFile> out;
  for (const std::string& name : io::side_files(directory))
    out.push_back(read_side_file(directory, name));
  return out;
}

bool is_chat_template(std::string_view name) {
  return name.starts_with("chat_template.") || name.starts_with("additional_chat_templates/");
}

// Returns the side files of a model whose tokenizer may come from another directory; "byte" has
// none. The run trains with a template of that directory, which may be in another file.
std::vector<train::SideFile> side_files(const std::string& directory,
                                        const std::string& tokenizer) {
  std::vector<train::SideFile> out;
  if (tokenizer != "byte") out = side_files(tokenizer);
  const bool has_template = tokenizer != "byte" && data::has_chat_template(tokenizer);
  const auto is_of_model = [&](std::string_view name) {
    return name == "generation_config.json" || (!has_template && is_chat_template(name));
  };
  for (const std::string& name : io::side_files(directory))
    if (is_of_model(name) && std::ranges::find(out, name, &train::SideFile::name) == out.end())
      out.push_back(read_side_file(directory, name));
  return out;
}

// Replaces the chat templates by data.chat_template, so that conversations with the checkpoint have
// the template of its training.
void set_chat_template(const config::RunConfig& run, std::vector<train::SideFile>& files) {
  std::optional<std::string> text = data::chat_template_text(run.data);
  if (!text) return;
  std::erase_if(files, [](const train::SideFile& file) { return is_chat_template(file.name); });
  files.push_back({"chat_template.jinja", *std::move(text)});
}

std::string summary_of(const train::StartWeights& weights) {
  std::string out = fmt::format("{} tensors", weights.map().tensors().size());
  if (!weights.grown().empty())
    out += fmt::format("; new rows in {}", fmt::join(weights.grown(), ", "));
  if (!weights.fresh().empty())
    out += fmt::format(
        "; fresh: {}{}", weights.fresh().front(),
        weights.fresh().size() == 1 ? "" : fmt::format(" and {} more", weights.fresh().size() - 1));
  return out;
}

std::unique_ptr<decoder::Model> make_resumed(const config::RunConfig& run, const Description& from,
                                             const registry::Catalog& plugins,
                                             const decoder::ModelOptions& options) {
  return make_adapted(with_own_keys(from, run), plugins, options, run, from.adapter);
}

Training resumed(const config::RunConfig& run, const registry::Catalog& plugins,
                 const std::string& checkpoint) {
  Training out;
  Description from = describe(checkpoint, plugins);
  const auto compress = [&](std::int64_t) {
    return compressed_tokens(*text::load_tokenizer(from.directory));
  };
  out.model = make_resumed(run, from, plugins,
                           {.scan_layers = run.train.scan_layers, .compress_tokens = compress});
  out.inherited.directory = from.directory;
  out.inherited.files = side_files(from.directory);
  set_chat_template(run, out.inherited.files);
  const std::string form(weights::kPublishedFormFile);
  if (fs::exists(fs::path(from.directory) / form))
    out.inherited.files.push_back(read_side_file(from.directory, form));
  add_adapter_file(run, from.adapter, out);
  return out;
}

// The model as the directory describes it, and as the run trains it.
struct Pair {
  std::unique_ptr<decoder::Model> source, model;
  std::unique_ptr<decoder::Model> translated;  // as in Training

  const decoder::Model& reader() const { return translated ? *translated : *source; }
};

// Builds the run's model with the vocabulary of the directory, to which the run may add rows.
std::unique_ptr<decoder::Model> make_translated(const config::RunConfig& run,
                                                const Description& from,
                                                const decoder::Model& source,
                                                const registry::Catalog& plugins,
                                                const decoder::ModelOptions& options) {
  config::ModelSource own = with_own_keys(from, run);
  own.raw.entries.push_back(
      {.key = "model." LAMINA_CONFIG_VOCAB_SIZE,
       .value = source.vocab_size(),
       .origin = {config::Origin::Kind::run_file, place_of(run, "train.from")},
       .folder = {},
       .source = {}});
  return make_adapted(own, plugins, options, run, from.adapter);
}

Pair make_both(const config::RunConfig& run, const Description& from,
               const registry::Catalog& plugins, const decoder::ModelOptions& options) {
  Pair out;
  out.source = make_model(from.source, plugins, options);
  if (!from.adapter.empty()) {
    out.source = make_with_adapter(*out.source, from.adapter, [&](const auto& adapter) {
      decoder::ModelOptions adapted = options;
      adapted.adapter = adapter;
      return make_model(from.source, plugins, adapted);
    });
  }
  out.model = make_own(run, from, *out.source, plugins, options);
  check_start_keys(run, from, plugins, options, *out.model, *out.source);
  check_adapter_has_base(run, *out.model);
  if (out.source->adapter() && !is_same_adapter(*out.source, *out.model))
    throw UserError(ExitCode::usage,
                    {place_of(run, "lora.rank"),
                     fmt::format("[lora] differs from the adapter of {}", from.adapter),
                     {"remove [lora] to continue with that adapter, or merge it first: `lamina "
                      "ckpt merge`"}});
  if (out.model->family().name() != out.source->family().name())
    out.translated = make_translated(run, from, *out.source, plugins, options);
  return out;
}

std::unique_ptr<train::StartWeights> start_weights(const config::RunConfig& run,
                                                   const Description& from,
                                                   const decoder::Model& model,
                                                   const decoder::Model& reader) {
  const OpenedModel files{.directory = from.directory,
                          .adapter = from.adapter,
                          .paired_width = from.paired_width,
                          .model = {}};
  return std::make_unique<train::StartWeights>(model, reader, files.weight_files(), from.directory,
                                               run.train.fresh, config::place_in(run));
}

// Keeps frozen parameters in the compute type if they lose nothing in it, according to
// `is_stored_as`.
void keep_as_stored(decoder::Model& model, DType compute,
                    const std::function<bool(int parameter, DType)>& is_stored_as) {
  std::vector<decoder::Learning> learning;
  for (const decoder::Parameter& p : model.parameters().all()) {
    const DType used = p.used_dtype(compute);
    learning.push_back(p.learning);
    learning.back().exact = p.learning.frozen && is_floating(used) &&
                            is_stored_as(static_cast<int>(learning.size()) - 1, used);
  }
  model.set_learning(learning);
}

// Keeps the frozen parameters in blocks that have them in the files, according to `format_of`,
// where the graphs of training read blocks.
void keep_blocks(decoder::Model& model, DType compute,
                 const std::function<const formats::BlockFormat*(int parameter)>& format_of) {
  std::vector<const formats::BlockFormat*> storages;
  for (const decoder::Parameter& p : model.parameters().all()) {
    const DType used = p.used_dtype(compute);
    const bool may_be = p.learning.frozen && (used == DType::f32 || used == DType::bf16);
    const int index = static_cast<int>(storages.size());
    storages.push_back(may_be ? format_of(index) : nullptr);
  }
  if (std::ranges::none_of(storages, [](auto* format) { return format != nullptr; })) return;
  const std::vector<bool> storable = model.storable_in_training();
  for (std::size_t i = 0; i < storages.size(); ++i)
    if (!storable[i]) storages[i] = nullptr;
  model.set_storage(storages);
}

// The keys train.quantize and train.quantize_rules. Errors name the options of `lamina train` if
// these set the keys.
weights::Quantisation quantisation_of(const config::RunConfig& run) {
  constexpr const char *kFormat = "train.quantize", *kRules = "train.quantize_rules";
  weights::Quantisation out{.format = run.train.quantize};
  const bool has_rules = !run.train.quantize_rules.empty();
  const auto is_by = [&](const char* key, const std::string& option) {
    return run.values.where(key).starts_with(option + " ");
  };
  const bool by_option = is_by(kFormat, out.option);
  if (!by_option) out.option = place_of(run, kFormat);
  // An option replaces the rules of a run file.
  if (!by_option || (has_rules && !is_by(kRules, out.rule_option))) {
    out.rule_option = has_rules ? place_of(run, kRules) : kRules;
    out.rule_key = kRules;
  }
  weights::check_quantise_format(out.option, out.format);
  for (const std::string& rule : run.train.quantize_rules)
    out.rules.push_back(weights::parse_quantise_rule(rule, out.rule_option));
  return out;
}

// Rounds frozen matrices to train.quantize when they are read. `weights` is null if they are not
// read.
void quantise_frozen(const config::RunConfig& run, const train::StartWeights* weights,
                     decoder::Model& model) {
  if (run.train.quantize.empty()) return;
  const weights::Quantisation what = quantisation_of(run);
  std::vector<bool> storable = model.storable_in_training();
  if (weights)
    for (std::size_t i = 0; i < storable.size(); ++i)
      storable[i] = storable[i] && weights->is_whole(static_cast<int>(i));
  if (std::ranges::none_of(storable, std::identity()))
    throw UserError(ExitCode::usage,
                    {what.option,
                     fmt::format("is \"{}\", but no matrix is frozen; matrices that are trained "
                                 "must be plain",
                                 what.format),
                     {"add [lora] with a rank, which trains an adapter only, or remove the key"}});
  weights::set_quantised(
      model, weights::choose_storage(
                 model, what, run.train.dtype, std::move(storable), [&](auto storages) {
                   if (weights)
                     weights->check_are_plain(weights::quantised_parameters(storages), what);
                 }));
}

void set_learning(const config::RunConfig& run, const train::StartWeights* weights,
                  decoder::Model& model) {
  train::set_learning(model, run);
  if (weights) {
    keep_as_stored(model, run.train.dtype,
                   [&](int parameter, DType dtype) { return weights->has_as(parameter, dtype); });
    keep_blocks(model, run.train.dtype,
                [&](int parameter) { return weights->block_format(parameter); });
  }
  quantise_frozen(run, weights, model);
}

// Reads the weights of the checkpoint, which has our names.
void set_learning_resumed(const config::RunConfig& run, const std::string& checkpoint,
                          decoder::Model& model) {
  train::set_learning(model, run);
  const io::WeightFiles files(checkpoint, "model");
  keep_as_stored(model, run.train.dtype, [&](int parameter, DType dtype) {
    const std::string& name = model.parameters()[parameter].name;
    return files.contains(name) && files.tensor(name).dtype == dtype;
  });
  keep_blocks(model, run.train.dtype, [&](int parameter) {
    return files.block_format(model.parameters()[parameter].name);
  });
}

Training begin(const config::RunConfig& run, const registry::Catalog& plugins,
               const std::string& checkpoint) {
  config::DataSection data = run.data;
  const auto compress = [&](std::int64_t) {
    return compressed_tokens(*data::load_tokenizer(data));
  };
  const decoder::ModelOptions options{.scan_layers = run.train.scan_layers,
                                      .compress_tokens = compress};
  Training out;
  if (run.train.from.empty()) {
    out.model = make_adapted(run.model, plugins, options, run, "");
    set_chat_template(run, out.inherited.files);
    add_adapter_file(run, "", out);
    return out;
  }
  if (!checkpoint.empty()) return resumed(run, plugins, checkpoint);
  const Description from = describe_start(run, plugins);
  if (from.directory.empty())
    throw UserError(ExitCode::checkpoint,
                    {place_of(run, "train.from"),
                     fmt::format("{} describes a model but has no weights", run.train.from),
                     {"remove it for fresh weights; model = \"...\" refers to a description"}});
  const bool own_tokenizer = data.tokenizer == run.train.from;
  if (own_tokenizer) data.tokenizer = out.inherited.directory = from.directory;
  Pair both = make_both(run, from, plugins, options);
  const decoder::Model& reader = both.reader();
  out.source = std::move(both.source);
  out.translated = std::move(both.translated);
  out.model = std::move(both.model);
  if (!own_tokenizer) check_tokenizer(run, from.directory);
  out.inherited.weights = start_weights(run, from, *out.model, reader);
  const train::StartWeights& weights = *out.inherited.weights;
  out.inherited.summary = summary_of(weights);
  out.inherited.files =
      own_tokenizer ? side_files(from.directory) : side_files(from.directory, data.tokenizer);
  set_chat_template(run, out.inherited.files);
  if (std::string form =
          weights::published_form(*out.model, *out.source, weights.files(), weights.map());
      !form.empty())
    out.inherited.files.push_back({std::string(weights::kPublishedFormFile), std::move(form)});
  add_adapter_file(run, from.adapter, out);
  if (out.model->adapter()) warn_of_joined(from.directory, reader, weights.map());
  return out;
}

// Returns the directory or the GGUF file with the tokenizer of train.from.
std::string files_of_start(const config::RunConfig& run) {
  return find_in_start(run, [](const std::string& from) {
    const std::string files = model_files(from);
    std::error_code none;
    return fs::exists(files, none) ? files : train::resolve_model_directory(files);
  });
}

}  // namespace

std::unique_ptr<decoder::Model> open_trained(const config::RunConfig& run,
                                             const registry::Catalog& plugins,
                                             const std::string& checkpoint) {
  const decoder::ModelOptions options{.scan_layers = run.train.scan_layers,
                                      .compress_tokens = decoder::uncompressed_tokens};
  if (run.train.from.empty()) {
    auto out = make_adapted(run.model, plugins, options, run, "");
    set_learning(run, nullptr, *out);
    return out;
  }
  if (!checkpoint.empty()) {
    const Description from = describe(checkpoint, plugins);
    auto out = make_resumed(run, from, plugins, options);
    set_learning_resumed(run, from.directory, *out);
    return out;
  }
  const Description from = describe_start(run, plugins);
  Pair both = make_both(run, from, plugins, options);
  const auto weights =
      from.directory.empty() ? nullptr : start_weights(run, from, *both.model, both.reader());
  set_learning(run, weights.get(), *both.model);
  return std::move(both.model);
}

config::DataSection data_section(const config::RunConfig& run, const std::string& checkpoint) {
  const std::string& from = run.train.from;
  if (!from.empty() && !checkpoint.empty()) return train::data_section(run, checkpoint);
  return train::data_section(run,
                             from.empty() || run.data.tokenizer != from ? "" : files_of_start(run));
}

std::int64_t data_vocab_size(const config::RunConfig& run, const registry::Catalog& plugins,
                             const text::Tokenizer& tokenizer) {
  if (run.data.form != "tokens") return tokenizer.vocab_size();
  return open_trained(run, plugins)->vocab_size();
}

Training open_training(const config::RunConfig& run, const registry::Catalog& plugins,
                       const std::string& checkpoint, const std::vector<const Backend*>& backends) {
  Training out = begin(run, plugins, checkpoint);
  note_unread(*out.model);
  for (const std::string& difference : out.model->config().training_differences())
    log::warning("{}", difference);
  if (!run.distillation.teacher.empty()) {
    const config::DataSection data = train::data_section(run, out.inherited.directory);
    out.inherited.teachers =
        open_teachers(run, plugins, *out.model, *data::load_tokenizer(data), backends);
  }
  if (!run.train.from.empty() && !checkpoint.empty())
    set_learning_resumed(run, out.inherited.directory, *out.model);
  else
    set_learning(run, out.inherited.weights.get(), *out.model);
  return out;
}

}  // namespace lamina::model
