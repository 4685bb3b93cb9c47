#include "decoder/trace/recorder.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "decoder/trace/form_probe.h"
#include "decoder/trace/region_types.h"
#include "ops/decode.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

class Recorder final : public registry::BlockTrace, public HostBuild {
 public:
  Recorder(Recording& out, const BlockContext& context, const BlockGraph::Kv* donor)
      : BlockTrace(out.block.graph),
        out_(out),
        context_(context),
        phase_(context.phase),
        use_(context.use),
        probe_(context, donor),
        has_donor_(donor != nullptr) {
    for (const Type& type : carry_types()) add_input("x", type, carries_);
    for (const Tensor& carry : carries_) out.carries.push_back(carry.id);
    if (use_.kind == BlockUse::Kind::layer)
      for (const Type& type : phase_.per_layer) add_input("per_layer", type, per_layer_);
    if (!donor) return;
    out.block.taken_kv = *donor;
    out.block.taken_kv->k_at = index_of(graph().add_input("donor k", donor->k));
    out.block.taken_kv->v_at = index_of(graph().add_input("donor v", donor->v));
  }

  const std::vector<Tensor>& carries() const { return carries_; }
  const std::vector<Tensor>& per_layer() const { return per_layer_; }

  // Returns the types that the block must return; see registry::BlockRequest.
  std::vector<std::optional<Type>> wanted() const {
    switch (use_.kind) {
      case BlockUse::Kind::entry:
        return std::vector<std::optional<Type>>(use_.num_results);
      case BlockUse::Kind::exit:
        return {phase_.activations()};
      case BlockUse::Kind::mtp:
        return {carry_types()[0], phase_.activations()};
      case BlockUse::Kind::layer:
      case BlockUse::Kind::engram:
        return {};
    }
    return {};
  }

  void finish(const std::vector<Tensor>& results) {
    for (const Tensor& result : results) out_.results.push_back(result.id);
  }

  // HostBuild.
  Tensor param(const registry::ParamDesc& desc) override { return make_param(desc); }
  Tensor input(Input role) override { return host_input(role); }
  Tensor name(Tensor value, const std::string& tag) override { return this->tag(value, tag); }
  Tensor remember(Tensor result, const registry::StateDesc& state) override {
    out_.mixing[graph().value(result.id).node] = state;
    return result;
  }

 protected:
  Tensor make_param(const registry::ParamDesc& desc) override {
    return add_param(out_.block, desc, phase_);
  }

  void make_state(const registry::StateDesc& state, int index) override {
    LAMINA_ASSERT(index == static_cast<int>(out_.states.size()));
    out_.states.push_back(state);
  }

  Tensor make_input(registry::InputKind kind) override {
    switch (kind) {
      case registry::InputKind::positions:
        return host_input(Input::positions);
      case registry::InputKind::token_ids:
        return host_input(Input::tokens);
      case registry::InputKind::segment_ids:
        return host_input(Input::segments);
      case registry::InputKind::layer_index:
        return host_input(Input::layer_index);
      case registry::InputKind::embedding:
        return host_input(Input::embedding);
      case registry::InputKind::positions_3d:
        return host_input(Input::positions_3d);
      case registry::InputKind::image_blocks:
        return phase_.embedding_overrides.count > 0 ? host_input(Input::image_blocks) : Tensor{};
    }
    throw PluginError({"host", "an input of an unknown kind", {}});
  }

  Tensor make_layer_constant(const std::string& name, const std::vector<double>& values) override {
    refuse_outside_layers(context_, fmt::format("constant '{}'", name));
    if (use_.kind == BlockUse::Kind::mtp)
      throw PluginError({"host",
                         fmt::format("constant '{}' has a value per layer, and a prediction layer "
                                     "comes after the last; use the index of the layer",
                                     name),
                         {}});
    Tensor input = graph().add_input(name, {phase_.dtype, {}, {}});
    out_.block.host_inputs.push_back({Input::layer_constant, index_of(input), values});
    return input;
  }

  bool supplies(const Op& op, std::size_t input) const override {
    const ops::DecodeForm* form = ops::decode_form(op);
    if (!has_donor_ || !form || !form->shared_kv) return false;
    const int at = static_cast<int>(input);
    return at == form->shared_kv->k || at == form->shared_kv->v;
  }

  std::vector<Tensor> add_op(const Op& op, std::span<const Tensor> inputs,
                             const registry::NamedAttrs& attrs, std::optional<int> state) override {
    const bool draws = op.def->facts.draws;
    refuse_in_scope(op, draws);
    if (!phase_.bidirectional) refuse_later_tokens(op, attrs);
    if (ops::decode_form(op)) return add_mixing(op, inputs, attrs, state);
    if (state) throw PluginError({op.name, "takes no decode state", {}});
    if (op.def->facts.rotates) note_length_dependence(attrs);
    if (!draws) return graph().add_node(op, inputs, attrs);
    const std::vector<Type> types = probe_.types_of_draw(op, inputs, attrs, graph().origin());
    return append_node(graph(), op, inputs, attrs, types);
  }

  Tensor tag(Tensor value, const std::string& name) override {
    const bool wanted = !in_region_ && use_.kind == BlockUse::Kind::layer &&
                        std::ranges::find(phase_.records, name) != phase_.records.end();
    const std::pair record(name, value.id);
    if (wanted && std::ranges::find(out_.records, record) == out_.records.end())
      out_.records.push_back(record);
    return BlockTrace::tag(value, name);
  }

  std::vector<Tensor> begin_region(std::span<const int> states,
                                   std::span<const Tensor> inputs) override {
    Recording::Scope scope;
    for (int state : states) scope.carries.push_back(out_.states[static_cast<std::size_t>(state)]);
    const std::vector<Type> types =
        token_types(scope.carries, inputs, sum_dtype(phase_.dtype), phase_.batch, phase_.tokens);
    in_region_ = true;
    return begin_scope(std::move(scope), inputs, types);
  }

  std::vector<Tensor> end_region(std::span<const Tensor> carries,
                                 std::span<const Tensor> results) override {
    Recording::Scope& scope = out_.scopes[open_.back()];
    std::vector<Type> before;
    for (ValueId stand_in : scope.stand_ins) before.push_back(graph().type(stand_in));
    check_region(scope.carries, before, carries, results, phase_.batch);
    for (const Tensor& carry : carries) scope.last.push_back(carry.id);
    std::vector<Type> types;
    for (const Tensor& result : results) {
      std::vector<std::int64_t> dims = ops::to_list(result.shape());
      dims.insert(dims.begin() + 1, phase_.tokens);
      types.push_back({result.dtype(), Shape(std::span<const std::int64_t>(dims)), {}});
    }
    in_region_ = false;
    return end_scope(results, types);
  }

  std::vector<Tensor> begin_custom(std::span<const Tensor> inputs) override {
    in_custom_ = true;
    custom_is_in_region_ = in_region_;
    caches_before_ = probe_.num_caches();
    Recording::Scope scope;
    scope.first_state = out_.states.size();
    std::vector<Type> types;
    for (const Tensor& input : inputs) types.push_back(input ? input.type() : Type{});
    return begin_scope(std::move(scope), inputs, types);
  }

  std::vector<Tensor> end_custom(const ops::CustomOp& op, const registry::NamedAttrs& attrs,
                                 std::span<const Tensor> results) override {
    if (in_region_ != custom_is_in_region_)
      throw PluginError({op.name, "leaves a region over time open in its lowering", {}});
    Recording::Scope& scope = out_.scopes[open_.back()];
    scope.op = &op;
    scope.attrs = attrs;
    scope.end_state = out_.states.size();
    probe_.forget_caches(caches_before_);
    in_custom_ = false;
    std::vector<Type> types;
    for (const Tensor& result : results) types.push_back(result.type());
    return end_scope(results, types);
  }

  void add_aux(const registry::AuxDesc& value) override {
    for (const Recording::Aux& other : out_.aux)
      if (other.desc.name == value.name)
        throw PluginError({value.name, "is added twice by one block; names are unique", {}});
    if (!phase_.aux) return;
    out_.aux.push_back({value, value.value.id, value.other ? value.other.id : kNoValue});
    out_.aux.back().desc.value = out_.aux.back().desc.other = {};
  }

  void update(const registry::UpdateDesc& update) override {
    for (const Recording::Update& other : out_.updates)
      if (other.desc.param == update.param)
        throw PluginError({update.param, "is updated twice by one block", {}});
    if (!phase_.aux) return;
    out_.updates.push_back({update, update.value.id});
    out_.updates.back().desc.value = {};
  }

 private:
  Graph& graph() { return out_.block.graph; }
  Tensor host_input(Input role) { return decoder::host_input(out_.block, role, context_); }

  void add_input(const char* name, const Type& type, std::vector<Tensor>& to) {
    to.push_back(graph().add_input(name, type));
  }

  NodeId next_node() { return static_cast<NodeId>(graph().nodes().size()); }

  // Returns stand-ins of the given types; null for absent inputs.
  std::vector<Tensor> begin_scope(Recording::Scope scope, std::span<const Tensor> inputs,
                                  std::span<const Type> types) {
    const std::size_t num_carries = scope.carries.size();
    out_.boundaries.push_back({next_node(), out_.scopes.size(), false});
    open_.push_back(out_.scopes.size());
    for (const Tensor& input : inputs) scope.inputs.push_back(input ? input.id : kNoValue);
    std::vector<Tensor> out;
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (i >= num_carries && !inputs[i - num_carries]) {
        out.emplace_back();
        scope.stand_ins.push_back(kNoValue);
        continue;
      }
      out.push_back(ops::constant(graph(), types[i], 0));
      graph().set_axes(out.back().id, types[i].axes);
      scope.stand_ins.push_back(out.back().id);
    }
    out_.scopes.push_back(std::move(scope));
    return out;
  }

  // Returns the values that replace the results outside.
  std::vector<Tensor> end_scope(std::span<const Tensor> results, std::span<const Type> types) {
    Recording::Scope& scope = out_.scopes[open_.back()];
    for (const Tensor& result : results) scope.last.push_back(result.id);
    out_.boundaries.push_back({next_node(), open_.back(), true});
    open_.pop_back();
    std::vector<Tensor> out;
    for (const Type& type : types) {
      out.push_back(graph().add_input("result of a scope", type));
      graph().set_axes(out.back().id, type.axes);
      scope.outside.push_back(out.back().id);
    }
    return out;
  }

  std::vector<Tensor> add_mixing(const Op& op, std::span<const Tensor> inputs,
                                 const registry::NamedAttrs& attrs, std::optional<int> state) {
    std::optional<registry::StateDesc> kept;
    if (state) kept = out_.states[static_cast<std::size_t>(*state)];
    const std::vector<Type> types =
        probe_.types(op, inputs, attrs, kept ? &*kept : nullptr, graph().origin());
    const NodeId node = next_node();
    std::vector<Tensor> out = append_node(graph(), op, inputs, attrs, types);
    out_.mixing[node] = std::move(kept);
    return out;
  }

  void refuse_in_scope(const Op& op, bool draws) const {
    if (in_custom_ && draws)
      throw PluginError({op.name,
                         "is in the lowering of a custom op, which draws no random "
                         "numbers",
                         {}});
    if (in_region_ && (ops::decode_form(op) || draws))
      throw PluginError({op.name,
                         "is in the body of a region over time, which may have ops that treat "
                         "each token by itself and draw no random numbers",
                         {}});
  }

  // A window ends with the query's own token.
  static void refuse_later_tokens(const Op& op, const registry::NamedAttrs& attrs) {
    bool causal = true, window = false;
    for (const auto& [key, value] : attrs) {
      if (key == "causal") causal = std::get<std::int64_t>(value) != 0;
      if (key == "window") window = std::get<std::int64_t>(value) > 0;
    }
    if (!causal && !window)
      throw PluginError(
          {op.name,
           "has causal 0, so tokens see later ones, and could not be decoded; a model "
           "that is not meant to be says so in its head (LAMINA_HEAD_BIDIRECTIONAL)",
           {"tokens see earlier ones only (M-12 of docs/plugin_requirements.md)"}});
  }

  void note_length_dependence(const registry::NamedAttrs& attrs) {
    std::string_view scaling;
    std::int64_t positions = 0, original = 0;
    for (const auto& [key, value] : attrs) {
      if (key == "scaling") scaling = std::get<std::string>(value);
      if (key == "max_positions") positions = std::get<std::int64_t>(value);
      if (key == "original_max_positions") original = std::get<std::int64_t>(value);
    }
    if (scaling != "dynamic" && scaling != "longrope") return;
    BlockGraph& block = out_.block;
    const std::int64_t from = scaling == "dynamic" ? positions : original;
    const std::int64_t before = block.length_dependent_from;
    block.rotation_changes_once =
        block.rotation_changes_once && scaling == "longrope" && (before == 0 || before == from);
    block.length_dependent_from = before == 0 ? from : std::min(before, from);
  }

  std::vector<Type> carry_types() const {
    switch (use_.kind) {
      case BlockUse::Kind::entry:
        return {phase_.activations()};
      case BlockUse::Kind::mtp:
        return {use_.carries ? phase_.carries[0] : phase_.activations(), phase_.activations()};
      default:
        return phase_.carries;
    }
  }

  Recording& out_;
  const BlockContext context_;
  const TracePhase& phase_;
  const BlockUse& use_;
  FormProbe probe_;
  bool has_donor_;
  std::vector<Tensor> carries_, per_layer_;
  std::vector<std::size_t> open_;  // scopes
  bool in_region_ = false, in_custom_ = false, custom_is_in_region_ = false;
  std::size_t caches_before_ = 0;  // of the custom op that is open
};

}  // namespace

Recording record_block(const registry::Family& family, const registry::ModelConfig& config,
                       const BlockContext& context, const BlockGraph::Kv* donor) {
  Recording out;
  Recorder recorder(out, context, donor);
  registry::BlockResult result =
      registry::build_block(family, family.block(context.use.block), config, recorder,
                            {.carries = recorder.carries(),
                             .overrides = context.use.overrides,
                             .place = context.phase.stateful   ? "decoding"
                                      : context.phase.training ? "training"
                                                               : "forward",
                             .per_layer = recorder.per_layer(),
                             .results = recorder.wanted()});
  recorder.finish(result.carries);
  out.block.declared_states = std::move(result.states);
  return out;
}

Recording record_host_block(const BlockContext& context, const HostBlock& build) {
  Recording out;
  Recorder recorder(out, context, nullptr);
  recorder.finish(build(recorder, recorder.carries()));
  return out;
}

}  // namespace lamina::decoder
