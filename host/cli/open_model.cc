#include "cli/open_model.h"

#include <algorithm>
#include <filesystem>

#include "cli/plugins.h"
#include "core/error.h"
#include "core/log.h"
#include "io/manifest.h"
#include "registry/library.h"
#include "text/token_compression.h"
#include "train/checkpoint.h"
#include "train/run_directory.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

std::string contents_of(const fs::path& directory) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  if (names.empty()) return "it is empty";
  std::ranges::sort(names);
  if (names.size() > 8) names.resize(8), names.push_back("...");
  return fmt::format("it has {}", fmt::join(names, ", "));
}

// Published models have no manifest; nor has what somebody put together by hand, which is used as
// it is.
void check_if_checkpoint(const std::string& directory) {
  if (fs::exists(fs::path(directory) / io::kManifestName))
    train::check_structure(directory);
  else if (fs::exists(fs::path(directory) / "optimizer.safetensors"))
    log::warning("{} has no {}, so nothing tells whether it is whole; use another checkpoint of it",
                 directory, io::kManifestName);
}

// What `read` returns. A mistake in what it reads is damage: nobody wrote it by hand.
template <typename Read>
auto as_damage(Read read) {
  try {
    return read();
  } catch (const UserError& error) {
    if (error.code() != ExitCode::usage) throw;
    ErrorText text = error.text();
    text.notes.emplace_back(
        "training wrote this file, so it is damaged or was changed: `lamina ckpt verify` checks");
    throw UserError(ExitCode::checkpoint, std::move(text));
  }
}

}  // namespace

config::RunConfig load_written_run(const std::string& path) {
  return as_damage([&] { return config::load_run(path); });
}

bool is_run_file(const std::string& path) {
  if (fs::path(path).extension() != ".toml" || !fs::is_regular_file(path)) return false;
  config::Raw raw = config::read_toml(path, config::Origin::Kind::run_file);
  auto of_a_run = [](const std::string& key) {
    return key != "family" && key != "model" && !key.starts_with("model.");
  };
  return std::ranges::any_of(raw.entries, of_a_run, &config::RawEntry::key) ||
         std::ranges::any_of(raw.sections, of_a_run, &config::RawSection::key) ||
         std::ranges::any_of(raw.entries, [](const auto& e) { return e.key == "model"; });
}

void require_description(const std::string& path) {
  if (!fs::exists(path))
    throw UserError(ExitCode::usage,
                    {path,
                     "no such file or directory; a run file, a model file or a model "
                     "directory would be right",
                     {}});
}

const registry::Catalog& plugin_catalog(const Globals& globals) {
  static const registry::Catalog catalog = find_plugins(globals);
  return catalog;
}

std::string resolve_model_directory(const std::string& path) {
  if (!fs::exists(path))
    throw UserError(ExitCode::checkpoint, {path,
                                           "no such file or directory; a Hugging Face directory, a "
                                           "checkpoint or a run directory would be right",
                                           {}});
  if (!fs::is_directory(path))
    throw UserError(ExitCode::checkpoint, {path,
                                           "is not a directory; a Hugging Face directory, a "
                                           "checkpoint or a run directory would be right",
                                           {}});
  fs::path directory = path;
  if (fs::exists(directory / "model.toml") || fs::exists(directory / "config.json")) return path;
  if (std::string newest = train::newest_checkpoint(path); !newest.empty()) return newest;
  if (!train::list_all(path).empty())
    throw UserError(ExitCode::checkpoint,
                    {path,
                     "has checkpoints, but none is complete",
                     {"`lamina ckpt verify` says what is missing from each"}});
  const fs::path checkpoints = train::checkpoints_directory(path);
  if (fs::is_directory(checkpoints))
    throw UserError(ExitCode::checkpoint,
                    {checkpoints.string(),
                     "holds no complete checkpoint, and next to it is neither "
                     "config.json nor model.toml",
                     {contents_of(checkpoints)}});
  throw UserError(ExitCode::checkpoint,
                  {path,
                   "holds no model: neither config.json, model.toml nor checkpoints",
                   {contents_of(directory)}});
}

decoder::CompressedTokens compressed_tokens(const text::Tokenizer& tokenizer) {
  text::TokenCompression compressed = text::compress_tokens(tokenizer);
  return {std::move(compressed.ids), compressed.count, compressed.pad};
}

decoder::Model make_model(const config::ModelSource& source, const Globals& globals,
                          const decoder::ModelOptions& options) {
  const registry::Family& family = registry::load_family(plugin_catalog(globals), source);
  // Families live as long as the process.
  std::shared_ptr<const registry::Family> shared(&family, [](const registry::Family*) {});
  return decoder::Model(shared, family.configure(source.raw, source.where), options);
}

OpenedModel open_model(const std::string& path, const Globals& globals,
                       const decoder::ModelOptions& options,
                       const std::vector<std::string>& overrides) {
  OpenedModel out;
  fs::path description = path;
  if (!fs::is_regular_file(path)) {
    out.directory = resolve_model_directory(path);
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
        make_model(config::load_model(description, {.sets = overrides, .environment = {}}), globals,
                   with_tokens));
  };
  const bool written = !out.directory.empty() && !out.published && overrides.empty();
  out.model = written ? as_damage(read) : read();
  return out;
}

OpenedModel open_weights(const std::string& path, const Globals& globals) {
  const bool describes = fs::path(path).extension() == ".toml";
  if (fs::is_regular_file(path) && !describes)
    throw UserError(ExitCode::checkpoint, {path,
                                           "is a file; a Hugging Face directory, a checkpoint or a "
                                           "run directory would be right",
                                           {}});
  OpenedModel out = open_model(path, globals);
  if (out.directory.empty())
    throw UserError(ExitCode::checkpoint, {path,
                                           "describes a model but has no weights; give a directory "
                                           "with a checkpoint",
                                           {}});
  return out;
}

}  // namespace lamina::cli
