#include "decoder/block_graph.h"

#include <algorithm>

#include "core/error.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

// Inputs of attention beyond q, k, v and sinks are the host's: see ops.def.
enum AttentionInput {
  kQ,
  kK,
  kV,
  kPositions,
  kKeyPositions,
  kSegments,
  kKeySegments,
  kSinks,
  kStart
};
constexpr std::size_t kAttentionInputs = 11;

class BlockTrace final : public registry::Trace {
 public:
  BlockTrace(BlockGraph& out, const TracePhase& phase, std::int64_t hidden_size)
      : Trace(out.graph), out_(out), phase_(phase) {
    x_ = out.graph.add_input("x", {phase.dtype, {phase.batch, phase.tokens, hidden_size}, {}});
  }

  Tensor x() const { return x_; }

 protected:
  Tensor make_param(const registry::ParamDesc& desc) override {
    Parameter parameter{desc.name, 0, 0, desc};
    Type type{parameter.used_dtype(phase_.dtype), desc.shape, {}};
    Tensor input = add_input(desc.name, type);
    graph().set_axes(input.id, desc.axes);
    out_.params.push_back({desc, index_of(input)});
    return input;
  }

  void make_state(const registry::StateDesc& state, int index) override {
    LAMINA_ASSERT(index == static_cast<int>(states_.size()));
    states_.push_back(state);
  }

  Tensor make_input(registry::InputKind kind) override {
    switch (kind) {
      case registry::InputKind::positions:
        return host_input(Role::positions);
      case registry::InputKind::token_ids:
        return host_input(Role::tokens);
      case registry::InputKind::segment_ids:
        return host_input(Role::segments);
      case registry::InputKind::layer_index:
        return host_input(Role::layer_index);
      case registry::InputKind::seed:
        return host_input(Role::seed);
      case registry::InputKind::embedding:
      case registry::InputKind::positions_3d:
        break;
    }
    unsupported("the embedding as an input of a block");
  }

  Tensor make_layer_constant(const std::string& name, const std::vector<double>& values) override {
    Tensor input = add_input(name, {phase_.dtype, {}, {}});
    out_.host_inputs.push_back({Role::layer_constant, index_of(input), values});
    return input;
  }

  std::vector<Tensor> add_op(const Op& op, std::span<const Tensor> inputs,
                             const registry::NamedAttrs& attrs, std::optional<int> state) override {
    if (op.name == "attention") return attention(op, inputs, attrs, state);
    if (state) unsupported(fmt::format("decode state of op '{}'", op.name));
    if (op.name == "dropout") return dropout(op, inputs, attrs);
    if (op.name == "rope") note_length_dependence(attrs);
    return graph().add_node(op, inputs, attrs);
  }

  void sow(const registry::SowDesc& sow) override {
    unsupported(fmt::format("the {} '{}' of a block",
                            sow.kind == registry::SowDesc::Kind::loss ? "loss" : "metric",
                            sow.name));
  }
  void update(const registry::UpdateDesc& update) override {
    unsupported(fmt::format("the update of '{}' outside the gradient", update.param));
  }

 private:
  [[noreturn]] static void unsupported(std::string what) {
    throw PluginError({"host", what + " is not supported by this version of lamina", {}});
  }

  static int index_of(Tensor input) { return static_cast<int>(input.graph->value(input.id).index); }

  Tensor add_input(std::string name, Type type) { return graph().add_input(std::move(name), type); }

  Tensor host_input(Role role) {
    for (const BlockGraph::HostInput& known : out_.host_inputs)
      if (known.role == role)
        return graph().tensor(graph().inputs()[static_cast<std::size_t>(known.input)].value);
    Type type{DType::i32, {phase_.batch, phase_.tokens}, {}};
    if (role == Role::layer_index) type.shape = {};
    if (role == Role::seed) type = {DType::i64, {2}, {}};
    if (role == Role::start) type.shape = {phase_.batch};
    constexpr const char* kNames[] = {"tokens", "positions", "segments", "labels", "",
                                      "",       "seed",      "start",    "rows",   "layer_index"};
    Tensor input = add_input(kNames[static_cast<int>(role)], type);
    out_.host_inputs.push_back({role, index_of(input), {}});
    return input;
  }

  static std::int64_t int_attr(const registry::NamedAttrs& attrs, std::string_view name) {
    for (const auto& [key, value] : attrs)
      if (key == name) return std::get<std::int64_t>(value);
    return 0;
  }

  // The same call in every phase: without state it sees the tokens of this call, with it all that
  // the state holds.
  std::vector<Tensor> attention(const Op& op, std::span<const Tensor> given,
                                const registry::NamedAttrs& attrs, std::optional<int> state) {
    std::vector<Tensor> inputs(kAttentionInputs);
    std::copy_n(given.begin(), std::min(given.size(), inputs.size()), inputs.begin());
    for (int i : {kPositions, kKeyPositions, kSegments, kKeySegments, kStart})
      if (inputs[static_cast<std::size_t>(i)])
        throw PluginError({"attention",
                           fmt::format("input '{}' is the host's; leave it out",
                                       op.inputs[static_cast<std::size_t>(i)].name),
                           {}});
    if (!phase_.stateful) {
      if (phase_.segments) inputs[kSegments] = inputs[kKeySegments] = host_input(Role::segments);
      // Chunks are cut by position in the document; windows and order follow from the row.
      if (int_attr(attrs, "chunk") > 0)
        inputs[kPositions] = inputs[kKeyPositions] = host_input(Role::positions);
      return graph().add_node(op, inputs, attrs);
    }
    if (!state)
      throw PluginError({"attention", "has no decode state, so this block cannot decode", {}});
    const registry::StateDesc& desc = states_[static_cast<std::size_t>(*state)];
    if (desc.kind != registry::StateKind::kv) unsupported("attention over a state that is not kv");
    bool ring = false;
    Tensor start = host_input(Role::start);
    inputs[kK] = write(desc, "k", inputs[kK], start, &ring);
    inputs[kV] = write(desc, "v", inputs[kV], start, &ring);
    inputs[kStart] = start;
    registry::NamedAttrs with_ring = attrs;
    with_ring.emplace_back("ring", std::int64_t{ring});
    return graph().add_node(op, inputs, with_ring);
  }

  // Appends this call's keys (or values) to the state; a windowed state keeps just the tokens that
  // the oldest query of a call still sees.
  Tensor write(const registry::StateDesc& desc, const char* part, Tensor update, Tensor start,
               bool* ring) {
    std::int64_t slots = phase_.capacity;
    if (desc.window > 0) slots = std::min(slots, desc.window + phase_.max_call_tokens - 1);
    *ring = slots < phase_.capacity;
    Shape shape = update.shape();
    shape[1] = slots;
    std::string name = desc.name + "." + part;
    Tensor cache = add_input(name, {desc.dtype.value_or(update.dtype()), shape, {}});
    Tensor written = ops::call("cache_write", {cache, ops::cast(update, cache.dtype()), start},
                               {{"ring", std::int64_t{*ring}}});
    int output = static_cast<int>(1 + pending_outputs_.size());
    pending_outputs_.push_back({name, written, index_of(cache)});
    out_.states.push_back({name, cache.type(), *ring, index_of(cache), output});
    return ops::cast(written, update.dtype());
  }

  std::vector<Tensor> dropout(const Op& op, std::span<const Tensor> given,
                              const registry::NamedAttrs& attrs) {
    if (!phase_.training) return {given[0]};
    std::vector<Tensor> inputs{given[0], host_input(Role::seed), host_input(Role::layer_index)};
    // Draws of one layer differ by their place in it.
    registry::NamedAttrs with_stream = attrs;
    std::erase_if(with_stream, [](const auto& attr) { return attr.first == "stream"; });
    with_stream.emplace_back("stream", next_stream_++);
    return graph().add_node(op, inputs, with_stream);
  }

  void note_length_dependence(const registry::NamedAttrs& attrs) {
    for (const auto& [key, value] : attrs)
      if (key == "scaling" && std::get<std::string>(value) == "dynamic")
        out_.length_dependent_from = int_attr(attrs, "max_positions");
  }

  struct Pending {
    std::string name;
    Tensor value;
    int over;
  };

  BlockGraph& out_;
  const TracePhase& phase_;
  Tensor x_;
  std::vector<registry::StateDesc> states_;
  std::vector<Pending> pending_outputs_;
  std::int64_t next_stream_ = 1;  // 0 is the embedding's

  friend BlockGraph lamina::decoder::trace_block(const registry::Family&,
                                                 const registry::ModelConfig&,
                                                 const registry::PositionSpec&, const TracePhase&);
};

}  // namespace

BlockGraph trace_block(const registry::Family& family, const registry::ModelConfig& config,
                       const registry::PositionSpec& position, const TracePhase& phase) {
  BlockGraph out;
  BlockTrace trace(out, phase, config.hidden_size());
  registry::BlockResult result =
      registry::build_block(family, family.block(position.block), config, trace,
                            {{trace.x()},
                             position.overrides,
                             phase.stateful   ? "decoding"
                             : phase.training ? "training"
                                              : "forward"});
  out.graph.add_output("x", result.carries[0]);
  for (const BlockTrace::Pending& output : trace.pending_outputs_)
    out.graph.add_output(output.name, output.value, output.over);
  return out;
}

}  // namespace lamina::decoder
