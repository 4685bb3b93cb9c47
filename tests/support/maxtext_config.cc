#include "support/maxtext_config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "support/maxtext_settings.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

// The settings of a case.
class Settings {
 public:
  explicit Settings(std::vector<JsonValue> sources) : sources_(std::move(sources)) {
    std::erase_if(sources_, [](JsonValue source) { return !source || !source.is_object(); });
  }

  JsonValue find(const char* key) const {
    for (JsonValue source : sources_)
      if (JsonValue value = source.find(key)) return value;
    return {};
  }
  std::int64_t integer(const char* key, std::int64_t preset) const {
    const JsonValue value = find(key);
    return value ? value.as_int64() : preset;
  }
  bool flag(const char* key, bool preset) const {
    const JsonValue value = find(key);
    return value ? value.as_bool() : preset;
  }

 private:
  std::vector<JsonValue> sources_;  // earlier sources have precedence
};

// How the trees of a block are stacked; cycle 0 is inhomogeneous_layer_cycle_interval.
struct TreeLayout {
  Stacking stacking;
  std::int64_t cycle;
};
const std::map<std::string_view, TreeLayout> kLayouts = {
    {"gemma2", {Stacking::pairs, 1}},
    {"gemma3", {Stacking::cycles, 6}},
    {"gemma4", {Stacking::two_level, 6}},
    {"qwen3_next", {Stacking::cycles, 0}},
    {"gpt_oss", {Stacking::cycles, 0}},
    {"llama4", {Stacking::cycles, 0}},
    {"envy", {Stacking::cycles, 0}},
    {"olmo3", {Stacking::cycles, 0}},
    {"deepseek", {Stacking::dense_then_moe, 1}}};

void lay_out(const Settings& theirs, std::string_view block, MaxTextConfig& out) {
  if (const auto found = kLayouts.find(block); found != kLayouts.end()) {
    out.stacking = found->second.stacking;
    out.cycle = found->second.cycle > 0 ? found->second.cycle
                                        : theirs.integer("inhomogeneous_layer_cycle_interval", 1);
  }
  const bool unrolled =
      !theirs.flag("scan_layers", true) || theirs.flag("learn_to_init_mode", false);
  if (unrolled && out.stacking == Stacking::dense_then_moe)
    out.stacking = Stacking::dense_then_moe_unrolled;
  else if (unrolled && out.stacking != Stacking::pairs)
    out.stacking = Stacking::unrolled;
  out.dense_layers = block == "deepseek" ? theirs.integer("first_num_dense_layers", 0) : 0;
  if (const JsonValue layers = theirs.find("engram_layers"))
    for (JsonValue layer : layers.elements()) out.engram_layers.push_back(layer.as_int64());
  if (block == "qwen3_next") out.cycle_folder = "layer";
}

// Sets the factors between their values and ours.
void scale(const Settings& theirs, std::string_view block, MaxTextConfig& out) {
  static constexpr std::string_view kScaled[] = {"llama2",  "default", "mistral",
                                                 "mixtral", "gemma",   "gemma2"};
  out.query_scaled = std::ranges::find(kScaled, block) != std::end(kScaled);
  if (!block.starts_with("gemma")) return;
  out.table_scale = std::sqrt(static_cast<double>(theirs.integer("base_emb_dim", 2048)));
  out.norm_offset = block == "gemma4" ? 0 : 1;
}

// Returns true if rotations rotate neighbouring channels. For new weights, as in an imported run,
// both orders are equivalent; these weights have their order.
bool turns_neighbours(const Settings& theirs, std::string_view block) {
  static constexpr std::string_view kBlocks[] = {"llama2", "default", "mistral", "mixtral"};
  if (std::ranges::find(kBlocks, block) == std::end(kBlocks)) return false;
  const auto begins = [&](const char* key) {
    const JsonValue value = theirs.find(key);
    return value && value.as_string().starts_with("llama3.1");
  };
  const JsonValue type = theirs.find("rope_type");
  return begins("rope_type") || begins("model_name") ||
         (type && type.as_string() == "yarn" && theirs.flag("rope_interleave", true));
}

// Removes load_balance_loss_weight from the model, for tests that change it.
double take_balance_weight(std::string& model) {
  constexpr std::string_view kKey = "load_balance_loss_weight = ";
  const std::size_t at = model.find(kKey);
  if (at == model.npos) return 0;
  const std::size_t end = model.find('\n', at);
  const double weight = std::stod(model.substr(at + kKey.size()));
  model.erase(at, end + 1 - at);
  return weight;
}

MaxTextConfig describe(JsonValue overrides, JsonValue resolved) {
  MaxTextConfig out;
  const Settings theirs({overrides, resolved});
  if (!theirs.find("vocab_size")) {
    out.reason = "is of a module, not of a whole model";
    return out;
  }
  try {
    const imports::Imported imported = import_maxtext({resolved, overrides});
    out.model = model_text(imported);
    out.block = imported.block;
    out.run = config::parse_run(imported.toml, "imported");
  } catch (const UserError& error) {
    out.reason = error.what();
    return out;
  }
  if (turns_neighbours(theirs, out.block)) out.model += "rope_interleave = true\n";
  out.balance_weight = take_balance_weight(out.model);
  lay_out(theirs, out.block, out);
  scale(theirs, out.block, out);
  out.padding_is_document = out.block != "qwen3_next";  // delta nets continue over padding
  out.row_positions = out.block == "llama4";
  return out;
}

}  // namespace

MaxTextConfig maxtext_config(const fs::path& directory) {
  const JsonDocument config =
      JsonDocument::read((directory / "config.json").string(), {.code = ExitCode::checkpoint});
  const JsonDocument golden =
      JsonDocument::read((directory / "golden.json").string(), {.code = ExitCode::checkpoint});
  MaxTextConfig out =
      describe(config.root(), golden.root().find("resolved_differences_from_maxtext_defaults"));
  if (const JsonValue target = golden.root().find("mtp_eval_target_module"))
    out.mtp_eval_target_module = target.as_int64();
  return out;
}

}  // namespace lamina::testing
