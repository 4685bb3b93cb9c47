#include "decoder/trace/block_graph.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/model_keys.h"
#include "core/error.h"
#include "decoder/roles/roles.h"
#include "decoder/stack/parameter.h"
#include "decoder/trace/custom_call.h"
#include "decoder/trace/host_options.h"
#include "decoder/trace/latent_logits.h"
#include "decoder/trace/refused_option.h"
#include "decoder/trace/time_region.h"
#include "graph/rewrite.h"
#include "ops/decode.h"
#include "ops/op_code.h"
#include "ops/registry.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

class BlockTrace final : public registry::Trace, public HostBuild, private ops::DecodeContext {
 public:
  // `left_out`: parameters that an earlier trace found to be read by nothing.
  BlockTrace(BlockGraph& out, const TracePhase& phase, const BlockUse& use,
             const BlockGraph::Kv* donor, const std::set<std::string>& left_out)
      : Trace(out.graph),
        out_(out),
        phase_(phase),
        use_(use),
        left_out_(left_out),
        options_(
            phase.options, phase.training, [this](Tensor x, double rate) { return drop(x, rate); },
            [this](const registry::ParamDesc& desc) { return add_param(desc); }) {
    for (const Type& type : carry_types()) carries_.push_back(out.graph.add_input("x", type));
    if (use.kind == BlockUse::Kind::layer)
      for (const Type& type : phase.per_layer)
        per_layer_.push_back(out.graph.add_input("per_layer", type));
    if (!donor) return;
    donor_ = {out.graph.add_input("donor k", donor->k), out.graph.add_input("donor v", donor->v),
              donor->ring, donor->window};
    out.taken_kv = *donor;
    out.taken_kv->k_at = index_of(donor_->k);
    out.taken_kv->v_at = index_of(donor_->v);
  }

  const std::set<std::string>& left_out() const { return options_.left_out(); }
  const std::vector<Tensor>& carries() const { return carries_; }
  const std::vector<Tensor>& per_layer() const { return per_layer_; }

  // The types that the block must give; see registry::BlockRequest.
  std::vector<std::optional<Type>> wanted() const {
    switch (use_.kind) {
      case BlockUse::Kind::layer:
        return {};
      case BlockUse::Kind::entry:
        return std::vector<std::optional<Type>>(use_.num_results);
      case BlockUse::Kind::exit:
        return {phase_.activations()};
      case BlockUse::Kind::mtp:
        return {carry_types()[0], phase_.activations()};
      case BlockUse::Kind::engram:
        return {};
    }
    return {};
  }

  // What the build gave becomes the outputs of the graph. In `x + attention(..) + mlp(..)` the
  // plugin's compiler chooses which is built first; nothing that follows may tell.
  void finish(std::vector<Tensor> results) {
    Graph& graph = out_.graph;
    if (is_layer()) results = options_.of_layer(carries_[0], std::move(results));
    std::ranges::sort(out_.params, {}, [](const BlockGraph::Param& p) { return p.desc.name; });
    std::ranges::sort(aux_, {}, &registry::AuxDesc::name);
    std::ranges::sort(updates_, {}, &registry::UpdateDesc::param);
    auto add = [&](const std::string& name, Tensor value, int alias = -1) {
      graph.add_output(name, value, alias);
      return static_cast<int>(graph.outputs().size()) - 1;
    };
    for (Tensor result : results) add("x", result);
    out_.num_results = results.size();
    for (std::size_t i = 0; i < out_.states.size(); ++i) {
      BlockGraph::State& state = out_.states[i];
      if (!written_[i])
        throw PluginError({"host", fmt::format("state '{}' is never written", state.name), {}});
      state.output = add(state.name, written_[i], state.input);
    }
    if (use_.gives_kv) give_kv(add);
    for (std::size_t i = 0; i < aux_.size(); ++i) {
      BlockGraph::Aux aux{aux_[i], add(aux_[i].name, aux_[i].value)};
      if (aux_[i].other) aux.other = add(aux_[i].name + " other", aux_[i].other);
      aux.desc.value = aux.desc.other = {};
      out_.aux.push_back(std::move(aux));
    }
    for (const registry::UpdateDesc& update : updates_) {
      auto param = std::ranges::find_if(
          out_.params, [&](const BlockGraph::Param& p) { return p.desc.name == update.param; });
      int index = static_cast<int>(param - out_.params.begin());
      out_.updates.push_back({update, index, add("update of " + update.param, update.value)});
      out_.updates.back().desc.value = {};
    }
    for (const auto& [tag, value] : recorded_) out_.records.push_back({tag, add(tag, value)});
    check_left_out();
    graph = in_order_of_use();
    if (phase_.options.remake()) graph = without_dead_nodes(graph);
    out_.has = options_.has();
  }

  // HostBuild.
  Tensor param(const registry::ParamDesc& desc) override { return make_param(desc); }
  Tensor input(Input role) override { return host_input(role); }
  Tensor name(Tensor value, const std::string& tag) override { return this->tag(value, tag); }
  std::vector<Tensor> mix(OpCode op, std::vector<Tensor> inputs, const registry::NamedAttrs& attrs,
                          const registry::StateDesc& state) override {
    return ops::trace_op({ops::get(op), std::move(inputs), attrs, &state, *this});
  }

 protected:
  Tensor make_param(const registry::ParamDesc& desc) override {
    Parameter parameter{desc.name, 0, 0, desc};
    Type type{parameter.used_dtype(phase_.dtype), desc.shape, {}};
    if (left_out_.contains(desc.name)) {
      stand_ins_.push_back(ops::constant(graph(), type, 0));
      options_.note_param(stand_ins_.back(), desc);
      return stand_ins_.back();
    }
    if (std::ranges::any_of(out_.params,
                            [&](const BlockGraph::Param& p) { return p.desc.name == desc.name; }))
      throw RefusedOption{{fmt::format("parameter '{}'", desc.name),
                           "is added by a [model] key and declared by the block, too",
                           {"leave the key out"}}};
    Tensor input = graph().add_input(desc.name, type);
    graph().set_axes(input.id, desc.axes);
    out_.params.push_back({desc, index_of(input)});
    if (const AdapterTarget* target = target_of(desc.name))
      adapted_.push_back({input, desc, target, {}, {}, {}});
    options_.note_param(input, desc);
    return input;
  }

  void make_state(const registry::StateDesc& state, int index) override {
    LAMINA_ASSERT(index == static_cast<int>(state_descs_.size()));
    state_descs_.push_back(state);
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
    refuse_outside_layers(fmt::format("constant '{}'", name));
    if (use_.kind == BlockUse::Kind::mtp)
      throw PluginError({"host",
                         fmt::format("constant '{}' has a value per layer, and a prediction layer "
                                     "comes after the last; use the index of the layer",
                                     name),
                         {}});
    Tensor input = graph().add_input(name, {phase_.dtype, {}, {}});
    out_.host_inputs.push_back({Input::layer_constant, index_of(input), values});
    return input;
  }

  bool supplies(const Op& op, std::size_t input) const override {
    const ops::DecodeForm* form = ops::decode_form(op);
    if (!donor_ || !form || !form->shared_kv) return false;
    const int at = static_cast<int>(input);
    return at == form->shared_kv->k || at == form->shared_kv->v;
  }

  std::vector<Tensor> add_op(const Op& op, std::span<const Tensor> inputs,
                             const registry::NamedAttrs& attrs, std::optional<int> state) override {
    refuse_adapted(op, inputs);
    const std::vector<Tensor> remade = options_.inputs(op, inputs);
    if (!std::ranges::equal(remade, inputs, {}, &Tensor::id, &Tensor::id)) {
      refuse_in_custom();
      for (std::size_t i = 0; i < inputs.size(); ++i) move_record(inputs[i], remade[i]);
      inputs = remade;
    }
    const bool draws = op.code == OpCode::dropout || op.code == OpCode::random;
    if (custom_ && draws)
      throw PluginError({op.name,
                         "is in the lowering of a custom op, which draws no random "
                         "numbers",
                         {}});
    if (region_ && (ops::decode_form(op) || draws))
      throw PluginError({op.name,
                         "is in the body of a region over time, which may have ops that treat "
                         "each token by itself and draw no random numbers",
                         {}});
    if (!phase_.bidirectional) refuse_later_tokens(op, attrs);
    if (ops::decode_form(op)) return mixed(op, inputs, options_.attrs(op, inputs, attrs), state);
    if (state) throw PluginError({op.name, "takes no decode state", {}});
    if (op.code == OpCode::dropout)
      return phase_.training ? draw(op, {inputs[0]}, attrs) : std::vector{inputs[0]};
    if (op.code == OpCode::random)
      return phase_.training ? draw(op, {}, attrs) : mean_of_draws(attrs);
    if (options_.chooses_experts(op, inputs) && phase_.training)
      return random_experts(op, inputs[0], attrs);
    if (op.code == OpCode::rope) note_length_dependence(attrs);
    if (op.code == OpCode::grouped_linear)
      if (Adapted* experts = find_adapted(inputs[1]))
        return {add_adapted_experts(*experts, inputs, options_.attrs(op, inputs, attrs))};
    if (op.code != OpCode::linear)
      return graph().add_node(op, inputs, options_.attrs(op, inputs, attrs));
    std::vector<Tensor> operands(inputs.begin(), inputs.end());
    operands[0] = options_.linear_input(inputs[0], inputs[1]);
    Adapted* matrix = find_adapted(inputs[1]);
    const Tensor y = matrix ? add_adapted(*matrix, operands, attrs)
                            : graph().add_node(op, operands, attrs).front();
    options_.note_product(y, {inputs[0], inputs[1], inputs.size() > 2 ? inputs[2] : Tensor{}});
    return {y};
  }

  Tensor tag(Tensor value, const std::string& name) override {
    bool wanted = !region_ && use_.kind == BlockUse::Kind::layer &&
                  std::ranges::find(phase_.records, name) != phase_.records.end();
    auto same = [&](const auto& known) {
      return known.first == name && known.second.id == value.id;
    };
    if (wanted && std::ranges::none_of(recorded_, same)) recorded_.emplace_back(name, value);
    return Trace::tag(value, name);
  }

  std::vector<Tensor> begin_region(std::span<const int> states,
                                   std::span<const Tensor> inputs) override {
    std::vector<registry::StateDesc> kept;
    for (int state : states) kept.push_back(state_descs_[static_cast<std::size_t>(state)]);
    region_.emplace(static_cast<ops::DecodeContext&>(*this), std::move(kept),
                    std::vector<Tensor>(inputs.begin(), inputs.end()), sum_dtype(phase_.dtype),
                    phase_.batch, phase_.tokens);
    return region_->stand_ins();
  }
  std::vector<Tensor> end_region(std::span<const Tensor> carries,
                                 std::span<const Tensor> results) override {
    std::vector<Tensor> out = region_->end(carries, results);
    bodies_.push_back(region_->nodes());
    region_.reset();
    return out;
  }

  std::vector<Tensor> begin_custom(std::span<const Tensor> inputs) override {
    custom_.emplace(TracedSoFar{*this, out_, state_descs_, written_, donated_, use_.gives_kv},
                    inputs);
    custom_is_in_region_ = region_.has_value();
    return custom_->stand_ins();
  }
  std::vector<Tensor> end_custom(const ops::CustomOp& op, const registry::NamedAttrs& attrs,
                                 std::span<const Tensor> results) override {
    if (region_.has_value() != custom_is_in_region_)
      throw PluginError({op.name, "leaves a region over time open in its lowering", {}});
    std::vector<Tensor> out = custom_->end(op, attrs, results);
    bodies_.push_back(custom_->nodes());
    custom_.reset();
    return out;
  }

  void add_aux(const registry::AuxDesc& value) override {
    for (const registry::AuxDesc& other : aux_)
      if (other.name == value.name)
        throw PluginError({value.name, "is added twice by one block; names are unique", {}});
    if (phase_.aux) aux_.push_back(value);
  }
  void update(const registry::UpdateDesc& update) override {
    for (const registry::UpdateDesc& other : updates_)
      if (other.param == update.param)
        throw PluginError({update.param, "is updated twice by one block", {}});
    if (phase_.aux) updates_.push_back(update);
  }

 private:
  // A matrix of the plugin's with what the adapter adds to it, once `linear` has read it.
  struct Adapted {
    Tensor weight;
    registry::ParamDesc desc;
    const AdapterTarget* target;
    Tensor down, up, magnitude;
  };

  const AdapterTarget* target_of(const std::string& name) const {
    if (use_.kind != BlockUse::Kind::layer || !phase_.adapter) return nullptr;
    return phase_.adapter->find(use_.block, name);
  }

  static bool is_product(const Op& op) {
    return op.code == OpCode::linear || op.code == OpCode::grouped_linear;
  }

  Adapted* find_adapted(Tensor value) {
    for (Adapted& matrix : adapted_)
      if (matrix.weight.id == value.id) return &matrix;
    return nullptr;
  }

  // What another op reads cannot have an adapter.
  void refuse_adapted(const Op& op, std::span<const Tensor> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i] || (is_product(op) && i == 1)) continue;
      const Adapted* matrix = find_adapted(inputs[i]);
      if (!matrix) continue;
      if (!phase_.adapter->all || matrix->down)
        throw RefusedOption{
            {"lora.target_modules",
             fmt::format("'{}' is read by the op {}; an adapter is of matrices that "
                         "`linear` alone reads",
                         matrix->desc.name, op.name),
             {"name the others"}}};
      adapted_.erase(adapted_.begin() + (matrix - adapted_.data()));
    }
  }

  registry::ParamDesc adapter_param(const Adapted& matrix, std::string_view part) const {
    const std::int64_t rank = phase_.adapter->rank;
    const AxisId axis = intern_axis("lora_rank");
    registry::ParamDesc out{.name = adapter_name(matrix.desc.name, part),
                            .shape = matrix.desc.shape,
                            .axes = matrix.desc.axes};
    if (part == kAdapterMagnitude) {  // weights::start_magnitudes() has its values
      out.shape = {out.shape[0]};
      out.axes.pop_back();
      return out;
    }
    const int dim = out.shape.ndim() - (part == kAdapterDown ? 2 : 1);
    // As PEFT starts them: so that what is added is 0.
    const double bound = 1 / std::sqrt(static_cast<double>(out.shape[-1]));
    if (part == kAdapterDown) {
      if (!matrix.target->down_of.empty())
        out.name = adapter_name(matrix.target->down_of, kAdapterDown);
      out.init = {registry::InitSpec::Kind::uniform, -bound, bound};
    }
    out.shape[dim] = rank;
    out.axes[static_cast<std::size_t>(dim)] = axis;
    return out;
  }

  void add_adapter_params(Adapted& matrix) {
    if (matrix.up) return;
    const registry::ParamDesc down = adapter_param(matrix, kAdapterDown);
    const auto known = std::ranges::find_if(adapted_, [&](const Adapted& other) {
      return other.down && other.target->down_of == matrix.target->down_of &&
             !matrix.target->down_of.empty();
    });
    matrix.down = known == adapted_.end() ? make_param(down) : known->down;
    matrix.up = make_param(adapter_param(matrix, kAdapterUp));
    if (phase_.adapter->dora)
      matrix.magnitude = make_param(adapter_param(matrix, kAdapterMagnitude));
  }

  Tensor adapter_input(Tensor x) {
    const double rate = phase_.adapter->dropout;
    if (rate == 0 || !phase_.training) return x;
    return draw(ops::get(OpCode::dropout), {x}, {{"rate", rate}}).front();
  }

  // Rows of x belong to experts as `offsets`, input 2, says.
  Tensor add_adapted_experts(Adapted& matrix, std::span<const Tensor> inputs,
                             const registry::NamedAttrs& attrs) {
    if (phase_.adapter->dora)
      throw RefusedOption{{"lora.use_dora",
                           fmt::format("'{}' is of experts, whose adapters have no magnitudes here",
                                       matrix.desc.name),
                           {"leave it out, or name other matrices in lora.target_modules"}}};
    add_adapter_params(matrix);
    const Op& op = ops::get(OpCode::grouped_linear);
    const Tensor y = graph().add_node(op, inputs, attrs).front();
    const Tensor low = ops::grouped_linear(adapter_input(inputs[0]), matrix.down, inputs[2]);
    return y + ops::scale(ops::grouped_linear(low, matrix.up, inputs[2]), phase_.adapter->scale);
  }

  Tensor add_adapted(Adapted& matrix, std::span<const Tensor> inputs,
                     const registry::NamedAttrs& attrs) {
    add_adapter_params(matrix);
    const Op& linear = ops::get(OpCode::linear);
    const Tensor y = graph().add_node(linear, inputs, attrs).front();
    const Tensor x = adapter_input(inputs[0]);
    const Tensor low = ops::linear(x, matrix.down);
    const Tensor added = ops::scale(ops::linear(low, matrix.up), phase_.adapter->scale);
    if (!matrix.magnitude) return y + added;
    Tensor product = y;  // of x and the matrix
    if (x.id != inputs[0].id)
      product = ops::linear(x, inputs[1]);
    else if (inputs.size() > 2 && inputs[2])
      product = y - ops::cast(inputs[2], y.dtype());
    const DType wide = sum_dtype(y.dtype());
    const Tensor ratio =
        ops::cast(matrix.magnitude, wide) / ops::stop_gradient(row_lengths(matrix, wide));
    const Tensor changed =
        ops::cast(product, wide) * ops::shift(ratio, -1) + ops::cast(added, wide) * ratio;
    return y + ops::cast(changed, y.dtype());
  }

  // Of the rows of w + scale b a: [outputs].
  Tensor row_lengths(const Adapted& matrix, DType wide) {
    const Tensor change = ops::matmul(matrix.up, matrix.down, false, false, wide);
    const Tensor whole = ops::cast(matrix.weight, wide) + ops::scale(change, phase_.adapter->scale);
    return ops::sqrt(ops::reduce_sum(whole * whole, {1}));
  }

  static int index_of(Tensor input) { return static_cast<int>(input.graph->value(input.id).index); }

  // The graph without what is in bodies of regions, and with the streams of its draws.
  Graph in_order_of_use() const {
    const Graph& from = out_.graph;
    std::vector<ValueId> roots;
    for (const GraphOutput& output : from.outputs()) roots.push_back(output.value);
    Graph out;
    Copier copy(from, out);
    copy.inputs();
    std::int64_t draws = 0;  // so far; stream 0 is the embedding's
    for (NodeId id : order_of_use(from, roots)) {
      if (std::ranges::any_of(bodies_, [&](NodeRange r) { return id >= r.first && id < r.end; }))
        continue;
      Node node = from.node(id);
      if (node.op->code == OpCode::dropout || node.op->code == OpCode::random)
        node.set_attr("stream", stream(++draws));
      copy.node(node);
    }
    copy.outputs();
    return out;
  }

  bool is_layer() const {
    return use_.kind == BlockUse::Kind::layer || use_.kind == BlockUse::Kind::mtp;
  }

  // Draws of one layer differ by their place in it; those of entry and exit by negative numbers.
  std::int64_t stream(std::int64_t place) const {
    if (use_.kind == BlockUse::Kind::entry) return -2 * place;
    if (use_.kind == BlockUse::Kind::exit) return -2 * place - 1;
    return place;
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

  void refuse_outside_layers(std::string_view what) const {
    if (use_.kind == BlockUse::Kind::entry || use_.kind == BlockUse::Kind::exit)
      throw PluginError(
          {"host",
           fmt::format("{} is only available in layers, and this block is not one", what),
           {}});
  }

  template <typename Add>
  void give_kv(Add& add) {
    if (!donated_)
      throw PluginError(
          {"host",
           "another layer reads the keys and values of this one, which has no attention",
           {}});
    BlockGraph::Kv kv{
        donated_->k.type(), donated_->v.type(), donated_->ring, donated_->window, -1, -1};
    // While decoding they are the state, which is an output already.
    for (std::size_t i = 0; i < out_.states.size(); ++i) {
      if (written_[i].id == donated_->k.id) kv.k_at = out_.states[i].output;
      if (written_[i].id == donated_->v.id) kv.v_at = out_.states[i].output;
    }
    if (kv.k_at < 0) kv.k_at = add("donated k", donated_->k);
    if (kv.v_at < 0) kv.v_at = add("donated v", donated_->v);
    out_.donated_kv = kv;
  }

  // ops::DecodeContext.
  Graph& graph() override { return out_.graph; }
  bool stateful() const override { return phase_.stateful; }
  std::int64_t capacity() const override { return phase_.capacity; }
  std::int64_t max_call_tokens() const override { return phase_.max_call_tokens; }
  bool segments() const override { return phase_.segments; }
  Tensor host_input(ops::HostInput input) override {
    switch (input) {
      case ops::HostInput::positions:
        return host_input(Input::positions);
      case ops::HostInput::segments:
        return host_input(Input::segments);
      case ops::HostInput::start:
        return host_input(Input::start);
      case ops::HostInput::count:
        return host_input(Input::count);
    }
    throw PluginError({"host", "an input of an unknown kind", {}});
  }
  Tensor host_input(Input role) {
    for (const BlockGraph::HostInput& known : out_.host_inputs)
      if (known.role == role)
        return graph().tensor(graph().inputs()[static_cast<std::size_t>(known.input)].value);
    if (role == Input::layer_index) refuse_outside_layers("the index of the layer");
    Tensor input = graph().add_input(std::string(role_name(role)), host_input_type(role, phase_));
    out_.host_inputs.push_back({role, index_of(input), {}});
    return input;
  }
  Tensor state_input(const std::string& name, registry::StateKind kind, const Type& type,
                     bool ring) override {
    for (const BlockGraph::State& state : out_.states)
      if (state.name == name)
        throw PluginError({"host", fmt::format("state '{}' is used by two ops", name), {}});
    const Type kept = type;  // may be that of a value, and values move when one is added
    Tensor input = graph().add_input(name, kept);
    out_.states.push_back({name, kind, kept, ring, index_of(input), -1});
    written_.emplace_back();
    return input;
  }
  void state_output(Tensor state, Tensor written) override {
    for (std::size_t i = 0; i < out_.states.size(); ++i)
      if (out_.states[i].input == index_of(state)) written_[i] = written;
  }
  const std::optional<ops::KeysAndValues>& donor() const override { return donor_; }
  void donate(const ops::KeysAndValues& kv) override {
    if (donated_ && use_.gives_kv)
      throw PluginError(
          {"host",
           "another layer reads the keys and values of this one, which has two attentions",
           {}});
    donated_ = kv;
  }

  // Adds an op that draws: its inputs, the seed and the layer, if there is one. finish() says its
  // stream.
  std::vector<Tensor> draw(const Op& op, std::vector<Tensor> inputs,
                           const registry::NamedAttrs& attrs) {
    inputs.push_back(host_input(Input::seed));
    inputs.push_back(is_layer() ? host_input(Input::layer_index) : Tensor{});
    return graph().add_node(op, inputs, attrs);
  }

  // What the host makes of a value that was recorded has its tag.
  void move_record(Tensor from, Tensor to) {
    for (auto& [tag, value] : recorded_)
      if (value.id == from.id) value = to;
  }

  // An op that mixes tokens, with what the options change in it.
  std::vector<Tensor> mixed(const Op& op, std::span<const Tensor> given,
                            const registry::NamedAttrs& attrs, std::optional<int> state) {
    std::vector<Tensor> inputs(given.begin(), given.end());
    std::optional<registry::StateDesc> kept;
    if (state) kept = options_.state(op, state_descs_[static_cast<std::size_t>(*state)], attrs);
    const registry::StateDesc* desc = kept ? &*kept : nullptr;
    if (options_.chooses_chunks(op, inputs, attrs)) {
      refuse_in_custom();
      const registry::NamedAttrs chunks = {{"chunk", phase_.options.moba_chunk},
                                           {"k", phase_.options.moba_top_k}};
      inputs.resize(op.inputs.size());
      inputs[4] =
          ops::trace_op({ops::get(OpCode::moba_mask), {inputs[0], inputs[1]}, chunks, desc, *this})
              .front();
    }
    if (const std::int64_t size = options_.block_tokens(op, inputs); size > 0) {
      refuse_in_custom();
      inputs.resize(op.inputs.size());
      inputs[5] = block_numbers(size);
    }
    std::vector<Tensor> results = ops::trace_op({op, std::move(inputs), attrs, desc, *this});
    if (phase_.max_logits && op.code == OpCode::latent_attention) keep_max_logits(results[0]);
    return options_.results(std::move(results));
  }

  // Of the call's tokens, from 1: their positions in the document by the tokens of a block.
  Tensor block_numbers(std::int64_t size) {
    const Type one{DType::i32, {1, 1}, {}};
    const Tensor positions = host_input(Input::positions);
    return positions / ops::constant(graph(), one, static_cast<double>(size)) +
           ops::constant(graph(), one, 1);
  }

  // K of the experts, all equally likely, with their scores in x[B, T, E].
  std::vector<Tensor> random_experts(const Op& op, Tensor x, const registry::NamedAttrs& attrs) {
    if (region_ || custom_)
      throw RefusedOption{{fmt::format("model.{}", config::kRandomRouting),
                           "a layer of this model has its router where nothing can be drawn",
                           {"leave it out"}}};
    const registry::NamedAttrs shape = {{"shape", ops::to_list(x.shape())}};
    const Tensor drawn = draw(ops::get(OpCode::random), {}, shape).front();
    const Tensor ids = graph().add_node(op, std::vector{drawn}, attrs)[1];
    return {ops::take_along(x, ids), ids};
  }

  // Of the host's own accord.
  Tensor add_param(const registry::ParamDesc& desc) {
    refuse_in_custom();
    return make_param(desc);
  }

  void refuse_in_custom() const {
    if (region_ || custom_)
      throw RefusedOption{
          {"model",
           fmt::format("queries, keys, values and feed-forwards in {} of this model stay as they "
                       "are: keys that change them do not go with it",
                       region_ ? "a region over time" : "a custom op"),
           {"leave out the keys for norms, shared values and activations"}}};
  }

  // Nothing that is wanted may come from what was left out.
  void check_left_out() const {
    if (stand_ins_.empty()) return;
    std::vector<ValueId> roots;
    for (const GraphOutput& output : out_.graph.outputs()) roots.push_back(output.value);
    std::vector<bool> live(out_.graph.values().size(), false);
    while (!roots.empty()) {
      const ValueId value = roots.back();
      roots.pop_back();
      if (value == kNoValue || live[value]) continue;
      live[value] = true;
      if (const NodeId node = out_.graph.value(value).node; node != kNoNode)
        for (ValueId input : out_.graph.node(node).inputs) roots.push_back(input);
    }
    for (const Tensor& stand_in : stand_ins_)
      if (live[stand_in.id])
        throw RefusedOption{{"model",
                             "a block reads a matrix or norm a second time that a key leaves out",
                             {"leave out the keys for norms, shared values and activations"}}};
  }

  Tensor drop(Tensor x, double rate) {
    if (region_ || custom_)
      throw RefusedOption{
          {fmt::format("model.{}", region_ ? config::kDropout : config::kAttentionDropout),
           fmt::format("a layer of this model has its {}, where nothing can be drawn",
                       region_ ? "feed-forward in a region over time" : "attention in a custom op"),
           {"leave it out"}}};
    return draw(ops::get(OpCode::dropout), {x}, {{"rate", rate}}).front();
  }

  void keep_max_logits(Tensor attended) {
    if (custom_ || out_.query_key)
      throw RefusedOption{{"optimizer.qk_clip",
                           custom_ ? "a layer of this model has its attention in a custom op"
                                   : "a layer of this model has two latent attentions",
                           {"leave it out"}}};
    const LatentLogits logits = latent_logits(graph(), attended, out_.params);
    out_.query_key = logits.matrices;
    add_aux({.kind = registry::AuxDesc::Kind::metric,
             .name = kMaxLogits,
             .value = logits.top,
             .weight_key = {},
             .reduce = Reduce::max,
             .other = {}});
  }

  // In place of what random draws in training.
  std::vector<Tensor> mean_of_draws(const registry::NamedAttrs& attrs) {
    registry::NamedAttrs half = attrs;
    half.emplace_back("value", 0.5);
    return graph().add_node(ops::get(OpCode::constant), {}, half);
  }

  void note_length_dependence(const registry::NamedAttrs& attrs) {
    bool dynamic = false;
    std::int64_t positions = 0;
    for (const auto& [key, value] : attrs) {
      if (key == "scaling") dynamic = std::get<std::string>(value) == "dynamic";
      if (key == "max_positions") positions = std::get<std::int64_t>(value);
    }
    if (dynamic) out_.length_dependent_from = positions;
  }

  BlockGraph& out_;
  const TracePhase& phase_;
  const BlockUse& use_;
  const std::set<std::string>& left_out_;
  std::vector<Tensor> stand_ins_;  // for parameters left out
  std::vector<Tensor> carries_, per_layer_;
  std::optional<ops::KeysAndValues> donor_, donated_;
  std::vector<registry::StateDesc> state_descs_;
  std::vector<Tensor> written_;  // one per state of out_
  std::vector<Adapted> adapted_;
  HostOptions options_;
  std::optional<TimeRegion> region_;  // while its body is traced
  std::vector<NodeRange> bodies_;     // of those that have ended
  std::optional<CustomCall> custom_;  // while its lowering is traced
  bool custom_is_in_region_ = false;
  std::vector<registry::AuxDesc> aux_;
  std::vector<registry::UpdateDesc> updates_;
  std::vector<std::pair<std::string, Tensor>> recorded_;
};

}  // namespace

namespace {

BlockGraph trace_once(const registry::Family& family, const registry::ModelConfig& config,
                      const BlockUse& use, const BlockGraph::Kv* donor, const TracePhase& phase,
                      std::set<std::string>& left_out) {
  BlockGraph out;
  BlockTrace trace(out, phase, use, donor, left_out);
  registry::BlockResult result;
  try {
    result = registry::build_block(family, family.block(use.block), config, trace,
                                   {.carries = trace.carries(),
                                    .overrides = use.overrides,
                                    .place = phase.stateful   ? "decoding"
                                             : phase.training ? "training"
                                                              : "forward",
                                    .per_layer = trace.per_layer(),
                                    .results = trace.wanted()});
    trace.finish(result.carries);
  } catch (const RefusedOption& refused) {
    throw UserError(ExitCode::usage, refused.text);
  }
  out.declared_states = std::move(result.states);
  left_out = trace.left_out();
  return out;
}

}  // namespace

// What nothing reads any more is known once the block has been traced, and then left out of a
// second trace.
BlockGraph trace_block(const registry::Family& family, const registry::ModelConfig& config,
                       const BlockUse& use, const BlockGraph::Kv* donor, const TracePhase& phase) {
  std::set<std::string> left_out;
  BlockGraph out = trace_once(family, config, use, donor, phase, left_out);
  if (left_out.empty()) return out;
  return trace_once(family, config, use, donor, phase, left_out);
}

BlockGraph trace_host_block(const BlockUse& use, const HostBlock& build, const TracePhase& phase) {
  const std::set<std::string> nothing;
  BlockGraph out;
  BlockTrace trace(out, phase, use, nullptr, nothing);
  trace.finish(build(trace, trace.carries()));
  return out;
}

}  // namespace lamina::decoder
