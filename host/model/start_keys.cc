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

bool is_default(const config::Entry& entry) {
  return entry.origin.kind == config::Origin::Kind::preset;
}

// `has_file`: the values are a model file's, with its defaults, else the directory's, with others
// for some keys.
std::vector<Difference> differences(const decoder::Model& model, const decoder::Model& source,
                                    bool has_file) {
  std::vector<Difference> out;
  for (const config::Entry& now : model.config().values().entries()) {
    const config::Entry* before = source.config().values().find(now.key);
    if ((is_default(now) && !has_file) || (before && before->value == now.value)) continue;
    out.push_back(
        {&now, fmt::format("{} is {} {}, but {} there", now.key, config::to_toml(now.value),
                           is_default(now) ? "by default" : "at " + now.origin.text,
                           before ? config::to_toml(before->value) : "absent")});
  }
  return out;
}

// Returns the keys of the directory that a model file lacks.
std::vector<std::string> lacking(const decoder::Model& model, const decoder::Model& source) {
  std::vector<std::string> out;
  for (const config::Entry& before : source.config().values().entries())
    if (!model.config().values().has(before.key))
      out.push_back(
          fmt::format("{} is absent, but {} there", before.key, config::to_toml(before.value)));
  return out;
}

// Returns whether the difference only removes prediction layers, which does not change the next
// token.
bool drops_predictions(const Difference& difference, const decoder::Model& source) {
  return difference.now->key == config::kPredictionLayers &&
         *difference.now->value.get_if<std::int64_t>() < source.mtp_depth();
}

// A default must overrule the directory's value.
config::Origin origin_of(const config::Entry& now) {
  if (!is_default(now)) return now.origin;
  return {config::Origin::Kind::run_file, now.origin.text};
}

// Returns the model with other values of some keys.
config::ModelSource with_values(const config::ModelSource& from,
                                std::span<const Difference> changed) {
  config::ModelSource out = from;
  for (const Difference& difference : changed)
    out.raw.entries.push_back({.key = "model." + difference.now->key,
                               .value = difference.now->value,
                               .origin = origin_of(*difference.now),
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
  const bool has_file = !run.model.path.empty();
  const std::vector<Difference> all = differences(model, source, has_file);
  std::vector<Difference> removing, others;
  for (const Difference& difference : all)
    (drops_predictions(difference, source) ? removing : others).push_back(difference);
  const std::vector<std::string> absent =
      has_file ? lacking(model, source) : std::vector<std::string>();
  std::vector<std::string> notes;
  if (run.train.fresh.empty() && !(others.empty() && absent.empty())) {
    const config::ModelSource before = with_values(from.source, removing);
    const decoder::Model plain = make(before, plugins, options);
    const bool is_same = has_file && computes_the_same(plain, make(run.model, plugins, options));
    const auto effect_of = [&](std::span<const Difference> some) {
      try {
        const decoder::Model now = make(with_values(before, some), plugins, options);
        return computes_the_same(plain, now) ? Effect::none : Effect::changes;
      } catch (const UserError&) {
        return Effect::invalid;
      }
    };
    if (!is_same) {
      for (const Difference& difference : changing_of(others, effect_of))
        notes.push_back(difference.text);
      if (notes.empty()) notes = absent;
    }
  }
  if (notes.empty()) {
    for (const Difference& difference : all) log::info("model.{}", difference.text);
    return;
  }
  notes.push_back(
      fmt::format("remove {}; if they create new tensors, list these in train.fresh",
                  has_file ? "the model file, or give it the values of the directory" : "them"));
  throw UserError(ExitCode::usage,
                  {config::place_in(run)("train.from"),
                   fmt::format("{} is not the model that [model] describes", run.train.from),
                   std::move(notes)});
}

}  // namespace lamina::model
