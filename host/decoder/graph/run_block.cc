#include "decoder/graph/run_block.h"

#include <algorithm>

#include "core/error.h"
#include "graph/rewrite.h"

namespace lamina::decoder {

namespace {

Type stacked(const Type& one, std::int64_t times) {
  return one.with(one.shape.with_leading(times)).stored_as(one.storage);
}

}  // namespace

Tensor value_input(GraphBuilder& to, const BlockPlacement& place, const std::string& name,
                   const Type& inner, InputRole role) {
  role.stacked = place.scan != nullptr;
  std::string outer_name = fmt::format("{}{}", place.label, name);
  if (!place.scan) return to.add_input(std::move(outer_name), inner, std::move(role));
  const auto times = static_cast<std::int64_t>(place.layers.size());
  Tensor outer = to.add_input(std::move(outer_name), stacked(inner, times), std::move(role));
  return place.scan->add_x(name, outer);
}

void collect(const BlockPlacement& place, const std::string& name, Tensor value,
             std::function<void(Tensor)> use, Tensor over) {
  if (place.scan)
    place.scan->add_y(name, value, std::move(use), over);
  else
    use(ops::reshape(value, value.shape().with_leading(1)));
}

Tensor shared_param(GraphBuilder& to, std::int64_t owner, const BlockGraph::Param& param) {
  return to.parameter(
      to.parts().parameters.find(fmt::format("layers.{}.{}", owner, param.desc.name)));
}

Tensor BlockRunner::param_input(const BlockPlacement& place, const BlockGraph::Param& param) {
  InputRole role{Input::parameter, {}, true, {}};
  for (const std::string& scope : place.scopes)
    role.members.push_back(to_.parts().parameters.find(scope + param.desc.name));
  if (!place.scan) return to_.parameter(role.members.front());
  const Parameter& first = to_.parts().parameters[role.members.front()];
  return value_input(to_, place, param.desc.name, to_.param_type(param.desc, first),
                     std::move(role));
}

Tensor BlockRunner::block_state(const BlockPlacement& place, const BlockGraph::State& state) {
  InputRole role{Input::state, {}, true, {}};
  for (std::size_t i = 0; i < place.layers.size(); ++i) {
    role.members.push_back(static_cast<int>(to_.out().states.size()));
    to_.out().states.push_back(
        {place.scopes[i] + state.name, place.layers[i], state.type, state.ring, state.kind});
  }
  if (place.scan) return value_input(to_, place, state.name, state.type, std::move(role));
  // A state outside of scans is stacked, too, over one layer.
  Tensor outer =
      to_.add_input(place.scopes[0] + state.name, stacked(state.type, 1), std::move(role));
  return ops::reshape(outer, state.type.shape);
}

// Returns the layer's index, or the layer's value of a constant.
Tensor BlockRunner::layer_value(const BlockGraph& block, const BlockPlacement& place,
                                const BlockGraph::HostInput& input) {
  const GraphInput& declared = block.graph.inputs()[static_cast<std::size_t>(input.input)];
  InputRole role{input.role, {}, true, {}};
  // Blocks of multi-token prediction follow the last layer and share its constants.
  std::int64_t last = to_.phase().num_layers - 1;
  for (std::int64_t layer : place.layers)
    role.values.push_back(input.role == Input::layer_index
                              ? static_cast<double>(layer)
                              : input.values[static_cast<std::size_t>(std::min(layer, last))]);
  return value_input(to_, place, declared.name, block.graph.type(declared.value), std::move(role));
}

std::vector<Tensor> BlockRunner::run(const BlockGraph& block, const BlockPlacement& place,
                                     const std::vector<Tensor>& carries,
                                     const std::vector<Tensor>& per_layer) {
  const Bound bound = bind(block, place, carries, per_layer);
  std::vector<Tensor> results =
      inline_graph(block.graph, place.scan ? place.scan->body() : to_.graph(), bound.inputs);
  collect_states(block, place, bound, results);
  collect_kv(block, place, results);
  collect_aux(block, place, results);
  add_query_keys(block, place);
  collect_updates(block, place, bound, results);
  if (place.scan) collect_records(block, place, results);
  results.resize(block.num_results);
  return results;
}

BlockRunner::Bound BlockRunner::bind(const BlockGraph& block, const BlockPlacement& place,
                                     const std::vector<Tensor>& carries,
                                     const std::vector<Tensor>& per_layer) {
  Bound bound{carries, {}, {}};
  bound.inputs.insert(bound.inputs.end(), per_layer.begin(), per_layer.end());
  bound.inputs.resize(block.graph.inputs().size());
  auto at = [&](int index) -> Tensor& { return bound.inputs[static_cast<std::size_t>(index)]; };
  auto inside = [&](Tensor outer) { return place.scan ? place.scan->inner_const(outer) : outer; };
  for (const BlockGraph::HostInput& input : block.host_inputs)
    if (auto other = place.instead.find(input.role); other != place.instead.end())
      at(input.input) = other->second;
    else
      at(input.input) = is_per_layer(input.role) ? layer_value(block, place, input)
                                                 : inside(to_.host_input(input.role));
  if (block.taken_kv) {
    const auto& [k, v] = donated_kv_.at(*place.kv_donor);
    at(block.taken_kv->k_at) = inside(k);
    at(block.taken_kv->v_at) = inside(v);
  }
  bind_params(block, place, bound);
  for (const BlockGraph::State& state : block.states) {
    at(state.input) = block_state(place, state);
    bound.states.push_back(to_.last_input());
  }
  return bound;
}

void BlockRunner::bind_params(const BlockGraph& block, const BlockPlacement& place, Bound& bound) {
  if (place.params_of && !block.updates.empty())
    throw PluginError(
        {fmt::format("layer {}", place.layers[0]),
         fmt::format("updates parameter '{}', which layers share", block.updates[0].desc.param),
         {}});
  for (const BlockGraph::Param& param : block.params) {
    Tensor& inner = bound.inputs[static_cast<std::size_t>(param.input)];
    if (place.params_of && !param.desc.unshared) {
      const Tensor outer = shared_param(to_, *place.params_of, param);
      inner = place.scan ? place.scan->inner_const(outer) : outer;
      bound.params.push_back(outside_input(outer));
      continue;
    }
    inner = param_input(place, param);
    bound.params.push_back(place.scan ? to_.last_input() : outside_input(inner));
  }
}

int BlockRunner::outside_input(Tensor input) {
  return static_cast<int>(to_.graph().value(input.id).index);
}

std::vector<Tensor> BlockRunner::run_once(const BlockGraph& block, const std::string& scope,
                                          std::int64_t layer, const std::vector<Tensor>& carries,
                                          const std::map<Input, Tensor>& instead) {
  BlockPlacement place{.layers = {layer}, .scopes = {scope}, .label = scope, .instead = instead};
  return run(block, place, carries);
}

void BlockRunner::collect_states(const BlockGraph& block, const BlockPlacement& place,
                                 const Bound& bound, const std::vector<Tensor>& results) {
  for (std::size_t i = 0; i < block.states.size(); ++i) {
    const BlockGraph::State& state = block.states[i];
    int input = bound.states[i];
    auto use = [this, input, name = state.name](Tensor written) {
      to_.add_output(name, written, {.role = Output::state, .input = input, .stacked = true},
                     input);
    };
    collect(place, state.name, results[static_cast<std::size_t>(state.output)], use,
            bound.inputs[static_cast<std::size_t>(state.input)]);
  }
}

void BlockRunner::collect_kv(const BlockGraph& block, const BlockPlacement& place,
                             const std::vector<Tensor>& results) {
  if (!block.donated_kv) return;
  std::int64_t layer = place.layers[0];
  auto take = [&](const char* name, int output, bool first) {
    // A state is already a result of the scan, so it is the same value and is made once.
    collect(place, name, results[static_cast<std::size_t>(output)], [this, layer, first](Tensor t) {
      Tensor whole = ops::reshape(t, t.shape().without_leading());
      (first ? donated_kv_[layer].k : donated_kv_[layer].v) = whole;
    });
  };
  take("donated k", block.donated_kv->k_at, true);
  take("donated v", block.donated_kv->v_at, false);
}

void BlockRunner::collect_aux(const BlockGraph& block, const BlockPlacement& place,
                              const std::vector<Tensor>& results) {
  for (const BlockGraph::Aux& aux : block.aux) {
    const std::size_t index = aux_.add({aux.desc, place.layers});
    collect(place, aux.desc.name, results[static_cast<std::size_t>(aux.value)],
            [this, index](Tensor t) { aux_[index].value = t; });
    if (aux.other >= 0)
      collect(place, aux.desc.name + " other", results[static_cast<std::size_t>(aux.other)],
              [this, index](Tensor t) { aux_[index].other = t; });
  }
}

void BlockRunner::add_query_keys(const BlockGraph& block, const BlockPlacement& place) {
  if (block.query_key && place.params_of)
    throw UserError(ExitCode::usage, {"optimizer.qk_clip",
                                      fmt::format("layers {} and {} share their matrices",
                                                  *place.params_of, place.layers[0]),
                                      {"remove it"}});
  if (const auto& made = block.query_key)
    for (std::size_t i = 0; i < place.layers.size(); ++i) {
      const auto find = [&](const std::string& name) {
        return to_.parts().parameters.find(place.scopes[i] + name);
      };
      const int query = find(made->query);
      to_.out().query_keys.push_back({place.layers[i], to_.parts().parameters[query].block, query,
                                      find(made->key), made->heads, made->nope, made->query_rows,
                                      made->key_rows});
    }
}

void BlockRunner::collect_updates(const BlockGraph& block, const BlockPlacement& place,
                                  const Bound& bound, const std::vector<Tensor>& results) {
  for (const BlockGraph::Update& update : block.updates) {
    int input = bound.params[static_cast<std::size_t>(update.param)];
    for (int member : to_.out().inputs[static_cast<std::size_t>(input)].members) {
      to_.out().updates.push_back(
          {member, update.desc.rule, to_.parts().config.factor(update.desc.rate_key)});
    }
    bool stacked = to_.out().inputs[static_cast<std::size_t>(input)].stacked;
    // Casts to f32 inside the scan, because only the scan can write the pieces of a stacked output.
    const Tensor value = ops::cast(results[static_cast<std::size_t>(update.output)], DType::f32);
    collect(place, "update of " + update.desc.param, value, [this, input, stacked](Tensor t) {
      if (!stacked) t = ops::reshape(t, t.shape().without_leading());
      to_.add_output("update", t, {.role = Output::update, .input = input, .stacked = stacked});
    });
  }
}

void BlockRunner::collect_records(const BlockGraph& block, const BlockPlacement& place,
                                  const std::vector<Tensor>& results) {
  for (const BlockGraph::Record& record : block.records)
    collect(place, record.tag, results[static_cast<std::size_t>(record.output)],
            [this, tag = record.tag, layers = place.layers](Tensor t) {
              to_.add_output(
                  tag, t, {.role = Output::record, .layers = layers, .stacked = true, .name = tag});
            });
}

}  // namespace lamina::decoder
