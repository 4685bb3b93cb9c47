#include "model/open.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <span>

#include "config/file_faults.h"
#include "config/model_keys.h"
#include "core/error.h"
#include "core/log.h"
#include "core/read_file.h"
#include "io/gguf_config.h"
#include "io/gguf_end_tokens.h"
#include "io/manifest.h"
#include "model/adapter.h"
#include "publishers/formats.h"
#include "registry/library.h"
#include "text/token_compression.h"
#include "train/checkpoint/checkpoint.h"
#include "train/loop/run_directory.h"
#include "weights/check/tensors.h"
#include "weights/match/tensor_map.h"
#include "weights/publish/published_form.h"
#include "weights/stored.h"
#include "weights/weights.h"

namespace lamina::model {
namespace {

namespace fs = std::filesystem;

// Checks the manifest of a checkpoint. Published models and directories made by hand have none and
// are used unchecked.
void check_if_checkpoint(const std::string& directory) {
  if (fs::exists(fs::path(directory) / io::kManifestName))
    train::check_structure(directory);
  else if (io::has_weight_set(directory, "optimizer"))
    log::warning("{} has no {}, so it cannot be verified; use another checkpoint of the run",
                 directory, io::kManifestName);
}

// If the options do not define the compression of tokens, the tokenizer beside the weights does.
decoder::ModelOptions with_tokenizer(const decoder::ModelOptions& options,
                                     const std::string& directory) {
  decoder::ModelOptions out = options;
  if (!options.compress_tokens && !directory.empty() && text::has_tokenizer(directory))
    out.compress_tokens = [directory](std::int64_t) {
      return compressed_tokens(*text::load_tokenizer(directory));
    };
  return out;
}

// Returns the end tokens of train.from in a checkpoint: from generation_config.json, else from the
// published config.json.
std::vector<std::int64_t> end_tokens_of(const std::string& checkpoint) {
  std::vector<std::int64_t> out;
  if (const auto config = io::read_generation_config(checkpoint))
    out = io::eos_token_ids(config->root());
  if (!out.empty()) return out;
  const auto form = weights::PublishedForm::beside(checkpoint);
  return form ? io::eos_token_ids(form->config()) : out;
}

// Refuses a run file, naming its run directory. Files with other mistakes are the reader's.
void refuse_run_file(const std::string& path) {
  std::string out;
  try {
    if (!config::is_run_file(path)) return;
    out = config::load_run(path).run.out;
  } catch (const UserError&) {
    return;
  }
  throw UserError(ExitCode::usage,
                  {path,
                   "is a run file; expected a model",
                   {fmt::format("give its run directory, {}, or the model that it names", out)}});
}

Description describe_gguf(const std::string& path, const registry::Catalog& plugins,
                          const config::Overrides& overrides, const std::string& adapter,
                          WeightForm form) {
  const io::GgufModel file(path);
  Description out{
      .directory = path, .end_tokens = io::gguf_end_tokens(file.first()), .adapter = adapter};
  if (!adapter.empty()) form = WeightForm::published;
  const auto read = [&](const config::Overrides& changes) {
    return read_gguf_source(file, plugins, changes, form, out.paired_width);
  };
  out.source = config::with_file_faults([&] { return read(overrides); }, [&] { return read({}); });
  return out;
}

Description describe_directory(const DirectoryPlace& place, const config::Overrides& overrides,
                               const std::string& adapter) {
  Description out{.directory = place.directory, .adapter = adapter};
  check_if_checkpoint(out.directory);
  if (place.has_config) out.published.emplace(out.directory);
  if (place.has_adapter) {
    if (!adapter.empty())
      throw UserError(ExitCode::usage,
                      {out.directory,
                       "already has an adapter; only one can be used",
                       {"`lamina ckpt merge` writes a model without an adapter, which can get "
                        "another one"}});
    out.adapter = out.directory;
  }
  const fs::path directory = out.directory;
  const auto read = [&] {
    return config::load_model(place.has_toml ? directory / "model.toml" : directory, overrides);
  };
  // Training wrote the description of a directory that is not published.
  const bool written = !place.has_config && overrides.empty();
  out.source = written ? train::as_damage(read) : read();
  if (!place.has_config) out.end_tokens = end_tokens_of(out.directory);
  return out;
}

// Reads a file without weights, to report its errors. A syntax error shows a line of the file,
// which may be a secret if the wrong file was given.
template <typename Read>
OpenedModel without_lines(const std::string& path, const Read& read) {
  try {
    return read();
  } catch (const UserError& error) {
    const std::string text = read_file(path, ExitCode::usage);
    ErrorText shown = error.text();
    const auto quoted = std::erase_if(shown.notes, [&](const std::string& note) {
      return text.find(note.substr(0, note.find('\n'))) != text.npos;
    });
    if (quoted > 0) shown.notes = {"give a directory with a checkpoint"};
    throw UserError(error.code(), std::move(shown));
  }
}

decoder::Model build(const config::ModelSource& source, const registry::Catalog& plugins,
                     const decoder::ModelOptions& options) {
  const registry::Family& family = registry::load_family(plugins, source);
  // Families live as long as the process.
  std::shared_ptr<const registry::Family> shared(&family, [](const registry::Family*) {});
  decoder::Model out(shared, family.configure(source.raw, source.where), options);
  weights::published_tensors(out);  // report an invalid map now, not after training
  return out;
}

bool has_weights(const std::string& directory) {
  return !directory.empty() && (!io::gguf_in(directory).empty() || io::has_weight_set(directory));
}

// A cheap test. GGUF files and checkpoints of training are not published directories.
bool may_have_blocks(const OpenedModel& model) {
  if (model.directory.empty()) return false;
  return !model.published || io::quantization_config(model.published->config());
}

}  // namespace

decoder::CompressedTokens compressed_tokens(const text::Tokenizer& tokenizer) {
  text::TokenCompression compressed = text::compress_tokens(tokenizer);
  return {std::move(compressed.ids), compressed.count, compressed.pad};
}

decoder::Model make(const config::ModelSource& source, const registry::Catalog& plugins,
                    const decoder::ModelOptions& options) {
  const auto read = [&] { return build(source, plugins, options); };
  if (!config::is_published(source.path)) return read();
  return config::with_file_faults(read, [&] {
    config::ModelSource published = source;
    published.raw = config::published_part(source.raw);
    return build(published, plugins, {});
  });
}

std::shared_ptr<io::WeightFiles> OpenedModel::weight_files() const {
  auto out = std::make_shared<io::WeightFiles>(directory);
  out->unpair_rows(paired_width);
  // A checkpoint of training has the adapter among its weights.
  if (!adapter.empty() && (adapter != directory || !fs::exists(fs::path(directory) / "model.toml")))
    out->add(fmt::format("{}/{}.safetensors", adapter, publishers::kAdapterStem));
  if (average) out->replace(directory, weights::kAverageStem);
  return out;
}

void set_storage(decoder::Model& model, const io::WeightFiles& files, const WeightChoice& choice,
                 DType compute, bool losses) {
  const bool all = choice.packed || files.compression().method == publishers::kCompressedTensors;
  if (choice.packed.value_or(true))
    weights::keep_blocks(model, files, compute,
                         all ? weights::KeptBlocks::all : weights::KeptBlocks::fast, losses);
  if (choice.quantise) weights::quantise(model, &files, compute, *choice.quantise);
}

void set_storage(OpenedModel& model, const WeightChoice& choice, DType compute) {
  if (!choice.packed.value_or(may_have_blocks(model)) && !choice.quantise) return;
  if (has_weights(model.directory)) try {
      return set_storage(*model.model, *model.weight_files(), choice, compute);
    } catch (const UserError& error) {
      if (error.code() == ExitCode::usage) throw;
      log::warning("counts weights of the files as plain; complete the files of the model: {}",
                   error.what());
    }
  if (choice.quantise) weights::quantise(*model.model, nullptr, compute, *choice.quantise);
}

void use_average(OpenedModel& model) {
  if (!io::has_weight_set(model.directory, weights::kAverageStem))
    throw UserError(ExitCode::checkpoint, {model.directory,
                                           "has no moving average of its weights",
                                           {"training keeps one with train.ema, eg: 0.999"}});
  model.average = true;
}

Description describe(const std::string& path, const registry::Catalog& plugins,
                     const config::Overrides& overrides, const std::string& given,
                     WeightForm form) {
  const ModelPlace place = classify(path);
  const std::string adapter = given.empty() ? given : adapter_directory(given);
  if (const auto* at = std::get_if<AdapterPlace>(&place)) {
    if (!adapter.empty())
      throw UserError(ExitCode::usage, {path, "is already an adapter; only one can be used", {}});
    return describe(at->base, plugins, overrides, path);
  }
  if (const auto* at = std::get_if<GgufPlace>(&place))
    return describe_gguf(at->file, plugins, overrides, adapter, form);
  if (const auto* at = std::get_if<DirectoryPlace>(&place))
    return describe_directory(*at, overrides, adapter);
  refuse_run_file(path);
  return {.source = config::load_model(std::get<FilePlace>(place).file, overrides),
          .adapter = adapter};
}

namespace {

constexpr std::string_view kTied = "tie_word_embeddings";

// Transformers ignores the key inside text_config. Without it at the top, the default depends on
// the class of the whole, and a head that differs from the table is never tied.
bool leaves_tie_to_weights(const Description& from, const decoder::Model& model) {
  if (!from.published || !model.config().in_wrapper() || !model.config().values().has(kTied))
    return false;
  const JsonValue given = from.published->config().find(kTied);
  return !given || given.is_null();
}

config::RawEntry by_tensors(std::string_view key, config::Value value, const std::string& where) {
  config::RawEntry out;
  out.key = fmt::format("model.{}", key);
  out.value = std::move(value);
  out.origin = {config::Origin::Kind::json, where};
  return out;
}

}  // namespace

decoder::Model make_of(Description& from, const registry::Catalog& plugins,
                       const decoder::ModelOptions& options) {
  decoder::Model out = make(from.source, plugins, options);
  const bool asks_for_tie = leaves_tie_to_weights(from, out);
  // A directory without weights is described by its config.json alone.
  if ((out.mtp_depth() == 0 && !asks_for_tie) || !has_weights(from.directory)) return out;
  const io::WeightFiles files(from.directory);
  const std::string where = files.path() + ": tensors";
  std::vector<config::RawEntry>& entries = from.source.raw.entries;
  const std::optional<bool> tied =
      asks_for_tie ? weights::needed_tie(out, files) : std::optional<bool>();
  if (tied) {
    const auto after = std::find_if(entries.rbegin(), entries.rend(),
                                    [](const auto& entry) { return is_json(entry.origin); });
    entries.insert(after.base(), by_tensors(kTied, config::Value(*tied), where));
  }
  const bool omits = weights::lacks_predictions(out, files);
  if (omits) {
    from.omitted_predictions = out.mtp_depth();
    entries.push_back(by_tensors(config::kPredictionLayers, config::Value(std::int64_t{0}), where));
  }
  if (!tied && !omits) return out;
  return make(from.source, plugins, options);
}

namespace {

// `written`: only training wrote to the directory, so a mistake in its model.toml is damage.
OpenedModel open_described(Description& from, const registry::Catalog& plugins,
                           const decoder::ModelOptions& options, bool written) {
  decoder::ModelOptions with_tokens = with_tokenizer(options, from.directory);
  const auto read = [&] {
    auto model = std::make_unique<decoder::Model>(make_of(from, plugins, with_tokens));
    if (from.adapter.empty()) return model;
    return make_with_adapter(*model, from.adapter, [&](const decoder::Adapter& adapter) {
      with_tokens.adapter = adapter;
      return std::make_unique<decoder::Model>(make(from.source, plugins, with_tokens));
    });
  };
  auto model = written ? train::as_damage(read) : read();
  return {.directory = from.directory,
          .published = std::move(from.published),
          .end_tokens = std::move(from.end_tokens),
          .adapter = from.adapter,
          .paired_width = from.paired_width,
          .model = std::move(model)};
}

bool is_written(const Description& from) {
  return !from.directory.empty() && fs::exists(fs::path(from.directory) / "model.toml") &&
         !from.published;
}

}  // namespace

OpenedModel open(const std::string& path, const registry::Catalog& plugins,
                 const decoder::ModelOptions& options, const config::Overrides& overrides,
                 const std::string& adapter) {
  Description from = describe(path, plugins, overrides, adapter);
  OpenedModel out = open_described(from, plugins, options, is_written(from) && overrides.empty());
  if (from.omitted_predictions > 0)
    log::info("{}: has no weights for its {} prediction layers, which are omitted", from.directory,
              from.omitted_predictions);
  note_unread(*out.model);
  return out;
}

OpenedModel reopen(const std::string& directory, const std::string& final_name,
                   const registry::Catalog& plugins) {
  Description from = describe(directory, plugins);
  if (from.published) from.source.where = final_name + "/config.json";
  return open_described(from, plugins, {}, is_written(from));
}

OpenedModel open_weights(const std::string& path, const registry::Catalog& plugins,
                         const WeightChoice& choice) {
  check_description(path);
  const bool describes = fs::path(path).extension() == ".toml" && fs::is_regular_file(path);
  if (fs::is_regular_file(path) && !describes && io::gguf_in(path).empty())
    throw UserError(ExitCode::checkpoint, {path, fmt::format("is a file; {}", train::kModelPlaces),
                                           train::advice_on_file(path)});
  const auto read = [&] { return open(path, plugins, {}, choice.overrides, choice.adapter); };
  OpenedModel out = describes ? without_lines(path, read) : read();
  if (out.directory.empty())
    throw UserError(ExitCode::checkpoint, {path,
                                           "describes a model but has no weights; expected a "
                                           "directory with a checkpoint",
                                           {}});
  if (choice.average) use_average(out);
  return out;
}

std::string list_unread(const std::vector<std::string>& unread, std::size_t limit) {
  const std::size_t shown = std::min(limit, unread.size());
  const std::string more =
      shown < unread.size() ? fmt::format(" and {} more", unread.size() - shown) : "";
  return fmt::format("{}{}", fmt::join(std::span(unread).first(shown), ", "), more);
}

bool is_gone(const std::string& checkpoint) {
  std::error_code ec;
  return !fs::exists(checkpoint, ec) && !ec;
}

std::vector<std::string> unused_keys(const decoder::Model& model) {
  std::vector<std::string> out = model.config().unread();
  std::ranges::copy(model.config().idle(), std::back_inserter(out));
  return out;
}

void note_unread(const decoder::Model& model) {
  constexpr std::size_t kShown = 16;
  const std::vector<std::string> unused = unused_keys(model);
  if (!unused.empty()) log::debug("unused keys of the model: {}", list_unread(unused, kShown));
  const std::vector<std::string>& changing = model.config().changing();
  if (!changing.empty())
    log::warning(
        "family '{}' does not read {}; such keys change what other models compute: compare the "
        "model with its original, as docs/verify.md says, or remove keys that the original ignores",
        model.family().name(), list_unread(changing, kShown));
}

}  // namespace lamina::model
