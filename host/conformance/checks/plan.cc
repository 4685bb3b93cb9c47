// PLN: the plan of layers.
#include <algorithm>
#include <optional>
#include <set>

#include "config/model_keys.h"
#include "conformance/check.h"
#include "conformance/checks/checks.h"
#include "conformance/subjects/odd_configs.h"
#include "conformance/subjects/subject.h"
#include "core/error.h"
#include "lamina/names.h"

namespace lamina::conformance {
namespace {

// The plan with that many layers; nothing if the family refuses the number.
std::optional<registry::PlanSpec> plan_of(const FamilySubject& subject, const SmallModel& small,
                                          std::int64_t layers) {
  const config::ModelSource source = with_value(small.source, LAMINA_CONFIG_NUM_LAYERS, layers);
  try {
    const registry::ModelConfig config = subject.family().configure(source.raw, source.where);
    return subject.family().plan(config);
  } catch (const UserError&) {
    return std::nullopt;
  } catch (const PluginError& refused) {
    fail("model '{}' with {} layers: {}", small.name, layers, refused.text().what);
  }
}

std::int64_t longest_unit(const registry::PlanSpec& plan) {
  std::size_t out = 1;
  for (const registry::SegmentSpec& segment : plan.segments)
    out = std::max(out, segment.unit.size());
  return static_cast<std::int64_t>(out);
}

// Adds the names of blocks in small models of the family.
void add_blocks(const FamilySubject& subject, std::set<std::string>& to) {
  for (const SmallModel& small : subject.models()) {
    const decoder::Model model = subject.open(small);
    std::set<std::uint32_t> ids = {model.options().embed.entry, model.options().head.exit,
                                   model.options().mtp.block};
    for (const decoder::StackSegment& segment : model.stack().segments)
      for (const registry::PositionSpec& position : segment.unit) ids.insert(position.block);
    for (const registry::Block& block : subject.family().blocks())
      if (ids.contains(block.id)) to.insert(block.name);
  }
}

// The SDK gives every family a block of this name, and refuses models with it if the last layer
// cannot be repeated.
constexpr std::string_view kBlockOfPrediction = "prediction";

bool predicts(const FamilySubject& subject) {
  const registry::ModelKey* depth = subject.family().find_key(config::kPredictionLayers);
  return depth && !depth->ignored;
}

// Blocks in small models with one prediction layer; none if the family refuses it.
std::set<std::uint32_t> prediction_blocks(const FamilySubject& subject) {
  std::set<std::uint32_t> out;
  if (!predicts(subject)) return out;
  for (const SmallModel& small : subject.models()) try {
      SmallModel with = small;
      with.source =
          with_value(small.source, std::string(config::kPredictionLayers), std::int64_t{1});
      out.insert(subject.open(with).options().mtp.block);
    } catch (const Refused&) {  // the error says why it must be 0
    }
  out.erase(0);
  return out;
}

}  // namespace

void check_plans(const FamilySubject& subject) {
  for (const SmallModel& small : subject.models()) {
    const registry::ModelConfig config = subject.configure(small);
    const std::optional<registry::PlanSpec> own = plan_of(subject, small, config.num_layers());
    if (!own) fail("model '{}' has no plan with its own number of layers", small.name);
    const std::int64_t unit = longest_unit(*own);
    for (const std::int64_t layers :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, unit - 1, unit, unit + 1, 2 * unit + 1,
          config.num_layers(), std::int64_t{97}}) {
      const auto first = plan_of(subject, small, layers), second = plan_of(subject, small, layers);
      if (first != second)
        fail("model '{}' with {} layers has another plan when it is requested again", small.name,
             layers);
      if (first && first->num_layers() != layers)
        fail("the plan of model '{}' has {} layers; expected {}", small.name, first->num_layers(),
             layers);
    }
  }
}

void check_blocks_are_used(const FamilySubject& subject) {
  std::set<std::string> used;
  add_blocks(subject, used);
  for (const FamilySubject* other : subject.siblings())
    if (other != &subject) add_blocks(*other, used);
  const std::set<std::uint32_t> predictions = prediction_blocks(subject);
  for (const registry::Block& block : subject.family().blocks()) {
    if (used.contains(block.name)) continue;
    const std::string folder = models_folder(subject.plugin().file()).filename().string();
    if (predictions.contains(block.id))
      fail(
          "block '{}' predicts further tokens and is in no small model, so it is not checked; "
          "describe a model with {} = 1 in {}/NAME.toml, or no prediction (in the SDK .mtp_inputs "
          "= MtpInputs::none)",
          block.name, config::kPredictionLayers, folder);
    if (block.name == kBlockOfPrediction && predictions.empty() && predicts(subject)) continue;
    fail(
        "block '{}' is in no small model, so it is not checked; describe a model that "
        "has it in {}/NAME.toml, or remove the block",
        block.name, folder);
  }
}

}  // namespace lamina::conformance
