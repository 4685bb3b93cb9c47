#include "model/start_keys.h"

#include <algorithm>
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

// Returns the model of the directory with other values of some keys.
config::ModelSource with_values(const Description& from, std::span<const Difference> changed) {
  config::ModelSource out = from.source;
  for (const Difference& difference : changed)
    out.raw.entries.push_back({.key = "model." + difference.now->key,
                               .value = difference.now->value,
                               .origin = difference.now->origin,
                               .folder = {},
                               .source = {}});
  return out;
}

}  // namespace

void check_start_keys(const config::RunConfig& run, const Description& from,
                      const registry::Catalog& plugins, const decoder::ModelOptions& options,
                      const decoder::Model& model, const decoder::Model& source) {
  std::vector<Difference> all = differences(model, source), changing, free;
  if (all.empty()) return;
  const decoder::Model plain = make(from.source, plugins, options);
  const auto is_free = [&](std::span<const Difference> some) {
    try {
      return computes_the_same(plain, make(with_values(from, some), plugins, options));
    } catch (const UserError&) {
      return false;  // the value alone is not valid with the others
    }
  };
  if (run.train.fresh.empty())
    for (const Difference& difference : all)
      if (!drops_predictions(difference, source))
        (is_free({&difference, 1}) ? free : changing).push_back(difference);
  if (changing.empty() && free.size() > 1 && !is_free(free)) changing = free;
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
