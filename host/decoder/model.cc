#include "decoder/model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "decoder/block_graph.h"
#include "graph/rewrite.h"
#include "lamina/names.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

registry::ParamDesc host_param(std::string name, Shape shape,
                               std::initializer_list<std::string_view> axes, registry::Role role,
                               registry::InitSpec init) {
  registry::ParamDesc desc;
  desc.name = std::move(name);
  desc.shape = shape;
  for (std::string_view axis : axes) desc.axes.push_back(intern_axis(axis));
  desc.role = role;
  desc.init = init;
  return desc;
}

bool per_layer(Role role) { return role == Role::layer_index || role == Role::layer_constant; }

std::string_view role_name(Role role) {
  switch (role) {
    case Role::tokens:
      return "tokens";
    case Role::positions:
      return "positions";
    case Role::segments:
      return "segments";
    case Role::labels:
      return "labels";
    case Role::loss_scale:
      return "loss_scale";
    case Role::z_loss_scale:
      return "z_loss_scale";
    case Role::seed:
      return "seed";
    case Role::start:
      return "start";
    case Role::rows:
      return "rows";
    case Role::layer_index:
      return "layer_index";
    case Role::layer_constant:
      return "layer_constant";
    default:
      return "value";
  }
}

}  // namespace

struct Model::Impl {
  std::shared_ptr<const registry::Family> family;
  registry::ModelConfig config;
  registry::OptionsSpec options;
  StackPlan stack;
  ParameterTable parameters;
  std::optional<std::int64_t> length_dependent_from;
  int embed = -1, positions = -1, norm = -1, norm_bias = -1, head = -1;

  void declare_parameters();
};

namespace {

// Distinct blocks by id and overrides, each traced once in the life of a builder.
class BlockCache {
 public:
  BlockCache(const registry::Family& family, const registry::ModelConfig& config, TracePhase phase)
      : family_(family), config_(config), phase_(phase) {}

  const BlockGraph& get(const registry::PositionSpec& position) {
    for (const auto& [known, graph] : traced_)
      if (known.block == position.block && known.overrides == position.overrides) return *graph;
    auto graph = std::make_unique<BlockGraph>(trace_block(family_, config_, position, phase_));
    traced_.emplace_back(position, std::move(graph));
    return *traced_.back().second;
  }

 private:
  const registry::Family& family_;
  const registry::ModelConfig& config_;
  TracePhase phase_;
  std::vector<std::pair<registry::PositionSpec, std::unique_ptr<BlockGraph>>> traced_;
};

}  // namespace

// Embedding, positions, norm and head are the host's parameters; the rest comes from the traces.
void Model::Impl::declare_parameters() {
  using Init = registry::InitSpec::Kind;
  std::int64_t vocab = config.vocab_size(), hidden = config.hidden_size();
  auto add = [&](registry::ParamDesc desc) {
    std::string name = desc.name;
    return parameters.add({std::move(name), -1, 0, std::move(desc)});
  };
  embed = add(host_param(LAMINA_NAME_EMBED, {vocab, hidden}, {LAMINA_AXIS_VOCAB, LAMINA_AXIS_EMBED},
                         registry::Role::embedding, {Init::normal, options.embed.init_std, 0}));
  if (options.embed.positions == registry::Positions::learned)
    positions =
        add(host_param(LAMINA_NAME_POSITIONS, {options.embed.max_positions, hidden},
                       {LAMINA_AXIS_POSITIONS, LAMINA_AXIS_EMBED}, registry::Role::embedding,
                       {Init::normal, options.embed.positions_init_std, 0}));

  TracePhase phase;
  phase.num_layers = config.num_layers();
  BlockCache blocks(*family, config, phase);
  for (const StackSegment& segment : stack.segments)
    for (std::int64_t time = 0; time < segment.times; ++time)
      for (std::size_t p = 0; p < segment.unit.size(); ++p) {
        const BlockGraph& block = blocks.get(segment.unit[p]);
        std::int64_t layer = segment.layer(time, p);
        for (const BlockGraph::Param& param : block.params)
          parameters.add({fmt::format("layers.{}.{}", layer, param.desc.name), layer,
                          segment.unit[p].block, param.desc});
        if (block.length_dependent_from > 0)
          length_dependent_from =
              std::min(length_dependent_from.value_or(block.length_dependent_from),
                       block.length_dependent_from);
      }

  const registry::NormSpec& spec = options.head.norm;
  if (spec.op && spec.weight)
    norm = add(host_param(LAMINA_NAME_NORM, {hidden}, {LAMINA_AXIS_NORM}, registry::Role::norm,
                          {Init::constant, spec.initial_weight(), 0}));
  if (spec.op && spec.bias)
    norm_bias = add(host_param(LAMINA_NAME_NORM_BIAS, {hidden}, {LAMINA_AXIS_NORM},
                               registry::Role::bias, {Init::zeros, 0, 0}));
  if (!options.head.tied)
    head = add(host_param(LAMINA_NAME_HEAD, {vocab, hidden}, {LAMINA_AXIS_VOCAB, LAMINA_AXIS_EMBED},
                          registry::Role::head, {Init::normal, options.head.init_std, 0}));
}

namespace {

// Builds one graph: embedding, the segments as scans, the final norm.
class Assembler {
 public:
  Assembler(const registry::Family& family, const registry::ModelConfig& config,
            const registry::OptionsSpec& options, const StackPlan& stack,
            const ParameterTable& parameters, TracePhase phase)
      : options_(options),
        stack_(stack),
        parameters_(parameters),
        phase_(phase),
        blocks_(family, config, phase) {}

  ModelGraph& out() { return out_; }
  Graph& graph() { return out_.graph; }

  Tensor host_input(Role role, Type type) {
    auto [at, fresh] = host_inputs_.try_emplace(role);
    if (fresh) {
      at->second = graph().add_input(std::string(role_name(role)), type);
      out_.inputs.push_back({role, {}, false, {}});
    }
    return at->second;
  }
  Tensor host_input(Role role) {
    Shape rows{phase_.batch, phase_.tokens};
    switch (role) {
      case Role::seed:
        return host_input(role, {DType::i64, {2}, {}});
      case Role::start:
        return host_input(role, {DType::i32, {phase_.batch}, {}});
      default:
        return host_input(role, {DType::i32, rows, {}});
    }
  }

  // A parameter outside the layers.
  Tensor parameter(int index) {
    auto [at, fresh] = outside_.try_emplace(index);
    if (fresh) {
      const Parameter& p = parameters_[index];
      at->second = graph().add_input(p.name, param_type(p.desc, p));
      out_.inputs.push_back({Role::parameter, {index}, false, {}});
    }
    return at->second;
  }

  Tensor embedding(int table, int positions_table) {
    Tensor x = ops::call("embedding", {parameter(table), host_input(Role::tokens)});
    x = ops::scale(x, options_.embed.scale);
    if (positions_table >= 0)
      x = x + ops::call("embedding", {parameter(positions_table), host_input(Role::positions)});
    if (options_.embed.positions == registry::Positions::sinusoidal) x = x + sinusoids(x);
    if (phase_.training && options_.embed.dropout > 0)
      x = ops::call("dropout", {x, host_input(Role::seed)}, {{"rate", options_.embed.dropout}});
    return x;
  }

  // concat(sin, cos) of position * 10000^(-i / (D/2 - 1)). Vaswani et al. 2017, section 3.5, with
  // the halves apart.
  Tensor sinusoids(Tensor x) {
    std::int64_t half = x.dim(-1) / 2;
    Tensor index = ops::call_in(graph(), "iota",
                                {{"shape", std::vector<std::int64_t>{1, 1, half}},
                                 {"dtype", std::string("f32")},
                                 {"dim", std::int64_t{2}}});
    Tensor frequency = ops::exp(ops::scale(
        index, -std::log(10000.0) / static_cast<double>(std::max<std::int64_t>(half - 1, 1))));
    Tensor position = ops::reshape(ops::cast(host_input(Role::positions), DType::f32),
                                   {phase_.batch, phase_.tokens, 1});
    Tensor angle = position * frequency;
    Tensor both = ops::call("concat", {ops::call("sin", {angle}), ops::call("cos", {angle})},
                            {{"dim", std::int64_t{2}}});
    return ops::cast(both, x.dtype());
  }

  // Runs the whole stack. With `hidden`, what enters and leaves each layer becomes an output.
  Tensor layers(Tensor x, bool hidden) {
    if (hidden) add_hidden("hidden.embed", x, {-1}, false);
    for (std::size_t s = 0; s < stack_.segments.size(); ++s) x = segment(x, s, hidden);
    return x;
  }

  Tensor final_norm(Tensor x, int weight, int bias) {
    const registry::NormSpec& spec = options_.head.norm;
    if (!spec.op) return x;
    std::vector<Tensor> inputs{x, weight >= 0 ? parameter(weight) : Tensor{}};
    if (bias >= 0) inputs.push_back(parameter(bias));
    std::vector<std::pair<std::string_view, AttrValue>> attrs(spec.attrs.begin(), spec.attrs.end());
    return graph().add_node(*spec.op, inputs, attrs).front();
  }

  void add_output(std::string name, Tensor value, OutputRole role, int alias = -1) {
    graph().add_output(std::move(name), value, alias);
    out_.outputs.push_back(std::move(role));
  }

 private:
  Type param_type(const registry::ParamDesc& desc, const Parameter& p) const {
    Type type{p.used_dtype(phase_.dtype), desc.shape, {}};
    std::copy_n(desc.axes.begin(), std::min<std::size_t>(desc.axes.size(), kMaxDims),
                type.axes.begin());
    return type;
  }

  void add_hidden(std::string name, Tensor x, std::vector<std::int64_t> layers, bool stacked) {
    OutputRole role{Role::hidden, -1, std::move(layers), stacked};
    add_output(std::move(name), x, std::move(role));
  }

  Tensor segment(Tensor x, std::size_t index, bool hidden);

  const registry::OptionsSpec& options_;
  const StackPlan& stack_;
  const ParameterTable& parameters_;
  TracePhase phase_;
  BlockCache blocks_;
  ModelGraph out_;
  std::map<Role, Tensor> host_inputs_;
  std::map<int, Tensor> outside_;
  std::map<std::string, std::shared_ptr<const Graph>> bodies_;  // shared by equal segments
  int next_state_ = 0;
};

// A segment becomes a scan: consts are the host's inputs, the carry is the activations, xs are
// parameters, decode state and per-layer constants of every position of the unit.
Tensor Assembler::segment(Tensor x, std::size_t index, bool hidden) {
  const StackSegment& segment = stack_.segments[index];
  std::vector<const BlockGraph*> unit;
  for (const registry::PositionSpec& position : segment.unit)
    unit.push_back(&blocks_.get(position));

  auto body = std::make_shared<Graph>();
  std::map<Role, Tensor> inner_consts;
  std::vector<Tensor> consts, xs;  // operands outside
  for (const BlockGraph* block : unit)
    for (const BlockGraph::HostInput& input : block->host_inputs)
      if (!per_layer(input.role) && !inner_consts.contains(input.role)) {
        Tensor outer = host_input(input.role);
        inner_consts[input.role] =
            body->add_input(std::string(role_name(input.role)), outer.type());
        consts.push_back(outer);
      }
  Tensor inner_x = body->add_input("x", x.type());

  auto add_x = [&](std::string name, Type inner, InputRole role) {
    Type outer = inner.with(inner.shape.with_leading(segment.times));
    role.stacked = true;
    out_.inputs.push_back(std::move(role));
    xs.push_back(graph().add_input(fmt::format("segment {}: {}", index, name), outer));
    return body->add_input(std::move(name), inner);
  };

  struct Written {
    int outer_input;  // of the model graph
    int inner_input;
    Tensor value;
    std::string name;
  };
  std::vector<Written> written;
  std::vector<std::pair<Tensor, std::vector<std::int64_t>>> hidden_of;
  for (std::size_t p = 0; p < unit.size(); ++p) {
    const BlockGraph& block = *unit[p];
    std::vector<Tensor> inputs(block.graph.inputs().size());
    inputs[0] = inner_x;
    std::string prefix = unit.size() > 1 ? fmt::format("{}.", p) : "";
    std::vector<std::int64_t> layers = segment.layers_at(p);
    for (const BlockGraph::HostInput& input : block.host_inputs) {
      if (!per_layer(input.role)) {
        inputs[static_cast<std::size_t>(input.input)] = inner_consts.at(input.role);
        continue;
      }
      const GraphInput& declared = block.graph.inputs()[static_cast<std::size_t>(input.input)];
      InputRole role{input.role, {}, true, {}};
      for (std::int64_t layer : layers)
        role.values.push_back(input.role == Role::layer_index
                                  ? static_cast<double>(layer)
                                  : input.values[static_cast<std::size_t>(layer)]);
      inputs[static_cast<std::size_t>(input.input)] =
          add_x(prefix + declared.name, block.graph.type(declared.value), std::move(role));
    }
    for (const BlockGraph::Param& param : block.params) {
      InputRole role{Role::parameter, {}, true, {}};
      for (std::int64_t layer : layers)
        role.members.push_back(
            parameters_.find(fmt::format("layers.{}.{}", layer, param.desc.name)));
      const Parameter& first = parameters_[role.members.front()];
      inputs[static_cast<std::size_t>(param.input)] =
          add_x(prefix + param.desc.name, param_type(param.desc, first), std::move(role));
    }
    std::vector<int> state_inputs;
    for (const BlockGraph::State& state : block.states) {
      InputRole role{Role::state, {}, true, {}};
      for (std::size_t i = 0; i < layers.size(); ++i) role.members.push_back(next_state_++);
      state_inputs.push_back(static_cast<int>(out_.inputs.size()));
      inputs[static_cast<std::size_t>(state.input)] =
          add_x(prefix + state.name, state.type, std::move(role));
    }
    std::vector<Tensor> results = inline_graph(block.graph, *body, inputs);
    inner_x = results[0];
    for (std::size_t i = 0; i < block.states.size(); ++i) {
      const BlockGraph::State& state = block.states[i];
      Tensor inner = inputs[static_cast<std::size_t>(state.input)];
      written.push_back({state_inputs[i], static_cast<int>(body->value(inner.id).index),
                         results[static_cast<std::size_t>(state.output)], prefix + state.name});
    }
    if (hidden) hidden_of.emplace_back(inner_x, layers);
  }

  body->add_output("x", inner_x);
  for (const Written& w : written) body->add_output(w.name, w.value, w.inner_input);
  for (const auto& [value, layers] : hidden_of) body->add_output("hidden", value);

  // Layers that are unrolled from one segment have equal bodies: one object, compiled once.
  std::shared_ptr<const Graph> shared = body;
  for (const auto& [text, known] : bodies_)
    if (same_graph(*known, *body)) shared = known;
  if (shared == body) bodies_.emplace(fmt::format("{}", index), shared);

  std::vector<Tensor> operands = consts;
  operands.push_back(x);
  operands.insert(operands.end(), xs.begin(), xs.end());
  std::vector<Tensor> results =
      ops::call_all("scan", operands,
                    std::vector<std::pair<std::string_view, AttrValue>>{
                        {"body", shared},
                        {"times", segment.times},
                        {"num_consts", static_cast<std::int64_t>(consts.size())},
                        {"num_carries", std::int64_t{1}}});
  for (std::size_t i = 0; i < written.size(); ++i) {
    OutputRole role{Role::state, written[i].outer_input, {}, true};
    add_output(written[i].name, results[1 + i], std::move(role), written[i].outer_input);
  }
  for (std::size_t i = 0; i < hidden_of.size(); ++i)
    add_hidden(fmt::format("hidden of segment {}, position {}", index, i),
               results[1 + written.size() + i], hidden_of[i].second, true);
  return results[0];
}

Tensor head_logits(const registry::HeadSpec& head, Tensor x, Tensor weight) {
  DType wide = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  Tensor logits = ops::matmul(ops::as_rows(x), weight, false, true, wide);
  logits = ops::scale(logits, head.logit_scale);
  if (head.soft_cap != 0) logits = ops::call("soft_cap", {logits}, {{"cap", head.soft_cap}});
  return logits;
}

}  // namespace

Model::Model(std::shared_ptr<const registry::Family> family, registry::ModelConfig config,
             const ModelOptions& options)
    : impl_(new Impl{family, config, family->options(config), {}, {}, {}}) {
  impl_->stack = resolve_stack(family->plan(config), {.scan_layers = options.scan_layers});
  impl_->declare_parameters();
}

Model::~Model() = default;
Model::Model(Model&&) noexcept = default;

const registry::Family& Model::family() const { return *impl_->family; }
const registry::ModelConfig& Model::config() const { return impl_->config; }
const registry::OptionsSpec& Model::options() const { return impl_->options; }
const StackPlan& Model::stack() const { return impl_->stack; }
const ParameterTable& Model::parameters() const { return impl_->parameters; }
std::int64_t Model::vocab_size() const { return impl_->config.vocab_size(); }
std::int64_t Model::hidden_size() const { return impl_->config.hidden_size(); }
std::optional<std::int64_t> Model::length_dependent_from() const {
  return impl_->length_dependent_from;
}

ModelGraph Model::loss_graph(const LossGraphOptions& options) const {
  const Impl& m = *impl_;
  TracePhase phase{.training = options.training,
                   .segments = options.segments,
                   .batch = options.batch,
                   .tokens = options.tokens,
                   .dtype = options.dtype,
                   .num_layers = m.config.num_layers()};
  Assembler a(*m.family, m.config, m.options, m.stack, m.parameters, phase);
  Tensor x = a.final_norm(a.layers(a.embedding(m.embed, m.positions), false), m.norm, m.norm_bias);
  Tensor weight = a.parameter(m.options.head.tied ? m.embed : m.head);
  Tensor labels = a.host_input(Role::labels, {DType::i32, {options.batch * options.tokens}, {}});
  std::vector<Tensor> loss = ops::call_all(
      "cross_entropy", {ops::as_rows(x), weight, labels},
      {{"soft_cap", m.options.head.soft_cap}, {"logit_scale", m.options.head.logit_scale}});
  a.add_output("loss", loss[0], {Role::loss, -1, {}, false});
  a.add_output("z_loss", loss[1], {Role::z_loss, -1, {}, false});
  return std::move(a.out());
}

ModelGraph Model::forward_graph(const ForwardGraphOptions& options) const {
  const Impl& m = *impl_;
  TracePhase phase{.segments = options.segments,
                   .batch = options.batch,
                   .tokens = options.tokens,
                   .dtype = options.dtype,
                   .num_layers = m.config.num_layers()};
  Assembler a(*m.family, m.config, m.options, m.stack, m.parameters, phase);
  Tensor x = a.layers(a.embedding(m.embed, m.positions), options.hidden);
  x = a.final_norm(x, m.norm, m.norm_bias);
  Tensor logits =
      head_logits(m.options.head, x, a.parameter(m.options.head.tied ? m.embed : m.head));
  a.add_output("logits",
               ops::reshape(logits, {options.batch, options.tokens, m.config.vocab_size()}),
               {Role::logits, -1, {}, false});
  return std::move(a.out());
}

ModelGraph Model::decode_graph(const DecodeGraphOptions& options) const {
  const Impl& m = *impl_;
  TracePhase phase{.stateful = true,
                   .batch = options.batch,
                   .tokens = options.tokens,
                   .capacity = options.capacity,
                   .max_call_tokens = options.max_call_tokens,
                   .dtype = options.dtype,
                   .num_layers = m.config.num_layers()};
  Assembler a(*m.family, m.config, m.options, m.stack, m.parameters, phase);
  Tensor x = a.layers(a.embedding(m.embed, m.positions), false);
  // Only the wanted rows go through the norm and the head.
  Tensor rows = a.host_input(Role::rows, {DType::i32, {options.batch}, {}});
  x = a.final_norm(ops::call("select_rows", {x, rows}), m.norm, m.norm_bias);
  a.add_output("logits",
               head_logits(m.options.head, x, a.parameter(m.options.head.tied ? m.embed : m.head)),
               {Role::logits, -1, {}, false});
  return std::move(a.out());
}

std::vector<StateTensor> Model::states(const DecodeGraphOptions& options) const {
  const Impl& m = *impl_;
  TracePhase phase{.stateful = true,
                   .batch = options.batch,
                   .tokens = options.tokens,
                   .capacity = options.capacity,
                   .max_call_tokens = options.max_call_tokens,
                   .dtype = options.dtype,
                   .num_layers = m.config.num_layers()};
  BlockCache blocks(*m.family, m.config, phase);
  std::vector<StateTensor> out;  // in the order in which Assembler::segment numbers them
  for (const StackSegment& segment : m.stack.segments)
    for (std::size_t p = 0; p < segment.unit.size(); ++p)
      for (const BlockGraph::State& state : blocks.get(segment.unit[p]).states)
        for (std::int64_t layer : segment.layers_at(p))
          out.push_back(
              {fmt::format("layers.{}.{}", layer, state.name), layer, state.type, state.ring});
  return out;
}

}  // namespace lamina::decoder
