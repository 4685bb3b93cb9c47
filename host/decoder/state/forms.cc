#include "decoder/state/forms.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "decoder/roles/roles.h"
#include "decoder/state/custom_call.h"
#include "decoder/state/time_region.h"
#include "decoder/trace/form_probe.h"
#include "formats/row_formats.h"
#include "ops/decode.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

class Forms final : private ops::DecodeContext {
 public:
  Forms(Recording& recording, const BlockContext& context)
      : recording_(recording),
        from_(recording.graph()),
        context_(context),
        phase_(context.phase),
        copy_(from_, out_.graph) {}

  void run() {
    add_inputs();
    std::size_t next = 0;
    const auto pass = [&](NodeId node) {
      const auto& boundaries = recording_.boundaries;
      for (; next < boundaries.size() && boundaries[next].before <= node; ++next)
        boundaries[next].ends ? end(recording_.scopes[boundaries[next].scope])
                              : begin(recording_.scopes[boundaries[next].scope]);
    };
    for (NodeId id = 0; id < from_.nodes().size(); ++id) {
      pass(id);
      add(id);
    }
    pass(static_cast<NodeId>(from_.nodes().size()));
    take_over();
    drop_bodies();
  }

 private:
  // Results of scopes now come from nodes, and removed inputs have no place.
  void add_inputs() {
    std::vector<int> moved;  // by old index
    for (const GraphInput& input : from_.inputs()) {
      const registry::ParamDesc* param = recording_.param(input.value);
      moved.push_back(-1);
      if (param && recording_.left_out.contains(param->name)) {
        copy_.set(input.value, ops::constant(out_.graph, from_.type(input.value), 0));
        recording_.stand_ins.push_back(input.value);
      } else if (!is_result_of_scope(input.value)) {
        copy_.set(input.value, out_.graph.add_input(input.name, from_.type(input.value)));
        out_.graph.set_axes(copy_.get(input.value).id, from_.type(input.value).axes);
        moved.back() = static_cast<int>(out_.graph.inputs().size()) - 1;
      }
    }
    const auto now = [&](int input) { return moved[static_cast<std::size_t>(input)]; };
    for (const BlockGraph::Param& param : recording_.block.params)
      if (now(param.input) >= 0) out_.params.push_back({param.desc, now(param.input)});
    for (const BlockGraph::HostInput& input : recording_.block.host_inputs)
      out_.host_inputs.push_back({input.role, now(input.input), input.values});
    out_.taken_kv = recording_.block.taken_kv;
    if (!out_.taken_kv) return;
    for (int* at : {&out_.taken_kv->k_at, &out_.taken_kv->v_at}) *at = now(*at);
    donor_ = {input_at(out_.taken_kv->k_at), input_at(out_.taken_kv->v_at), out_.taken_kv->ring,
              out_.taken_kv->window};
  }

  Tensor input_at(int index) {
    return out_.graph.tensor(out_.graph.inputs()[static_cast<std::size_t>(index)].value);
  }

  bool is_result_of_scope(ValueId value) const {
    return std::ranges::any_of(recording_.scopes, [&](const Recording::Scope& scope) {
      return std::ranges::find(scope.outside, value) != scope.outside.end();
    });
  }

  void add(NodeId id) {
    const Node& node = from_.node(id);
    if (!node.outputs.empty() && copy_.has(node.outputs[0])) return;  // a stand-in of a scope
    out_.graph.set_origin(node.origin);
    if (const auto at = recording_.mixing.find(id); at != recording_.mixing.end())
      return set_all(outputs_of(node), form_of(node, at->second));
    if (node.op->def->facts.draws && lacks_seed(node))
      return set_all(outputs_of(node), drawn(node));
    copy_.node(node);
  }

  static std::span<const ValueId> outputs_of(const Node& node) {
    return {node.outputs.begin(), node.outputs.end()};
  }

  // Plugins may have annotated the axes of their values.
  void set_all(std::span<const ValueId> old, const std::vector<Tensor>& now) {
    for (std::size_t i = 0; i < old.size(); ++i) {
      copy_.set(old[i], now[i]);
      const auto& axes = from_.type(old[i]).axes;
      if (std::ranges::any_of(axes, [](AxisId axis) { return axis != AxisId{}; }))
        out_.graph.set_axes(now[i].id, axes);
    }
  }

  // Returns the attributes with an effect; a form may add others, which only the host knows.
  static registry::NamedAttrs attrs_of(const Node& node) {
    registry::NamedAttrs out;
    for (std::size_t i = 0; i < node.attrs.size(); ++i)
      if (const OpAttr& attr = node.op->attrs[i];
          attr.required || !same_attr(node.attrs[i], attr.fallback))
        out.emplace_back(attr.name, node.attrs[i]);
    return out;
  }

  std::vector<Tensor> form_of(const Node& node, const std::optional<registry::StateDesc>& state) {
    return ops::trace_op(
        {*node.op, copy_.operands(node), attrs_of(node), state ? &*state : nullptr, *this});
  }

  static bool lacks_seed(const Node& node) {
    return node.inputs[node.op->num_plugin_inputs] == kNoValue;
  }

  // Returns draws: in training with the seed and the layer, if any, as inputs; otherwise their
  // mean.
  std::vector<Tensor> drawn(const Node& node) {
    std::vector<Tensor> inputs = copy_.operands(node);
    inputs.resize(node.op->num_plugin_inputs);
    if (phase_.training) {
      inputs.push_back(input(Input::seed));
      inputs.push_back(context_.is_layer() ? input(Input::layer_index) : Tensor{});
      return out_.graph.add_node(*node.op, inputs, attrs_of(node));
    }
    if (!inputs.empty()) return inputs;
    return {ops::constant(out_.graph, from_.type(node.outputs[0]), 0.5)};
  }

  void begin(const Recording::Scope& scope) {
    std::vector<Tensor> inputs, stand_ins;
    for (ValueId value : scope.inputs) inputs.push_back(copy_.get(value));
    if (scope.is_region()) {
      region_.emplace(static_cast<ops::DecodeContext&>(*this), scope.carries, std::move(inputs),
                      sum_dtype(phase_.dtype), phase_.batch, phase_.tokens);
      stand_ins = region_->stand_ins();
    } else {
      declare(scope.first_state);
      custom_.emplace(
          TracedSoFar{*this, out_, declared_, written_, donated_, context_.use.gives_kv}, inputs);
      stand_ins = custom_->stand_ins();
    }
    for (std::size_t i = 0; i < stand_ins.size(); ++i)
      if (stand_ins[i]) copy_.set(scope.stand_ins[i], stand_ins[i]);
  }

  void end(const Recording::Scope& scope) {
    std::vector<Tensor> last, results;
    for (ValueId value : scope.last) last.push_back(copy_.get(value));
    const std::span all(last);
    if (scope.is_region()) {
      const std::size_t count = scope.carries.size();
      results = region_->end(all.first(count), all.subspan(count));
      bodies_.push_back(region_->nodes());
      region_.reset();
    } else {
      declare(scope.end_state);
      results = custom_->end(*scope.op, scope.attrs, all);
      bodies_.push_back(custom_->nodes());
      custom_.reset();
    }
    set_all(scope.outside, results);
  }

  // Declares the states of the block at a place.
  void declare(std::size_t count) {
    const auto& all = recording_.states;
    declared_.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
  }

  // Makes the new graph the recording's graph.
  void take_over() {
    recording_.boundaries.clear();
    recording_.mixing.clear();
    recording_.scopes.clear();
    BlockGraph& block = recording_.block;
    block.params = std::move(out_.params);
    block.host_inputs = std::move(out_.host_inputs);
    block.states = std::move(out_.states);
    block.taken_kv = out_.taken_kv;
    recording_.replace_graph(std::move(out_.graph), copy_);
    for (std::size_t i = 0; i < written_.size(); ++i) {
      if (!written_[i])
        throw PluginError(
            {"host", fmt::format("state '{}' is never written", block.states[i].name), {}});
      recording_.written.push_back(written_[i].id);
    }
    if (donated_)
      recording_.donated = {donated_->k.id, donated_->v.id, donated_->ring, donated_->window};
  }

  // Removes nodes that are now in the bodies of regions and of custom ops.
  void drop_bodies() {
    if (bodies_.empty()) return;
    const Graph& whole = recording_.graph();
    Graph out;
    Copier copy(whole, out);
    copy.inputs();
    for (NodeId id = 0; id < whole.nodes().size(); ++id)
      if (std::ranges::none_of(bodies_, [&](NodeRange r) { return id >= r.first && id < r.end; }))
        copy.node(whole.node(id));
    recording_.replace_graph(std::move(out), copy);
  }

  // ops::DecodeContext.
  Graph& graph() override { return out_.graph; }
  bool stateful() const override { return phase_.stateful; }
  std::int64_t capacity() const override { return phase_.capacity; }
  std::int64_t max_call_tokens() const override { return phase_.max_call_tokens; }
  bool segments() const override { return phase_.segments; }
  const formats::BlockFormat* row_storage(std::int64_t width) const override {
    const auto& numbers = phase_.options.kv_numbers;
    return numbers ? formats::row_format(*numbers, width) : nullptr;
  }
  Tensor input(Input role) { return decoder::host_input(out_, role, context_); }
  Tensor host_input(ops::HostInput which) override { return input(role_of(which)); }
  Tensor state_input(const std::string& name, registry::StateKind kind, const Type& type,
                     bool ring) override {
    if (std::ranges::find(out_.states, name, &BlockGraph::State::name) != out_.states.end())
      throw PluginError({"host", fmt::format("state '{}' is used by two ops", name), {}});
    const Type kept = type;  // a copy: `type` may be in a value, and values move when one is added
    const Tensor state = out_.graph.add_input(name, kept);
    out_.states.push_back({name, kind, kept, ring, index_of(state), -1});
    written_.emplace_back();
    return state;
  }
  void state_output(Tensor state, Tensor written) override {
    for (std::size_t i = 0; i < out_.states.size(); ++i)
      if (out_.states[i].input == index_of(state)) written_[i] = written;
  }
  const std::optional<ops::KeysAndValues>& donor() const override { return donor_; }
  void donate(const ops::KeysAndValues& kv) override { donated_ = kv; }

  Recording& recording_;
  const Graph& from_;
  const BlockContext context_;
  const TracePhase& phase_;
  BlockGraph out_;
  Copier copy_;
  std::vector<registry::StateDesc> declared_;
  std::vector<Tensor> written_;  // one per state of out_
  std::optional<ops::KeysAndValues> donor_, donated_;
  std::optional<TimeRegion> region_;
  std::optional<CustomCall> custom_;
  std::vector<NodeRange> bodies_;
};

}  // namespace

void apply_forms(Recording& recording, const BlockContext& context) {
  Forms(recording, context).run();
}

}  // namespace lamina::decoder
