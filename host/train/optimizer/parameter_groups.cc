#include "train/optimizer/parameter_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "decoder/stack/parameter_match.h"
#include "train/loop/train_step.h"
#include "train/optimizer/gradients.h"

namespace lamina::train {
namespace {

using config::ParameterGroup;
using decoder::Learning;
using decoder::Parameter;

constexpr std::string_view kGroups = "optimizer.groups";
decoder::ParameterMatch match_of(const ParameterGroup& group) {
  return {group.match, group.group, group.role};
}

std::string text_of(const ParameterGroup& group) {
  std::vector<std::string> parts;
  if (group.match) parts.push_back(fmt::format("match = \"{}\"", *group.match));
  if (group.group) parts.push_back(fmt::format("group = \"{}\"", *group.group));
  if (group.role) parts.push_back(fmt::format("role = \"{}\"", *group.role));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

// Returns whether the numbers, which are positive, have this sum. It may overflow.
bool have_sum(const std::vector<std::int64_t>& numbers, std::int64_t sum) {
  for (std::int64_t number : numbers) {
    if (number > sum) return false;
    sum -= number;
  }
  return sum == 0;
}

// Returns what is wrong with a group, whatever the model; "" for nothing.
std::string own_problem(const ParameterGroup& group) {
  if (!group.match && !group.group && !group.role)
    return "does not say which parameters it is for; give match, group or role";
  const bool learns =
      group.lr_scale || group.multiplier || group.weight_decay || !group.split_rows.empty();
  if (!group.frozen && !learns)
    return "says nothing about its parameters; give frozen, lr_scale, multiplier or weight_decay";
  if (group.frozen.value_or(false) && learns)
    return "is frozen, so its other keys have no effect; remove them";
  return "";
}

// Freezes parameters that no loss of this model depends on.
void freeze_unreached(const decoder::Model& model, const decoder::GraphShape& shape,
                      const Task& task, std::vector<Learning>& learning) {
  const decoder::ModelGraph graph = add_gradients(task.loss_graph(model, shape, all_losses()),
                                                  model.parameters(), autodiff::save_everything());
  std::vector<bool> reached(learning.size());
  for (const decoder::OutputRole& output : graph.outputs)
    if (output.role == decoder::Output::gradient)
      for (int member : graph.inputs[static_cast<std::size_t>(output.input)].members)
        reached[static_cast<std::size_t>(member)] = true;
  for (std::size_t i = 0; i < learning.size(); ++i)
    if (!reached[i]) learning[i] = {.frozen = true};
}

}  // namespace

std::vector<Learning> learning_of(const decoder::ParameterTable& table,
                                  const std::vector<ParameterGroup>& groups,
                                  const config::KeyPlace& place) {
  const std::vector<Parameter>& parameters = table.all();
  auto refuse = [&](std::size_t i, const std::string& what, std::vector<std::string> notes) {
    throw UserError(ExitCode::usage, {place ? place(kGroups) : std::string(kGroups),
                                      fmt::format("group {}, {}, {}", i, text_of(groups[i]), what),
                                      std::move(notes)});
  };
  auto check_split = [&](std::size_t i, const Parameter& p) {
    const std::vector<std::int64_t>& rows = groups[i].split_rows;
    const std::int64_t all = p.desc.shape.ndim() < 2 ? 0 : p.desc.shape[-2];
    if (!rows.empty() && !have_sum(rows, all))
      refuse(i,
             fmt::format("splits the {} rows of '{}' into {}", all, p.name, fmt::join(rows, " + ")),
             {"the numbers must have the sum of the rows"});
  };
  std::vector<Learning> out(parameters.size());
  std::vector<bool> taken(parameters.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const ParameterGroup& group = groups[i];
    if (const std::string problem = own_problem(group); !problem.empty()) refuse(i, problem, {});
    bool any = false, counts = false;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (!fits(match_of(group), parameters[p])) continue;
      any = true;
      if (taken[p]) continue;
      counts = taken[p] = true;
      out[p] = {.frozen = group.frozen.value_or(false),
                .lr_scale = group.lr_scale.value_or(1),
                .multiplier = group.multiplier.value_or(1),
                .weight_decay = group.weight_decay,
                .split_rows = group.split_rows};
      check_split(i, parameters[p]);
    }
    if (!any)
      refuse(i, "matches no parameter of this model",
             {suggestion(match_of(group), parameters, decoder::MatchSyntax::keys)});
    if (!counts)
      refuse(i, "has no effect: every parameter that it fits belongs to an earlier group",
             {"the first group that fits a parameter counts; put the narrow ones first"});
  }
  return out;
}

void set_learning(decoder::Model& model, const config::OptimizerSection& config,
                  const decoder::GraphShape& shape, const config::KeyPlace& place,
                  const Task& task) {
  const std::vector<Parameter>& parameters = model.parameters().all();
  std::vector<Learning> learning = learning_of(model.parameters(), config.groups, place);
  if (model.adapter())
    for (std::size_t i = 0; i < learning.size(); ++i)
      if (!decoder::is_adapter(parameters[i].name)) learning[i] = {.frozen = true};
  if (model.options().head.no_loss || (model.mtp_depth() > 0 && !task.trains_mtp()))
    freeze_unreached(model, shape, task, learning);
  const bool any = [&] {
    for (std::size_t i = 0; i < learning.size(); ++i)
      if (parameters[i].desc.trained && !learning[i].frozen) return true;
    return false;
  }();
  if (!any)
    throw UserError(ExitCode::usage, {place ? place(kGroups) : std::string(kGroups),
                                      "every parameter is frozen, so there is nothing to learn",
                                      {"freeze fewer, eg: by a narrower match"}});
  model.set_learning(learning);
}

}  // namespace lamina::train
