#include "conformance/subjects/small_models.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/folder_entries.h"
#include "lamina/names.h"
#include "registry/discovery.h"
#include "registry/elf_file.h"
#include "registry/manifest.h"

namespace lamina::conformance {
namespace {

namespace fs = std::filesystem;

// Sizes that published families have under one name, and their values in a small model. The values
// do not divide each other, to avoid coincidences.
constexpr auto kSizes = std::to_array<std::pair<std::string_view, std::int64_t>>({
    {"vocab_size", 61},
    {"hidden_size", 24},
    {"intermediate_size", 36},
    {"moe_intermediate_size", 10},
    {"shared_expert_intermediate_size", 10},
    {"num_attention_heads", 4},
    {"num_key_value_heads", 2},
    {"head_dim", 8},
    {"v_head_dim", 6},
    {"qk_nope_head_dim", 8},
    {"qk_rope_head_dim", 8},
    {"q_lora_rank", 14},
    {"kv_lora_rank", 10},
    {"num_experts", 4},
    {"num_local_experts", 4},
    {"n_routed_experts", 4},
    {"num_experts_per_tok", 2},
    {"n_group", 1},
    {"topk_group", 1},
    {"first_k_dense_replace", 1},
    {"sliding_window", 6},
    {"attention_chunk_size", 6},
});

constexpr std::int64_t kMostLayers = 24;
constexpr std::string_view kDepthKey = "num_nextn_predict_layers";

// The value of a key in a small model; nothing: its own default, or not needed.
std::optional<config::Value> small_value(const registry::ModelKey& key) {
  const config::Key& k = key.key;
  if (k.type == config::Type::integer) {
    const auto* known = std::ranges::find(kSizes, k.name, &decltype(kSizes)::value_type::first);
    const auto* preset = k.preset ? k.preset->get_if<std::int64_t>() : nullptr;
    if (known != kSizes.end() && (k.required || (preset && *preset > known->second)))
      return known->second;
    if (k.required) return std::max<std::int64_t>(2, static_cast<std::int64_t>(k.min.value_or(2)));
    return {};
  }
  if (!k.required) return {};
  if (k.type == config::Type::string && !k.choices.empty()) return k.choices.front();
  if (k.type == config::Type::number) return std::max(1.0, k.min.value_or(1.0));
  if (k.type == config::Type::boolean) return false;
  return {};
}

std::string description(const registry::Family& family, std::int64_t layers) {
  std::string out = "[model]\n";
  for (const registry::ModelKey& key : family.keys()) {
    if (key.ignored || key.json_only || key.host) continue;
    std::optional<config::Value> value = small_value(key);
    if (key.key.name == LAMINA_CONFIG_NUM_LAYERS) value = layers;
    if (value) out += fmt::format("{} = {}\n", key.key.name, config::to_toml(*value));
  }
  return out;
}

SmallModel described(const registry::Family& family, std::string name, const std::string& text) {
  SmallModel out{std::move(name), {}};
  out.source.where = "model derived from the keys of '" + family.name() + "'";
  out.source.family = family.name();
  out.source.raw = config::parse_toml(text, out.source.where, config::Origin::Kind::model_file);
  return out;
}

// The blocks of the model's layers; nothing if there is no such model.
std::optional<std::set<std::uint32_t>> blocks_of(const registry::Family& family,
                                                 const SmallModel& model) {
  try {
    const registry::ModelConfig config = family.configure(model.source.raw, model.source.where);
    std::set<std::uint32_t> out;
    for (const registry::SegmentSpec& segment : family.plan(config).segments)
      for (const registry::PositionSpec& position : segment.unit) out.insert(position.block);
    return out;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool predicts(const registry::Family& family) {
  const registry::ModelKey* depth = family.find_key(kDepthKey);
  return depth && !depth->ignored;
}

// nullopt if the file is unusable: its checks report that.
std::optional<registry::Manifest> manifest_of(const fs::path& plugin) {
  try {
    const registry::ElfFile elf = registry::read_elf(plugin);
    return registry::parse_manifest(elf.manifest, elf.path);
  } catch (const PluginError&) {
    return std::nullopt;
  }
}

// The name of the family that a description gives, or that its config.json fits best; nothing if
// the plugin has none.
std::optional<std::string> family_of(const config::ModelSource& model,
                                     const registry::Manifest& manifest) {
  const registry::FamilyNames* best = nullptr;
  int best_fit = 0;
  for (const registry::FamilyNames& family : manifest.families) {
    if (!model.family.empty() && family.is_called(model.family)) return family.name;
    const int fit = family.fit(model.model_type, model.architectures, model.text_model_type);
    if (!model.family.empty() || fit <= best_fit) continue;
    best = &family;
    best_fit = fit;
  }
  return best ? std::optional(best->name) : std::nullopt;
}

// Adds the model if it is one of the family.
void add_file(const registry::Family& family, const fs::path& plugin, const fs::path& file,
              std::vector<SmallModel>& to) {
  SmallModel model{file.stem().string(), config::load_model(file)};
  if (model.source.family.empty())
    if (const std::optional<registry::Manifest> manifest = manifest_of(plugin))
      model.source.family = family_of(model.source, *manifest).value_or("");
  if (family.names().is_called(model.source.family)) to.push_back(std::move(model));
}

bool lists(const registry::Manifest& manifest, const std::string& family) {
  return std::ranges::any_of(manifest.families, [&](const registry::FamilyNames& known) {
    return known.is_called(family);
  });
}

std::string listed_families(const registry::Manifest& manifest) {
  std::vector<std::string> names;
  for (const registry::FamilyNames& family : manifest.families) names.push_back(family.name);
  return fmt::format("its manifest lists {}", fmt::join(names, ", "));
}

// Why the plugin has no family for a description.
std::string without_family(const config::ModelSource& model, const std::string& plugin) {
  if (!model.family.empty())
    return fmt::format("is a model of family '{}', which {} does not have", model.family, plugin);
  if (model.model_type.empty() && model.architectures.empty())
    return "does not name its family; expected 'family' in a .toml file, 'model_type' or "
           "'architectures' in a config.json";
  return fmt::format("is a model of model_type '{}' and architecture {}, which {} does not read",
                     model.model_type, registry::joined(model.architectures), plugin);
}

}  // namespace

fs::path models_folder(const fs::path& plugin) {
  std::string name = plugin.filename().string();
  if (const std::size_t at = name.rfind(".lamina.so"); at != name.npos) name.resize(at);
  return plugin.parent_path() / (name + ".check");
}

SmallModels small_models(const registry::Family& family, const fs::path& plugin,
                         std::span<const fs::path> files) {
  SmallModels out;
  for (const fs::path& file : files) add_file(family, plugin, file, out.models);
  std::vector<fs::path> found;
  for (const auto& entry : folder_entries(models_folder(plugin)))
    if (entry.path().extension() == ".toml") found.push_back(entry.path());
  std::ranges::sort(found);
  for (const fs::path& file : found) add_file(family, plugin, file, out.models);
  return out.models.empty() ? derived_models(family) : out;
}

void require_family_of(const fs::path& plugin, const std::string& family) {
  const std::optional<registry::Manifest> manifest = manifest_of(plugin);
  if (manifest && !lists(*manifest, family))
    throw UserError(ExitCode::usage, {plugin.string(),
                                      fmt::format("the plugin has no family '{}'", family),
                                      {listed_families(*manifest)}});
}

void require_models_of(const fs::path& plugin, std::span<const fs::path> files,
                       const std::string& only) {
  const std::optional<registry::Manifest> manifest = manifest_of(plugin);
  if (!manifest) return;
  for (const fs::path& file : files) {
    const config::ModelSource model = config::load_model(file);
    const std::optional<std::string> family = family_of(model, *manifest);
    if (!family)
      throw UserError(ExitCode::usage, {file.string(),
                                        without_family(model, plugin.filename().string()),
                                        {listed_families(*manifest)}});
    const bool checked =
        only.empty() || std::ranges::any_of(manifest->families, [&](const auto& known) {
          return known.name == *family && known.is_called(only);
        });
    if (!checked)
      throw UserError(
          ExitCode::usage,
          {file.string(),
           fmt::format("is a model of family '{}', but only family '{}' is checked", *family, only),
           {fmt::format("check family '{}', or {} with all its families", *family,
                        plugin.filename().string())}});
  }
}

SmallModels derived_models(const registry::Family& family) {
  SmallModels out;
  std::optional<SmallModel> best;
  std::int64_t layers = 0;
  std::size_t most = 0;
  for (std::int64_t n = 1; n <= kMostLayers; ++n) {
    SmallModel model = described(family, "derived", description(family, n));
    const auto blocks = blocks_of(family, model);
    if (!blocks || blocks->size() <= most) continue;
    most = blocks->size();
    layers = n;
    best = std::move(model);
  }
  if (!best) {
    try {
      const SmallModel model = described(family, "derived", description(family, 2));
      family.plan(family.configure(model.source.raw, model.source.where));
    } catch (const Error& refused) {
      out.why_none = refused.text().what;
    }
    return out;
  }
  // One layer more than needed: a unit and a part of the next.
  SmallModel longer = described(family, "derived", description(family, layers + 2));
  if (blocks_of(family, longer)) best = std::move(longer);
  out.models.push_back(std::move(*best));
  if (!predicts(family)) return out;
  SmallModel predicting = out.models.front();
  predicting.name = "derived, predicting";
  predicting.source.raw.append(config::parse_override(fmt::format("model.{}=1", kDepthKey)));
  if (blocks_of(family, predicting)) out.models.push_back(std::move(predicting));
  return out;
}

decoder::CompressedTokens tokens_of_two(std::int64_t vocabulary) {
  decoder::CompressedTokens out = decoder::uncompressed_tokens(vocabulary);
  for (std::int32_t& id : out.ids) id -= id / 5;
  out.count = out.ids.back() + 1;
  out.pad = out.ids[out.ids.size() / 2];
  return out;
}

}  // namespace lamina::conformance
