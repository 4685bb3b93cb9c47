#include "inspect/plan/model_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "decode/session.h"
#include "inspect/cost/expert_share.h"
#include "inspect/cost/required_work.h"
#include "lamina/names.h"

namespace lamina::inspect {
namespace {

using decoder::Parameter;

// The share of each parameter that one token uses; 0 for parameters that only training reads.
std::vector<double> shares_by_parameter(const decoder::Model& model) {
  decoder::ModelGraph token = model.forward_graph({});
  std::vector<double> by_input = used_shares(token.graph);
  std::vector<double> out(model.parameters().all().size());
  for (std::size_t i = 0; i < token.inputs.size(); ++i)
    if (token.inputs[i].role == decoder::Input::parameter)
      for (int member : token.inputs[i].members)
        out[static_cast<std::size_t>(member)] = by_input[i];
  return out;
}

bool is_integer(const Parameter& p) { return p.desc.dtype && !is_floating(*p.desc.dtype); }

std::int64_t used(const Parameter& p, double share) {
  return std::llround(static_cast<double>(p.num_elements()) * share);
}

ParameterCounts count(const std::vector<Parameter>& parameters, const std::vector<double>& shares) {
  ParameterCounts out;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    std::int64_t n = p.num_elements();
    if (is_integer(p) || shares[i] == 0) {
      (is_integer(p) ? out.integers : out.training_only) += n;
      continue;
    }
    out.total += n;
    out.active += used(p, shares[i]);
    if (shares[i] < 1) out.routed += n;
    bool beside = p.layer < 0 &&
                  (p.desc.role == registry::Role::embedding || p.desc.role == registry::Role::head);
    if (!beside) out.active_non_embedding += used(p, shares[i]);
    if (p.layer >= 0)
      out.layers += n;
    else if (p.name == LAMINA_NAME_EMBED)
      out.embedding += n;
    else if (p.name == LAMINA_NAME_POSITIONS)
      out.positions += n;
    else if (p.name == LAMINA_NAME_HEAD || p.name == LAMINA_NAME_HEAD_BIAS)
      out.head += n;
    else if (p.name == LAMINA_NAME_NORM || p.name == LAMINA_NAME_NORM_BIAS)
      out.norm += n;
    else
      out.other += n;
  }
  return out;
}

std::vector<std::pair<DType, std::int64_t>> weight_bytes(const std::vector<Parameter>& parameters,
                                                         const std::vector<double>& shares) {
  std::vector<std::pair<DType, std::int64_t>> out;
  for (DType dtype : {DType::f32, DType::bf16}) {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (shares[i] > 0)
        bytes += parameters[i].num_elements() * size_bytes(parameters[i].used_dtype(dtype));
    out.emplace_back(dtype, bytes);
  }
  return out;
}

std::vector<std::pair<std::string, std::int64_t>> stored_bytes(
    const std::vector<Parameter>& parameters, const std::vector<double>& shares, DType dtype) {
  std::vector<std::pair<std::string, std::int64_t>> out;
  for (const formats::BlockFormat& format : formats::block_formats())
    out.emplace_back(format.name, 0);
  out.emplace_back("plain", 0);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Type type = parameters[i].used_type(dtype);
    const std::string_view name = type.storage ? type.storage->name : "plain";
    if (shares[i] > 0)
      std::ranges::find(out, name, &std::pair<std::string, std::int64_t>::first)->second +=
          type.bytes();
  }
  std::erase_if(out, [](const auto& row) { return row.second == 0; });
  if (out.size() == 1 && out[0].first == "plain") out.clear();
  return out;
}

// "local(sliding_window=512)"
std::string describe(const decoder::Model& model, const registry::PositionSpec& position) {
  std::string settings;
  for (const registry::Setting& s : position.overrides)
    settings +=
        fmt::format("{}{}={}", settings.empty() ? "" : ", ", s.key, config::to_toml(s.value));
  const std::string& name = model.family().block(position.block).name;
  return settings.empty() ? name : fmt::format("{}({})", name, settings);
}

std::string layers_text(std::int64_t first, std::int64_t count) {
  return count == 1 ? fmt::format("layer {}", first)
                    : fmt::format("layers {}-{}", first, first + count - 1);
}

std::vector<StackPart> stack_parts(const decoder::Model& model, const std::vector<double>& shares) {
  const std::vector<Parameter>& parameters = model.parameters().all();
  std::vector<std::pair<std::int64_t, std::int64_t>> by_layer(
      static_cast<std::size_t>(model.stack().num_layers()));
  std::vector<StackPart> before, after;
  bool in_layers = false;  // parameters are in the order of the stack
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (is_integer(p) || shares[i] == 0) continue;
    if (p.layer >= 0) {
      in_layers = true;
      auto& [all, active] = by_layer[static_cast<std::size_t>(p.layer)];
      all += p.num_elements(), active += used(p, shares[i]);
      continue;
    }
    (in_layers ? after : before)
        .push_back({p.name, to_string(p.desc.shape), p.num_elements(), used(p, shares[i]), {}});
  }

  std::vector<StackPart> out = std::move(before);
  for (const decoder::StackSegment& segment : model.stack().segments) {
    StackPart part{layers_text(segment.first_layer, segment.num_layers()), {}, 0, 0, {}};
    // Adjacent layers of one kind are combined: "{local x 5, global} x 10".
    std::vector<std::pair<std::string, int>> runs;
    for (std::size_t p = 0; p < segment.unit.size(); ++p) {
      std::string kind = describe(model, segment.unit[p]);
      if (runs.empty() || runs.back().first != kind) runs.emplace_back(kind, 0);
      ++runs.back().second;
      StackPart member{kind, {}, 0, 0, {}};
      for (std::int64_t layer : segment.layers_at(p)) {
        member.parameters += by_layer[static_cast<std::size_t>(layer)].first;
        member.active += by_layer[static_cast<std::size_t>(layer)].second;
      }
      part.parameters += member.parameters, part.active += member.active;
      auto known = std::ranges::find(part.members, kind, &StackPart::name);
      if (known == part.members.end())
        part.members.push_back(std::move(member));
      else
        known->parameters += member.parameters, known->active += member.active;
    }
    for (const auto& [kind, times] : runs)
      part.detail += fmt::format("{}{}{}", part.detail.empty() ? "{" : ", ", kind,
                                 times > 1 ? fmt::format(" x {}", times) : "");
    part.detail += fmt::format("}} x {}", segment.times);
    if (part.members.size() == 1) part.members.clear();
    out.push_back(std::move(part));
  }
  std::ranges::move(after, std::back_inserter(out));
  return out;
}

// The size of the decode state with `capacity` tokens.
decoder::StateSize state_size(std::int64_t capacity) {
  return {capacity, std::min(decode::SessionOptions{}.call_tokens, capacity)};
}

std::string_view layout_name(const decoder::StateTensor& state) {
  if (state.ring) return "ring";
  switch (state.kind) {
    case registry::StateKind::kv:
      return "kv";
    case registry::StateKind::latent:
      return "latent";
    case registry::StateKind::recurrent:
      return "recurrent";
    case registry::StateKind::conv_window:
      return "conv_window";
    case registry::StateKind::token_history:
      return "token_history";
    case registry::StateKind::index_keys:
      return "index_keys";
    case registry::StateKind::custom:
      return "custom";
  }
  return "";
}

// "kv", "ring in INT8_ROW"
std::string kind_of(const decoder::StateTensor& state) {
  std::string out(layout_name(state));
  if (state.type.storage) out += fmt::format(" in {}", state.type.storage->name);
  return out;
}

std::vector<StateUse> state_uses(const decoder::Model& model, DType dtype) {
  if (!model.is_autoregressive()) return {};
  // Two lengths, beyond every window if possible: the difference is the cost of tokens.
  const registry::EmbedSpec& embed = model.options().embed;
  const std::int64_t longest =
      embed.positions == registry::Positions::learned ? embed.max_positions : std::int64_t{1} << 26;
  const std::int64_t more = std::min<std::int64_t>(4096, longest / 2), first = longest - more;
  std::vector<decoder::StateTensor> at = model.states({.dtype = dtype}, state_size(first));
  std::vector<decoder::StateTensor> later = model.states({.dtype = dtype}, state_size(longest));
  struct Bytes {
    double per_token = 0, fixed = 0;
  };
  std::map<std::pair<std::string, std::int64_t>, Bytes> by_layer;  // key: layer and kind
  for (std::size_t i = 0; i < at.size(); ++i) {
    // A table of one position leaves no second length.
    double slope = static_cast<double>(later[i].bytes() - at[i].bytes()) /
                   static_cast<double>(std::max<std::int64_t>(more, 1));
    Bytes& bytes = by_layer[{kind_of(at[i]), at[i].layer}];
    bytes.per_token += slope;
    bytes.fixed += static_cast<double>(at[i].bytes()) - slope * static_cast<double>(first);
  }
  std::vector<StateUse> out;
  for (const auto& [key, bytes] : by_layer) {
    StateUse use{key.first, 1, bytes.per_token, bytes.fixed};
    auto known = std::ranges::find_if(out, [&](const StateUse& u) {
      return std::tie(u.kind, u.bytes_per_token, u.fixed_bytes) ==
             std::tie(use.kind, use.bytes_per_token, use.fixed_bytes);
    });
    known == out.end() ? out.push_back(std::move(use)) : void(++known->num_layers);
  }
  return out;
}

WorkPerToken work_of(const decoder::Model& model, const PlanOptions& options) {
  WorkPerToken out;
  const decoder::GraphShape shape{1, options.tokens, options.dtype};
  decoder::ModelGraph row = model.loss_graph(shape, {.training = true});
  out.forward_flops = required_flops(row.graph) / static_cast<double>(options.tokens);
  decoder::ModelGraph trained = model.loss_graph(shape, {.training = true, .aux = true});
  out.train_flops =
      kTrainingFactor * required_flops(trained.graph) / static_cast<double>(options.tokens);
  // The backward pass skips work that only frozen parameters need.
  const bool frozen = std::ranges::any_of(model.parameters().all(),
                                          [](const Parameter& p) { return p.learning.frozen; });
  if (frozen) {
    std::vector<bool> learns;
    for (const decoder::InputRole& input : trained.inputs)
      learns.push_back(input.role == decoder::Input::parameter &&
                       model.parameters()[input.members.front()].learns());
    out.train_flops =
        (required_flops(trained.graph) + required_backward_flops(trained.graph, learns)) /
        static_cast<double>(options.tokens);
  }
  if (!model.is_autoregressive()) return out;
  const decoder::GraphShape one{1, 1, options.dtype};
  decoder::ModelGraph token = model.decode_graph(one, state_size(options.tokens));
  const double bytes = required_read_bytes(token, model.states(one, state_size(options.tokens)),
                                           static_cast<double>(options.tokens));
  out.decode = {.flops = required_flops(token.graph, options.tokens - 1), .read_bytes = bytes};
  return out;
}

}  // namespace

ParameterCounts count_parameters(const decoder::Model& model) {
  return count(model.parameters().all(), shares_by_parameter(model));
}

ModelPlan plan_model(const decoder::Model& model, const PlanOptions& options,
                     const Backend& backend) {
  const std::vector<Parameter>& parameters = model.parameters().all();
  std::vector<double> shares = shares_by_parameter(model);
  ModelPlan out;
  out.options = options;
  out.family = model.family().name();
  out.num_layers = model.stack().num_layers();
  out.hidden_size = model.hidden_size();
  out.vocab_size = model.vocab_size();
  out.parameters = count(parameters, shares);
  out.weight_bytes = weight_bytes(parameters, shares);
  out.stored_bytes = stored_bytes(parameters, shares, options.dtype);
  out.storage = parameter_storage(model, options.dtype);
  out.stack = stack_parts(model, shares);
  out.states = state_uses(model, options.dtype);
  if (model.is_autoregressive())
    for (const decoder::StateTensor& state :
         model.states({options.batch, 1, options.dtype}, state_size(options.tokens)))
      out.state_bytes += state.bytes();
  out.work = work_of(model, options);
  out.train = plan_train_memory(model, options, backend);
  out.remat = plan_activations(model, options, backend);
  return out;
}

}  // namespace lamina::inspect
