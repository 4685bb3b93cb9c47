#include "model/open.h"

#include "core/error.h"
#include "core/log.h"
#include "io/manifest.h"
#include "registry/library.h"
#include "text/token_compression.h"
#include "train/checkpoint.h"
#include "train/run_directory.h"
#include "weights/tensor_map.h"

namespace lamina::model {
namespace {

namespace fs = std::filesystem;

// Published models have no manifest; nor has what somebody put together by hand, which is used as
// it is.
void check_if_checkpoint(const std::string& directory) {
  if (fs::exists(fs::path(directory) / io::kManifestName))
    train::check_structure(directory);
  else if (fs::exists(fs::path(directory) / "optimizer.safetensors"))
    log::warning("{} has no {}, so nothing tells whether it is whole; use another checkpoint of it",
                 directory, io::kManifestName);
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
  weights::published_tensors(out);  // a map that cannot be right is said now, not after training
  return out;
}

OpenedModel open(const std::string& path, const registry::Catalog& plugins,
                 const decoder::ModelOptions& options, const std::vector<std::string>& overrides) {
  OpenedModel out;
  fs::path description = path;
  if (!fs::is_regular_file(path)) {
    out.directory = train::resolve_model_directory(path);
    check_if_checkpoint(out.directory);
    description = fs::path(out.directory) / "model.toml";
    if (!fs::exists(description)) description = out.directory;
    if (fs::exists(fs::path(out.directory) / "config.json")) out.published.emplace(out.directory);
  }
  decoder::ModelOptions with_tokens = options;
  if (!options.compress_tokens && !out.directory.empty() && text::has_tokenizer(out.directory))
    with_tokens.compress_tokens = [&](std::int64_t) {
      return compressed_tokens(*text::load_tokenizer(out.directory));
    };
  const auto read = [&] {
    return std::make_unique<decoder::Model>(
        make(config::load_model(description, {.sets = overrides, .environment = {}}), plugins,
             with_tokens));
  };
  const bool written = !out.directory.empty() && !out.published && overrides.empty();
  out.model = written ? train::as_damage(read) : read();
  return out;
}

OpenedModel open_weights(const std::string& path, const registry::Catalog& plugins) {
  const bool describes = fs::path(path).extension() == ".toml";
  if (fs::is_regular_file(path) && !describes)
    throw UserError(ExitCode::checkpoint, {path,
                                           "is a file; a Hugging Face directory, a checkpoint or a "
                                           "run directory would be right",
                                           {}});
  OpenedModel out = open(path, plugins);
  if (out.directory.empty())
    throw UserError(ExitCode::checkpoint, {path,
                                           "describes a model but has no weights; give a directory "
                                           "with a checkpoint",
                                           {}});
  return out;
}

}  // namespace lamina::model
