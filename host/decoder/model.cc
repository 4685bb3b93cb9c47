#include "decoder/model.h"

#include <algorithm>

#include "core/error.h"
#include "decoder/assembler.h"
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

Tensor head_logits(const registry::HeadSpec& head, Tensor x, Tensor weight) {
  DType wide = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  Tensor logits = ops::matmul(ops::as_rows(x), weight, false, true, wide);
  logits = ops::scale(logits, head.logit_scale);
  if (head.soft_cap != 0) logits = ops::call("soft_cap", {logits}, {{"cap", head.soft_cap}});
  return logits;
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

void Model::check_length(std::int64_t tokens, std::string_view what) const {
  const registry::EmbedSpec& embed = impl_->options.embed;
  if (embed.positions != registry::Positions::learned || tokens <= embed.max_positions) return;
  throw UserError(ExitCode::usage,
                  {std::string(what),
                   fmt::format("is {}; the model has learned positions for {} tokens", tokens,
                               embed.max_positions),
                   {fmt::format("use at most {}", embed.max_positions)}});
}

ModelGraph Model::loss_graph(const LossGraphOptions& options) const {
  check_length(options.tokens, "the length of a row");
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
  check_length(options.tokens, "the length of a row");
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
  check_length(options.capacity, "the length of the context");
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
