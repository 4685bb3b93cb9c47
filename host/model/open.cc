#include "model/open.h"

#include <algorithm>
#include <span>

#include "config/model_keys.h"
#include "config/model_text.h"
#include "config/published_keys.h"
#include "core/error.h"
#include "core/log.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "io/gguf_config.h"
#include "io/gguf_names.h"
#include "io/manifest.h"
#include "lamina/ext/gguf.h"
#include "model/adapter.h"
#include "publishers/formats.h"
#include "registry/library.h"
#include "text/token_compression.h"
#include "train/checkpoint/checkpoint.h"
#include "train/loop/run_directory.h"
#include "weights/match/tensor_map.h"
#include "weights/publish/peft_config.h"
#include "weights/publish/published_form.h"
#include "weights/weights.h"

namespace lamina::model {
namespace {

namespace fs = std::filesystem;

// Checks the manifest of a checkpoint. Published models and directories made by hand have none and
// are used unchecked.
void check_if_checkpoint(const std::string& directory) {
  if (fs::exists(fs::path(directory) / io::kManifestName))
    train::check_structure(directory);
  else if (fs::exists(fs::path(directory) / "optimizer.safetensors"))
    log::warning("{} has no {}, so it cannot be verified; use another checkpoint of the run",
                 directory, io::kManifestName);
}

std::string without_marks(std::string name) {
  std::erase_if(name, [](char c) { return c == '_' || c == '-'; });
  return name;
}

// Returns whether a model_type of a family is "<architecture>.<key>" for a key in the file
// (ext/gguf.h).
bool is_kind_of(const io::GgufFile& file, const std::string& architecture,
                const std::string& type) {
  if (!type.starts_with(architecture + ".")) return false;
  const io::GgufValue* value = file.find(type);
  return value && (value->is_array || file.integer(type) != 0);
}

// Returns the family's model_type for the file: a variant of its architecture, else the
// architecture, compared without '_' and '-'.
std::string model_type_of(const io::GgufModel& model, const registry::Catalog& plugins) {
  const std::string architecture = io::gguf_architecture(model);
  std::string out = architecture;
  for (const registry::PluginFile& plugin : plugins.plugins())
    for (const registry::FamilyNames& family : plugin.manifest.families)
      for (const std::string& type : family.hf_model_types) {
        if (is_kind_of(model.first(), architecture, type)) return type;
        if (without_marks(type) == without_marks(architecture)) out = type;
      }
  return out;
}

config::ModelSource read_gguf(const io::GgufModel& file, const registry::Catalog& plugins,
                              const std::vector<std::string>& overrides, WeightForm form,
                              std::int64_t& paired_width) {
  if (const auto type = file.first().text("general.type"); type && *type != "model")
    file.first().fail("general.type", fmt::format("is '{}'; expected 'model'", printable(*type)),
                      "give the file of the model itself");
  const std::string model_type = model_type_of(file, plugins);
  const auto parse = [&](const std::string& config) {
    return config::parse_model(config, file.path() + ": metadata",
                               {.sets = overrides, .environment = {}});
  };
  const registry::Family& family =
      registry::load_family(plugins, parse(io::gguf_config(file, model_type, LAMINA_GGUF_KEY)));
  if (std::ranges::none_of(family.keys(), [](const registry::ModelKey& key) {
        return config::is_called(key.key, LAMINA_GGUF_KEY);
      }))
    throw UserError(
        ExitCode::checkpoint,
        {file.path(),
         fmt::format("is of family '{}', which does not declare its weights in GGUF files",
                     family.name()),
         {"use the safetensors files of the same model",
          fmt::format("authors of plugins: declare the key '{}', ext/gguf.h", LAMINA_GGUF_KEY)}});
  std::string marker = LAMINA_GGUF_KEY;
  const registry::ModelKey* paired = family.find_key(io::kPairedRowsKey);
  if (form == WeightForm::published && paired && config::is_called(paired->key, marker)) {
    paired_width = io::gguf_head_width(file);
    marker.clear();
  }
  const auto keeps_name = [&](std::string_view key) {
    return std::ranges::any_of(family.keys(), [&](const registry::ModelKey& known) {
      return config::is_called(known.key, key);
    });
  };
  config::ModelSource out = parse(io::gguf_config(file, model_type, marker, keeps_name));
  // Metadata has the same meaning for all architectures. It sets the host's keys, and keys that a
  // family reads only in the object "lamina", such as an attention window.
  constexpr std::string_view kModel = "model.";
  for (config::RawEntry& entry : out.raw.entries)
    if (const registry::ModelKey* key = entry.key.starts_with(kModel)
                                            ? family.find_key(entry.key.substr(kModel.size()))
                                            : nullptr;
        key && key->hf_name.starts_with(config::kOwnObject) &&
        entry.origin.kind == config::Origin::Kind::json)
      entry.key.insert(kModel.size(), config::kOwnObject);
  std::vector<std::string> unread = family.configure(out.raw, out.where).unread();
  for (std::string& name : unread) name = name.substr(0, name.find(" ("));  // "name (place)"
  io::refuse_unknown_keys(file, family.name(), keeps_name, unread);
  return out;
}

bool has_adapter_config(const fs::path& directory) {
  return fs::exists(directory / publishers::kAdapterConfig);
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

}  // namespace

decoder::CompressedTokens compressed_tokens(const text::Tokenizer& tokenizer) {
  text::TokenCompression compressed = text::compress_tokens(tokenizer);
  return {std::move(compressed.ids), compressed.count, compressed.pad};
}

decoder::Model make(const config::ModelSource& source, const registry::Catalog& plugins,
                    const decoder::ModelOptions& options) {
  const registry::Family& family = registry::load_family(plugins, source);
  // Families live as long as the process.
  std::shared_ptr<const registry::Family> shared(&family, [](const registry::Family*) {});
  decoder::Model out(shared, family.configure(source.raw, source.where), options);
  weights::published_tensors(out);  // report an invalid map now, not after training
  return out;
}

std::shared_ptr<io::WeightFiles> OpenedModel::weight_files() const {
  auto out = std::make_shared<io::WeightFiles>(directory);
  out->unpair_rows(paired_width);
  if (!adapter.empty() && adapter != directory)
    out->add(fmt::format("{}/{}.safetensors", adapter, publishers::kAdapterStem));
  if (average) out->replace(directory, weights::kAverageStem);
  return out;
}

void use_average(OpenedModel& model) {
  const fs::path file =
      fs::path(model.directory) / fmt::format("{}.safetensors", weights::kAverageStem);
  if (!fs::exists(file) && !fs::exists(file.string() + ".index.json"))
    throw UserError(ExitCode::checkpoint, {model.directory,
                                           "has no moving average of its weights",
                                           {"training keeps one with train.ema, eg: 0.999"}});
  model.average = true;
}

std::string base_of_adapter(const std::string& path) {
  const fs::path directory = path;
  if (!has_adapter_config(directory) || fs::exists(directory / "config.json") ||
      fs::exists(directory / "model.toml"))
    return {};
  const std::string base = weights::read_peft_config(path).base;
  for (const fs::path& candidate : {directory / base, fs::path(base)}) {
    if (base.empty() || !fs::exists(candidate)) continue;
    if (fs::is_directory(candidate) || !io::gguf_in(candidate.string()).empty())
      return candidate.lexically_normal().string();
    throw UserError(
        ExitCode::checkpoint,
        {fmt::format("{}/{}", path, publishers::kAdapterConfig),
         fmt::format("'base_model_name_or_path' must be the directory of a model or a GGUF file, "
                     "got '{}'",
                     printable(base)),
         {"give its model with -m, and --adapter " + path}});
  }
  throw UserError(ExitCode::checkpoint,
                  {path,
                   fmt::format("is an adapter of '{}', which does not exist", printable(base)),
                   {"give its model with -m, and --adapter " + path}});
}

Description describe(const std::string& path, const registry::Catalog& plugins,
                     const std::vector<std::string>& overrides, const std::string& adapter,
                     WeightForm form) {
  if (const std::string base = base_of_adapter(path); !base.empty()) {
    if (!adapter.empty())
      throw UserError(ExitCode::usage, {path, "is already an adapter; only one can be used", {}});
    return describe(base, plugins, overrides, path);
  }
  if (const std::string gguf = io::gguf_in(path); !gguf.empty()) {
    const io::GgufModel file(gguf);
    Description out{.directory = gguf, .end_tokens = io::gguf_end_tokens(file), .adapter = adapter};
    out.source = read_gguf(file, plugins, overrides, adapter.empty() ? form : WeightForm::published,
                           out.paired_width);
    return out;
  }
  Description out{.adapter = adapter};
  fs::path description = path;
  if (!fs::is_regular_file(path)) {
    out.directory = train::resolve_model_directory(path);
    check_if_checkpoint(out.directory);
    description = fs::path(out.directory) / "model.toml";
    if (!fs::exists(description)) description = out.directory;
    if (fs::exists(fs::path(out.directory) / "config.json")) out.published.emplace(out.directory);
  }
  const auto read = [&] {
    return config::load_model(description, {.sets = overrides, .environment = {}});
  };
  if (!out.directory.empty() && has_adapter_config(out.directory)) {
    if (!adapter.empty())
      throw UserError(ExitCode::usage,
                      {out.directory,
                       "already has an adapter; only one can be used",
                       {"`lamina ckpt merge` writes a model without an adapter, which can get "
                        "another one"}});
    out.adapter = out.directory;
  }
  const bool written = !out.directory.empty() && !out.published && overrides.empty();
  out.source = written ? train::as_damage(read) : read();
  if (!out.directory.empty() && !out.published) out.end_tokens = end_tokens_of(out.directory);
  return out;
}

decoder::Model make_of(Description& from, const registry::Catalog& plugins,
                       const decoder::ModelOptions& options) {
  decoder::Model out = make(from.source, plugins, options);
  if (from.directory.empty() || out.mtp_depth() == 0) return out;
  const io::WeightFiles files(from.directory);
  if (!weights::lacks_predictions(out, files)) return out;
  log::info("{}: has no weights for its {} prediction layers, which are omitted", files.path(),
            out.mtp_depth());
  config::RawEntry none;
  none.key = fmt::format("model.{}", config::kPredictionLayers);
  none.value = std::int64_t{0};
  none.origin = {config::Origin::Kind::json, files.path() + ": tensors"};
  from.source.raw.entries.push_back(std::move(none));
  return make(from.source, plugins, options);
}

OpenedModel open(const std::string& path, const registry::Catalog& plugins,
                 const decoder::ModelOptions& options, const std::vector<std::string>& overrides,
                 const std::string& adapter) {
  Description from = describe(path, plugins, overrides, adapter);
  decoder::ModelOptions with_tokens = with_tokenizer(options, from.directory);
  const auto read = [&] {
    auto model = std::make_unique<decoder::Model>(make_of(from, plugins, with_tokens));
    if (from.adapter.empty()) return model;
    with_tokens.adapter = adapter_of(*model, from.adapter);
    return std::make_unique<decoder::Model>(make(from.source, plugins, with_tokens));
  };
  const bool written = !from.directory.empty() &&
                       fs::exists(fs::path(from.directory) / "model.toml") && !from.published &&
                       overrides.empty();
  auto model = written ? train::as_damage(read) : read();
  note_unread(*model);
  return {.directory = from.directory,
          .published = std::move(from.published),
          .end_tokens = std::move(from.end_tokens),
          .adapter = from.adapter,
          .paired_width = from.paired_width,
          .model = std::move(model)};
}

OpenedModel open_weights(const std::string& path, const registry::Catalog& plugins,
                         const WeightChoice& choice) {
  const bool describes = fs::path(path).extension() == ".toml" && fs::is_regular_file(path);
  if (fs::is_regular_file(path) && !describes && io::gguf_in(path).empty())
    throw UserError(ExitCode::checkpoint,
                    {path, fmt::format("is a file; {}", train::kModelPlaces), {}});
  const auto read = [&] { return open(path, plugins, {}, {}, choice.adapter); };
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

void note_unread(const decoder::Model& model) {
  constexpr std::size_t kShown = 16;
  const std::vector<std::string>& unread = model.config().unread();
  if (!unread.empty())
    log::debug("keys of the model that nothing reads: {}", list_unread(unread, kShown));
}

}  // namespace lamina::model
