#include "model/start_keys.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "config/model_keys.h"
#include "core/error.h"
#include "core/log.h"
#include "model/same_function.h"

namespace lamina::model {
namespace {

// A key of [model] that differs from the directory's.
struct Difference {
  const config::Entry* now;
  std::string text;
};
std::vector<Difference> differences(const decoder::Model& model, const decoder::Model& source) {
  std::vector<Difference> out;
  for (const config::Entry& now : model.config().values().entries()) {
    const config::Entry* before = source.config().values().find(now.key);
    if (now.origin.kind == config::Origin::Kind::preset || (before && before->value == now.value))
      continue;
    out.push_back(
        {&now, fmt::format("{} is {} at {}, but {} there", now.key, config::to_toml(now.value),
                           now.origin.text, before ? config::to_toml(before->value) : "absent")});
  }
  return out;
}

// Returns whether the difference only removes prediction layers, which does not change the next
// token.
bool drops_predictions(const Difference& difference, const decoder::Model& source) {
  return difference.now->key == config::kPredictionLayers &&
         *difference.now->value.get_if<std::int64_t>() < source.mtp_depth();
}

// Returns the model with other values of some keys.
config::ModelSource with_values(const config::ModelSource& from,
                                std::span<const Difference> changed) {
  config::ModelSource out = from;
  for (const Difference& difference : changed)
    out.raw.entries.push_back({.key = "model." + difference.now->key,
                               .value = difference.now->value,
                               .origin = difference.now->origin,
                               .folder = {},
                               .source = {}});
  return out;
}

enum class Effect { none, changes, invalid };
using EffectOf = std::function<Effect(std::span<const Difference>)>;

// Moves one difference from `invalid` to `free`, or two that are valid only together. Returns false
// if there are none.
bool move_free(std::vector<Difference>& invalid, std::vector<Difference>& free,
               const EffectOf& effect_of) {
  for (std::size_t i = 0; i < invalid.size(); ++i)
    for (std::size_t j = i; j < invalid.size(); ++j) {
      std::vector<Difference> some = free;
      some.push_back(invalid[i]);
      if (j > i) some.push_back(invalid[j]);
      if (effect_of(some) != Effect::none) continue;
      free = std::move(some);
      invalid.erase(invalid.begin() + static_cast<std::ptrdiff_t>(j));
      if (j > i) invalid.erase(invalid.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
  return false;
}

// Returns the differences that change the model, in order. Some keys are valid only with others, eg
// layer_dropout with dropout_rate.
std::vector<Difference> changing_of(std::vector<Difference> all, const EffectOf& effect_of) {
  if (effect_of(all) == Effect::none) return {};
  std::vector<Difference> free, invalid;
  for (const Difference& difference : all) {
    free.push_back(difference);
    const Effect effect = effect_of(free);
    if (effect != Effect::none) free.pop_back();
    if (effect == Effect::invalid) invalid.push_back(difference);
  }
  while (move_free(invalid, free, effect_of)) continue;
  std::erase_if(all, [&](const Difference& difference) {
    return std::ranges::find(free, difference.now, &Difference::now) != free.end();
  });
  return all;
}

}  // namespace

void check_start_keys(const config::RunConfig& run, const Description& from,
                      const registry::Catalog& plugins, const decoder::ModelOptions& options,
                      const decoder::Model& model, const decoder::Model& source) {
  const std::vector<Difference> all = differences(model, source);
  std::vector<Difference> removing, others;
  for (const Difference& difference : all)
    (drops_predictions(difference, source) ? removing : others).push_back(difference);
  std::vector<Difference> changing;
  if (run.train.fresh.empty() && !others.empty()) {
    const config::ModelSource before = with_values(from.source, removing);
    const decoder::Model plain = make(before, plugins, options);
    changing = changing_of(others, [&](std::span<const Difference> some) {
      try {
        const decoder::Model now = make(with_values(before, some), plugins, options);
        return computes_the_same(plain, now) ? Effect::none : Effect::changes;
      } catch (const UserError&) {
        return Effect::invalid;
      }
    });
  }
  if (changing.empty()) {
    for (const Difference& difference : all) log::info("model.{}", difference.text);
    return;
  }
  std::vector<std::string> notes;
  for (const Difference& difference : changing) notes.push_back(difference.text);
  notes.emplace_back("remove them; if they create new tensors, list these in train.fresh");
  throw UserError(ExitCode::usage,
                  {config::place_in(run)("train.from"),
                   fmt::format("{} is not the model that [model] describes", run.train.from),
                   std::move(notes)});
}

}  // namespace lamina::model
