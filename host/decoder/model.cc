#include "decoder/model.h"

#include <algorithm>
#include <utility>

#include "config/model_keys.h"
#include "core/error.h"
#include "decoder/call_limits.h"
#include "decoder/graph/embedding.h"
#include "decoder/graph/head.h"
#include "decoder/graph/model_builder.h"
#include "decoder/graph/stack_keys.h"
#include "decoder/graph/stored_parameters.h"
#include "decoder/losses.h"
#include "decoder/mtp/mtp.h"
#include "lamina/names.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

TracePhase phase_of(const GraphShape& shape, const GraphFeatures& features) {
  return {shape, features, {}};
}

// The properties of a parameter that all layers of a segment have in common.
struct Choice {
  Learning learning;
  const formats::BlockFormat* storage = nullptr;
};

std::vector<Choice> choices_of(const std::vector<Parameter>& parameters) {
  std::vector<Choice> out;
  for (const Parameter& p : parameters) out.push_back({p.learning, p.storage});
  return out;
}

// Returns the layers at which scans must break: neighbours there differ in frozen parameters or in
// storage.
std::vector<std::int64_t> choice_breaks(const StackPlan& stack,
                                        const std::vector<Parameter>& parameters,
                                        const std::vector<Choice>& choices) {
  std::vector<std::vector<std::pair<bool, const formats::BlockFormat*>>> by_layer(
      static_cast<std::size_t>(stack.num_layers()));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (const std::int64_t layer = parameters[i].layer; layer >= 0 && layer < std::ssize(by_layer))
      by_layer[static_cast<std::size_t>(layer)].emplace_back(choices[i].learning.frozen,
                                                             choices[i].storage);
  std::vector<std::int64_t> out;
  for (const StackSegment& segment : stack.segments)
    for (std::int64_t time = 1; time < segment.times; ++time)
      for (std::size_t p = 0; p < segment.unit.size(); ++p) {
        const std::int64_t layer = segment.layer(time, p), before = segment.layer(time - 1, p);
        if (by_layer[static_cast<std::size_t>(layer)] == by_layer[static_cast<std::size_t>(before)])
          continue;
        out.push_back(segment.layer(time, 0));
        break;
      }
  return out;
}

// Sets the choices of all parameters, and cuts segments where they differ.
void set_choices(ModelParts& parts, const std::vector<Choice>& choices) {
  const std::vector<Parameter>& parameters = parts.parameters.all();
  LAMINA_ASSERT(choices.size() == parameters.size());
  const registry::PlanSpec plan = parts.family->plan(parts.config);
  StackOptions& options = parts.stack_options;
  const std::vector<std::int64_t> before = std::exchange(options.breaks, {});
  options.breaks = choice_breaks(resolve_stack(plan, options), parameters, choices);
  if (options.breaks != before) {
    std::vector<std::string> names;
    for (const Parameter& p : parameters) names.push_back(p.name);
    parts.stack = resolve_stack(plan, options);
    parts.parameters = {};
    parts.declared.clear();
    declare_parameters(parts);
    LAMINA_ASSERT(std::ranges::equal(names, parts.parameters.all(), {}, {}, &Parameter::name));
  }
  for (std::size_t i = 0; i < choices.size(); ++i) {
    parts.parameters.set_learning(static_cast<int>(i), choices[i].learning);
    parts.parameters.set_storage(static_cast<int>(i), choices[i].storage);
  }
}

// Throws UserError (exit 2) if model.kv_dtype would change nothing.
void check_kv_numbers(const Model& model, const ModelParts& parts) {
  if (!parts.block_options.kv_numbers) return;
  const config::Entry& entry = *given_key(parts, config::kKvDtype);
  if (!model.is_autoregressive())
    refuse_key(entry, "its tokens see later ones, so there is no decode state");
  const auto is_stored = [](const StateTensor& state) { return state.type.storage != nullptr; };
  if (std::ranges::none_of(model.states({}, {}), is_stored))
    refuse_key(
        entry,
        fmt::format("the decode state of this model has no keys and values that may be kept "
                    "in fewer bits: latent vectors and recurrent states keep their type, and so "
                    "do states that the plugin keeps exact or that are more than {} wide",
                    formats::kMaxRowValues));
}

}  // namespace

Model::Model(std::shared_ptr<const registry::Family> family, registry::ModelConfig config,
             const ModelOptions& options)
    : parts_(new ModelParts{family, config, family->options(config), {}, {}, {}}) {
  apply_stack_keys(*parts_);
  parts_->engram = read_engram(config, options.compress_tokens);
  parts_->adapter = options.adapter;
  StackOptions stack{.scan_layers = options.scan_layers, .engram_layers = {}};
  if (parts_->engram)
    for (const EngramLayer& layer : parts_->engram->layers)
      stack.engram_layers.push_back(layer.layer);
  parts_->stack_options = stack;
  parts_->stack = resolve_stack(family->plan(config), stack);
  declare_parameters(*parts_);
  check_kv_numbers(*this, *parts_);
}

void Model::set_learning(const std::vector<Learning>& by_parameter) {
  std::vector<Choice> choices = choices_of(parts_->parameters.all());
  LAMINA_ASSERT(by_parameter.size() == choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i) choices[i].learning = by_parameter[i];
  set_choices(*parts_, choices);
}

std::vector<bool> Model::storable_parameters(bool losses) const {
  std::vector<bool> out(parts_->parameters.all().size(), true);
  keep_storable(is_autoregressive() ? decode_graph({}, {}) : forward_graph({}), out);
  if (losses) keep_storable(loss_graph({}), out);
  return out;
}

std::vector<bool> Model::storable_in_training() const {
  std::vector<bool> out(parts_->parameters.all().size(), true);
  keep_storable(loss_graph({}), out);
  keep_storable(loss_graph({}, {.training = true, .aux = true, .mtp = true}), out);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!parts_->parameters.all()[i].learning.frozen) out[i] = false;
  return out;
}

void Model::set_storage(const std::vector<const formats::BlockFormat*>& by_parameter) {
  std::vector<Choice> choices = choices_of(parts_->parameters.all());
  LAMINA_ASSERT(by_parameter.size() == choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i) choices[i].storage = by_parameter[i];
  set_choices(*parts_, choices);
}

Model::~Model() = default;
Model::Model(Model&&) noexcept = default;

const registry::Family& Model::family() const { return *parts_->family; }
const registry::ModelConfig& Model::config() const { return parts_->config; }
const registry::OptionsSpec& Model::options() const { return parts_->options; }
const StackPlan& Model::stack() const { return parts_->stack; }
const ParameterTable& Model::parameters() const { return parts_->parameters; }
const std::optional<Adapter>& Model::adapter() const { return parts_->adapter; }
bool Model::has_dropout() const {
  const ModelGraph graph = loss_graph({}, {.training = true, .aux = true, .mtp = true});
  return std::ranges::find(graph.inputs, Input::seed, &InputRole::role) != graph.inputs.end();
}
std::int64_t Model::vocab_size() const { return parts_->config.vocab_size(); }
std::int64_t Model::hidden_size() const { return parts_->config.hidden_size(); }
std::int64_t Model::layer_width() const {
  return BlockCache(*parts_, phase_of({}, {})).phase().carries.front().num_elements();
}
std::int64_t Model::mtp_depth() const { return parts_->options.mtp.depth; }
double Model::mtp_weight(std::int64_t depth) const { return decoder::mtp_weight(*parts_, depth); }
std::optional<std::int64_t> Model::length_dependent_from() const {
  return parts_->length_dependent_from;
}
bool Model::rotation_changes_once() const { return parts_->rotation_changes_once; }

std::optional<std::int64_t> Model::max_length() const {
  std::optional<std::int64_t> out;
  if (!length_dependent_from() || rotation_changes_once()) out = config().max_positions();
  const registry::EmbedSpec& embed = parts_->options.embed;
  if (embed.positions == registry::Positions::learned)
    out = std::min(out.value_or(embed.max_positions), embed.max_positions);
  return out;
}

void Model::check_length(std::int64_t tokens, std::string_view what) const {
  const registry::EmbedSpec& embed = parts_->options.embed;
  if (embed.positions != registry::Positions::learned || tokens <= embed.max_positions) return;
  throw UserError(ExitCode::usage,
                  {std::string(what),
                   fmt::format("is {}; the model has learned positions for {} tokens", tokens,
                               embed.max_positions),
                   {fmt::format("use at most {}", embed.max_positions)}});
}

ModelGraph Model::stored(ModelGraph graph, bool training) const {
  store_parameters(graph, parts_->parameters, training);
  return graph;
}

ModelGraph Model::loss_graph(const GraphShape& shape, const GraphFeatures& features) const {
  check_length(shape.tokens, "the length of a row");
  check_call(shape.batch, shape.tokens);
  TracePhase phase = phase_of(shape, features);
  phase.layer_metrics = features.aux && features.layer_metrics;
  ModelBuilder b(*parts_, phase, &ComparedLayers::student);
  add_losses(b, b.stack.run(embedding(b.to), false));
  return stored(std::move(b.to.out()), features.training);
}

ModelGraph Model::forward_graph(const GraphShape& shape, const GraphFeatures& features) const {
  check_length(shape.tokens, "the length of a row");
  check_call(shape.batch, shape.tokens);
  ModelBuilder b(*parts_, phase_of(shape, features));
  Tensor hidden = b.stack.run(embedding(b.to), features.hidden);
  Tensor normed = final_norm(b.to, hidden);
  if (features.normed) b.to.add_output(Output::normed, normed);
  if (features.logits)
    b.to.add_output(Output::logits,
                    ops::reshape(logits(b.to, normed), {shape.batch, shape.tokens, vocab_size()}));
  if (features.mtp && mtp_depth() > 0) add_mtp_outputs(b, hidden);
  return stored(std::move(b.to.out()));
}

ModelGraph Model::teacher_graph(const GraphShape& shape, const GraphFeatures& features) const {
  check_length(shape.tokens, "the length of a row");
  check_call(shape.batch, shape.tokens);
  ModelBuilder b(*parts_, phase_of(shape, features), &ComparedLayers::teacher);
  const Tensor x = final_norm(b.to, b.stack.run(embedding(b.to), false));
  add_teacher_outputs(b.to, x, b.layer_outputs());
  return stored(std::move(b.to.out()));
}

ModelGraph Model::head_graph(const GraphShape& shape) const {
  check_call(shape.batch, shape.tokens);
  ModelBuilder b(*parts_, phase_of(shape, {}));
  Tensor all = logits(b.to, b.to.host_input(Input::normed));
  b.to.add_output(Output::logits, ops::reshape(all, {shape.batch, shape.tokens, vocab_size()}));
  return stored(std::move(b.to.out()));
}

bool Model::is_autoregressive() const { return !parts_->options.head.bidirectional; }

ModelGraph Model::decode_graph(const GraphShape& shape, const StateSize& state,
                               const GraphFeatures& features) const {
  if (!is_autoregressive())
    throw UserError(ExitCode::usage,
                    {"decode",
                     fmt::format("family '{}' is not autoregressive: its tokens see later ones, so "
                                 "there is no next token to decode",
                                 family().name()),
                     {"it can be trained, verified and evaluated"}});
  check_length(state.capacity, "the length of the context");
  check_call(shape.batch, state.capacity);
  ModelBuilder b(*parts_, {shape, features, state, true});
  Tensor x = b.stack.run(embedding(b.to), false);
  if (features.normed) b.to.add_output(Output::normed, final_norm(b.to, x));
  if (features.logits) {
    // Only the requested rows need the norm and the head.
    x = ops::select_rows(x, b.to.host_input(Input::rows));
    b.to.add_output(Output::logits, logits(b.to, final_norm(b.to, x)));
  }
  return stored(std::move(b.to.out()));
}

std::vector<StateTensor> Model::states(const GraphShape& shape, const StateSize& state) const {
  return decode_graph(shape, state).states;
}

}  // namespace lamina::decoder
