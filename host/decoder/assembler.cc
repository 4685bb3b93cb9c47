#include "decoder/assembler.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "graph/rewrite.h"

namespace lamina::decoder {
namespace {

bool is_per_layer(Role role) { return role == Role::layer_index || role == Role::layer_constant; }

std::string layer_scope(std::int64_t layer) { return fmt::format("layers.{}.", layer); }

// concat(sin, cos) of position * 10000^(-i / (D/2 - 1)). Vaswani et al. 2017, section 3.5, with
// the halves apart.
Tensor sinusoids(Tensor x, Tensor positions) {
  std::int64_t half = x.dim(-1) / 2;
  Tensor index = ops::call_in(*x.graph, "iota",
                              {{"shape", std::vector<std::int64_t>{1, 1, half}},
                               {"dtype", std::string("f32")},
                               {"dim", std::int64_t{2}}});
  Tensor frequency = ops::exp(ops::scale(
      index, -std::log(10000.0) / static_cast<double>(std::max<std::int64_t>(half - 1, 1))));
  Tensor position = ops::reshape(ops::cast(positions, DType::f32), {x.dim(0), x.dim(1), 1});
  Tensor angle = position * frequency;
  Tensor both = ops::call("concat", {ops::call("sin", {angle}), ops::call("cos", {angle})},
                          {{"dim", std::int64_t{2}}});
  return ops::cast(both, x.dtype());
}

// Rows `first`, `first` + `step`, ... (`times` of them) of x.
Tensor every(Tensor x, std::int64_t first, std::int64_t step, std::int64_t offset,
             std::int64_t times) {
  Tensor rows = ops::slice(x, 0, first, times * step);
  if (step == 1) return rows;
  Shape element = x.shape().without_leading();
  Tensor rounds = ops::reshape(rows, element.with_leading(step).with_leading(times));
  return ops::reshape(ops::slice(rounds, 1, offset, 1), element.with_leading(times));
}

}  // namespace

Assembler::Assembler(const ModelParts& parts, const TracePhase& phase)
    : parts_(parts), blocks_(parts, phase) {}

Tensor Assembler::host_input(Role role) {
  auto [at, fresh] = host_inputs_.try_emplace(role);
  if (!fresh) return at->second;
  LAMINA_ASSERT(role != Role::embedding);  // it is there as soon as embedding() was called
  const TracePhase& p = phase();
  if (role == Role::positions_3d && !p.positions_3d) {
    Tensor one = ops::reshape(host_input(Role::positions), {1, p.batch, p.tokens});
    return host_inputs_[role] = ops::broadcast(one, {3, p.batch, p.tokens});
  }
  at->second = graph().add_input(std::string(role_name(role)), host_input_type(role, p));
  out_.inputs.push_back({role, {}, false, {}});
  if (role == Role::compressed_tokens)
    out_.inputs.back().values.assign(parts_.engram->ids.begin(), parts_.engram->ids.end());
  return at->second;
}

Tensor Assembler::parameter(int index) {
  auto [at, fresh] = outside_.try_emplace(index);
  if (fresh) {
    const Parameter& p = parts_.parameters[index];
    at->second = graph().add_input(p.name, param_type(p.desc, p));
    out_.inputs.push_back({Role::parameter, {index}, false, {}});
  }
  return at->second;
}

// A state outside of scans is stacked, too, over one layer.
Tensor Assembler::state_input(const std::string& name, std::int64_t layer, registry::StateKind kind,
                              const Type& type, bool ring) {
  int index = static_cast<int>(out_.states.size());
  out_.states.push_back({name, layer, type, ring, kind});
  Tensor outer = graph().add_input(name, type.with(type.shape.with_leading(1)));
  out_.inputs.push_back({Role::state, {index}, true, {}});
  return ops::reshape(outer, type.shape);
}

void Assembler::state_output(Tensor state, Tensor written) {
  const Node& view = graph().node(graph().value(state.id).node);
  int input = static_cast<int>(graph().value(view.inputs[0]).index);
  std::string name = graph().inputs()[static_cast<std::size_t>(input)].name;
  add_output(std::move(name), ops::reshape(written, state.shape().with_leading(1)),
             {.role = Role::state, .input = input, .stacked = true}, input);
}

void Assembler::add_output(std::string name, Tensor value, OutputRole role, int alias) {
  graph().add_output(std::move(name), value, alias);
  out_.outputs.push_back(std::move(role));
}

void Assembler::add_hidden(std::string name, Tensor x, std::vector<std::int64_t> layers,
                           bool stacked) {
  add_output(std::move(name), x,
             {.role = Role::hidden, .layers = std::move(layers), .stacked = stacked});
}

Type Assembler::param_type(const registry::ParamDesc& desc, const Parameter& p) const {
  Type type{p.used_dtype(phase().dtype), desc.shape, {}};
  std::copy_n(desc.axes.begin(), std::min<std::size_t>(desc.axes.size(), kMaxDims),
              type.axes.begin());
  return type;
}

// ---- Around the layers --------------------------------------------------------------------------

Tensor Assembler::embed(Tensor tokens, Tensor positions, std::int64_t stream) {
  const registry::EmbedSpec& spec = parts_.options.embed;
  Tensor x = ops::call("embedding", {parameter(parts_.embed), tokens});
  x = ops::scale(x, spec.scale);
  if (parts_.positions >= 0)
    x = x + ops::call("embedding", {parameter(parts_.positions), positions});
  if (spec.positions == registry::Positions::sinusoidal) x = x + sinusoids(x, positions);
  if (phase().training && spec.dropout > 0)
    x = ops::call("dropout", {x, host_input(Role::seed)},
                  {{"rate", spec.dropout}, {"stream", stream}});
  return x;
}

Tensor Assembler::embedding() {
  bool positions =
      parts_.positions >= 0 || parts_.options.embed.positions != registry::Positions::none;
  Tensor x = embed(host_input(Role::tokens), positions ? host_input(Role::positions) : Tensor{});
  x = with_given_rows(x);
  host_inputs_[Role::embedding] = x;
  return x;
}

Tensor Assembler::stack(Tensor embedding, bool hidden) {
  const registry::EmbedSpec& embed = parts_.options.embed;
  std::vector<Tensor> carries{embedding}, per_layer;
  if (embed.entry) {
    carries = run_once(blocks_.entry(), "entry.", -1, carries);
    per_layer.assign(carries.begin() + static_cast<std::ptrdiff_t>(embed.num_carries),
                     carries.end());
    carries.resize(embed.num_carries);
  }
  if (hidden) add_hidden("hidden.embed", carries[0], {-1}, false);
  carries = layers(std::move(carries), per_layer, hidden);
  if (parts_.options.head.exit) carries = run_once(blocks_.exit(), "exit.", -1, carries);
  if (carries[0].type() != phase().activations())
    throw PluginError({"head",
                       fmt::format("carry 0 leaves the layers as {}; without an exit block it "
                                   "must be {}",
                                   to_string(carries[0].type()), to_string(phase().activations())),
                       {}});
  return carries[0];
}

Tensor Assembler::final_norm(Tensor x) {
  const registry::NormSpec& spec = parts_.options.head.norm;
  if (!spec.op) return x;
  std::vector<Tensor> inputs{x, parts_.norm >= 0 ? parameter(parts_.norm) : Tensor{}};
  if (parts_.norm_bias >= 0) inputs.push_back(parameter(parts_.norm_bias));
  std::vector<std::pair<std::string_view, AttrValue>> attrs(spec.attrs.begin(), spec.attrs.end());
  return graph().add_node(*spec.op, inputs, attrs).front();
}

Tensor Assembler::logits(Tensor x) {
  const registry::HeadSpec& head = parts_.options.head;
  DType wide = sum_dtype(x.dtype());
  Tensor logits = ops::matmul(ops::as_rows(x), parameter(parts_.head_weight()), false, true, wide);
  logits = ops::scale(logits, head.logit_scale);
  if (head.soft_cap != 0) logits = ops::call("soft_cap", {logits}, {{"cap", head.soft_cap}});
  return logits;
}

// ---- Running blocks -----------------------------------------------------------------------------

Tensor Assembler::value_input(const Place& place, const std::string& name, const Type& inner,
                              InputRole role) {
  role.stacked = place.scan != nullptr;
  out_.inputs.push_back(std::move(role));
  std::string outer_name = fmt::format("{}{}", place.label, name);
  if (!place.scan) return graph().add_input(std::move(outer_name), inner);
  std::int64_t times = static_cast<std::int64_t>(place.layers.size());
  Tensor outer =
      graph().add_input(std::move(outer_name), inner.with(inner.shape.with_leading(times)));
  return place.scan->add_x(name, outer);
}

Tensor Assembler::param_input(const Place& place, const BlockGraph::Param& param) {
  InputRole role{Role::parameter, {}, true, {}};
  for (const std::string& scope : place.scopes)
    role.members.push_back(parts_.parameters.find(scope + param.desc.name));
  if (!place.scan) return parameter(role.members.front());
  const Parameter& first = parts_.parameters[role.members.front()];
  return value_input(place, param.desc.name, param_type(param.desc, first), std::move(role));
}

Tensor Assembler::block_state(const Place& place, const BlockGraph::State& state) {
  if (!place.scan)
    return state_input(place.scopes[0] + state.name, place.layers[0], state.kind, state.type,
                       state.ring);
  InputRole role{Role::state, {}, true, {}};
  for (std::size_t i = 0; i < place.layers.size(); ++i) {
    role.members.push_back(static_cast<int>(out_.states.size()));
    out_.states.push_back(
        {place.scopes[i] + state.name, place.layers[i], state.type, state.ring, state.kind});
  }
  return value_input(place, state.name, state.type, std::move(role));
}

// The layer's index, or a constant of its own.
Tensor Assembler::layer_value(const BlockGraph& block, const Place& place,
                              const BlockGraph::HostInput& input) {
  const GraphInput& declared = block.graph.inputs()[static_cast<std::size_t>(input.input)];
  InputRole role{input.role, {}, true, {}};
  // Blocks of multi-token prediction come after the last layer and share its constants.
  std::int64_t last = phase().num_layers - 1;
  for (std::int64_t layer : place.layers)
    role.values.push_back(input.role == Role::layer_index
                              ? static_cast<double>(layer)
                              : input.values[static_cast<std::size_t>(std::min(layer, last))]);
  return value_input(place, declared.name, block.graph.type(declared.value), std::move(role));
}

std::vector<Tensor> Assembler::run(const BlockGraph& block, const Place& place,
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
                                                 : inside(host_input(input.role));
  if (block.taken_kv) {
    const auto& [k, v] = given_kv_.at(*place.kv_donor);
    at(block.taken_kv->k_at) = inside(k);
    at(block.taken_kv->v_at) = inside(v);
  }
  for (const BlockGraph::Param& param : block.params) {
    at(param.input) = param_input(place, param);
    bound.params.push_back(place.scan ? last_input() : outside_input(at(param.input)));
  }
  for (const BlockGraph::State& state : block.states) {
    at(state.input) = block_state(place, state);
    bound.states.push_back(last_input());
  }
  std::vector<Tensor> results =
      inline_graph(block.graph, place.scan ? place.scan->body() : graph(), bound.inputs);
  collect_states(block, place, bound, results);
  collect_kv(block, place, results);
  collect_sown(block, place, bound, results);
  if (place.scan) collect_records(block, place, results);
  results.resize(block.num_results);
  return results;
}

int Assembler::outside_input(Tensor input) {
  return static_cast<int>(graph().value(input.id).index);
}

std::vector<Tensor> Assembler::run_once(const BlockGraph& block, const std::string& scope,
                                        std::int64_t layer, const std::vector<Tensor>& carries,
                                        const std::vector<Tensor>& per_layer,
                                        const std::map<Role, Tensor>& instead) {
  Place place{.layers = {layer}, .scopes = {scope}, .label = scope, .instead = instead};
  return run(block, place, carries, per_layer);
}

void Assembler::collect(const Place& place, const std::string& name, Tensor value,
                        std::function<void(Tensor)> use, Tensor over) {
  if (place.scan)
    place.scan->add_y(name, value, std::move(use), over);
  else
    use(ops::reshape(value, value.shape().with_leading(1)));
}

void Assembler::collect_states(const BlockGraph& block, const Place& place, const Bound& bound,
                               const std::vector<Tensor>& results) {
  for (std::size_t i = 0; i < block.states.size(); ++i) {
    const BlockGraph::State& state = block.states[i];
    int input = bound.states[i];
    auto use = [this, input, name = state.name](Tensor written) {
      add_output(name, written, {.role = Role::state, .input = input, .stacked = true}, input);
    };
    collect(place, state.name, results[static_cast<std::size_t>(state.output)], use,
            bound.inputs[static_cast<std::size_t>(state.input)]);
  }
}

void Assembler::collect_kv(const BlockGraph& block, const Place& place,
                           const std::vector<Tensor>& results) {
  if (!block.given_kv) return;
  std::int64_t layer = place.layers[0];
  auto take = [&](const char* name, int output, bool first) {
    // A state is a result of the scan already: the same value twice, made once.
    collect(place, name, results[static_cast<std::size_t>(output)], [this, layer, first](Tensor t) {
      Tensor whole = ops::reshape(t, t.shape().without_leading());
      (first ? given_kv_[layer].first : given_kv_[layer].second) = whole;
    });
  };
  take("given k", block.given_kv->k_at, true);
  take("given v", block.given_kv->v_at, false);
}

void Assembler::collect_sown(const BlockGraph& block, const Place& place, const Bound& bound,
                             const std::vector<Tensor>& results) {
  for (const BlockGraph::Sown& sown : block.sown) {
    std::size_t index = sown_.size();
    sown_.push_back({sown.desc, place.layers, {}, {}});
    collect(place, sown.desc.name, results[static_cast<std::size_t>(sown.value)],
            [this, index](Tensor t) { sown_[index].value = t; });
    if (sown.other >= 0)
      collect(place, sown.desc.name + " other", results[static_cast<std::size_t>(sown.other)],
              [this, index](Tensor t) { sown_[index].other = t; });
  }
  for (const BlockGraph::Update& update : block.updates) {
    int input = bound.params[static_cast<std::size_t>(update.param)];
    for (int member : out_.inputs[static_cast<std::size_t>(input)].members) {
      double rate =
          update.desc.rate_key.empty() ? 1.0 : parts_.config.values().number(update.desc.rate_key);
      out_.updates.push_back({member, update.desc.rule, rate});
    }
    bool stacked = out_.inputs[static_cast<std::size_t>(input)].stacked;
    collect(place, "update of " + update.desc.param,
            results[static_cast<std::size_t>(update.output)], [this, input, stacked](Tensor t) {
              if (!stacked) t = ops::reshape(t, t.shape().without_leading());
              add_output("update", ops::cast(t, DType::f32),
                         {.role = Role::update, .input = input, .stacked = stacked});
            });
  }
}

void Assembler::collect_records(const BlockGraph& block, const Place& place,
                                const std::vector<Tensor>& results) {
  for (const BlockGraph::Record& record : block.records)
    collect(place, record.tag, results[static_cast<std::size_t>(record.output)],
            [this, tag = record.tag, layers = place.layers](Tensor t) {
              add_output(tag, t,
                         {.role = Role::record, .layers = layers, .stacked = true, .name = tag});
            });
}

// ---- Layers -------------------------------------------------------------------------------------

std::vector<Tensor> Assembler::layers(std::vector<Tensor> carries,
                                      const std::vector<Tensor>& per_layer, bool hidden) {
  for (const StackSegment& segment : parts_.stack.segments) {
    carries = injected(std::move(carries), per_layer, segment, true);
    carries = engram(std::move(carries), segment);
    carries = this->segment(std::move(carries), per_layer, segment, hidden);
    carries = injected(std::move(carries), per_layer, segment, false);
  }
  return carries;
}

// Blocks before or after a layer stand around a segment of that layer alone.
std::vector<Tensor> Assembler::injected(std::vector<Tensor> carries,
                                        const std::vector<Tensor>& per_layer,
                                        const StackSegment& segment, bool before) {
  const registry::PositionSpec& position = segment.unit[0];
  if (!(before ? position.inject_before : position.inject_after)) return carries;
  std::vector<Tensor> elements;
  for (Tensor all : per_layer)
    elements.push_back(
        ops::reshape(every(all, segment.first_layer, 1, 0, 1), all.shape().without_leading()));
  const BlockGraph& block = before ? blocks_.before(position) : blocks_.after(position);
  return run_once(block, layer_scope(segment.first_layer) + (before ? "before." : "after."),
                  segment.first_layer, carries, elements);
}

// A scan of its own, so that values in it are rematerialised as those of layers are, and the body
// of the layer behind it stays that of other layers.
std::vector<Tensor> Assembler::engram(std::vector<Tensor> carries, const StackSegment& segment) {
  const std::int64_t layer = segment.first_layer;
  if (!parts_.engram || !parts_.engram->find(layer)) return carries;
  const BlockGraph& block = blocks_.engram(layer);
  std::vector<std::pair<std::string, Tensor>> consts;
  for (const BlockGraph::HostInput& input : block.host_inputs)
    consts.emplace_back(std::string(role_name(input.role)), host_input(input.role));
  ScanBuilder scan(graph(), 1, consts, carries);
  const std::string scope = layer_scope(layer);
  scan.carries() = run(block, {.layers = {layer}, .scopes = {scope}, .label = scope, .scan = &scan},
                       scan.carries(), {});
  return scan.finish([this](auto body) { return shared_body(std::move(body)); });
}

// What a segment's body reads of the graph around it, the same for all its layers.
std::vector<std::pair<std::string, Tensor>> Assembler::consts_of(const StackSegment& segment) {
  std::vector<std::pair<std::string, Tensor>> out;
  auto add = [&](std::string name, Tensor tensor) {
    for (const auto& known : out)
      if (known.second.id == tensor.id) return;
    out.emplace_back(std::move(name), tensor);
  };
  if (has_features(segment.first_layer)) {
    add("given_features", host_input(Role::given_features));
    add("given_places", given_places());
  }
  for (std::size_t p = 0; p < segment.unit.size(); ++p) {
    for (const BlockGraph::HostInput& input : blocks_.layer(segment, p).host_inputs)
      if (!is_per_layer(input.role))
        add(std::string(role_name(input.role)), host_input(input.role));
    if (auto donor = segment.unit[p].kv_donor) {
      add("donor k", given_kv_.at(*donor).first);
      add("donor v", given_kv_.at(*donor).second);
    }
  }
  return out;
}

// A segment becomes a scan: parameters, decode state and constants of its layers are xs.
std::vector<Tensor> Assembler::segment(std::vector<Tensor> carries,
                                       const std::vector<Tensor>& per_layer,
                                       const StackSegment& segment, bool hidden) {
  std::int64_t size = static_cast<std::int64_t>(segment.unit.size());
  ScanBuilder scan(graph(), segment.times, consts_of(segment), carries);
  for (std::size_t p = 0; p < segment.unit.size(); ++p) {
    Place place{.layers = segment.layers_at(p), .scan = &scan};
    for (std::int64_t layer : place.layers) place.scopes.push_back(layer_scope(layer));
    place.label = place.scopes[0];
    place.kv_donor = segment.unit[p].kv_donor;
    std::vector<Tensor> elements;
    for (Tensor all : per_layer)
      elements.push_back(scan.add_x(
          "per_layer",
          every(all, segment.first_layer, size, static_cast<std::int64_t>(p), segment.times)));
    scan.carries() = run(blocks_.layer(segment, p), place, scan.carries(), elements);
    if (phase().layer_metrics) sow_statistics(place, scan.carries()[0]);
    if (hidden)
      collect(place, "hidden", scan.carries()[0], [this, layers = place.layers](Tensor t) {
        add_hidden(fmt::format("hidden from layer {}", layers[0]), t, layers, true);
      });
    if (has_features(place.layers[0])) add_features(place);
  }
  return scan.finish([this](auto body) { return shared_body(std::move(body)); });
}

// Layers that are unrolled from one segment have equal bodies: one object, compiled once.
std::shared_ptr<const Graph> Assembler::shared_body(std::shared_ptr<const Graph> body) {
  for (const std::shared_ptr<const Graph>& known : bodies_)
    if (same_graph(*known, *body)) return known;
  bodies_.push_back(body);
  return body;
}

}  // namespace lamina::decoder
