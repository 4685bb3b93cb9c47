#include "decoder/graph/assembler.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/round_up.h"
#include "decoder/rewrite/drop_channels.h"

namespace lamina::decoder {
namespace {

std::string layer_scope(std::int64_t layer) { return fmt::format("layers.{}.", layer); }

// concat(sin, cos) of position * 10000^(-i / (D/2 - 1)). Vaswani et al. 2017, section 3.5, with
// the halves apart.
Tensor sinusoids(Tensor x, Tensor positions) {
  std::int64_t half = x.dim(-1) / 2;
  Tensor index = ops::iota(*x.graph, {.shape = {1, 1, half}, .dtype = "f32", .dim = 2});
  Tensor frequency = ops::exp(ops::scale(
      index, -std::log(10000.0) / static_cast<double>(std::max<std::int64_t>(half - 1, 1))));
  Tensor position = ops::reshape(ops::cast(positions, DType::f32), {x.dim(0), x.dim(1), 1});
  Tensor angle = position * frequency;
  Tensor both = ops::concat({ops::sin(angle), ops::cos(angle)}, {.dim = 2});
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
    : parts_(parts), blocks_(parts, phase), stack_(parts.stack) {}

Tensor Assembler::host_input(Input role) {
  auto [at, fresh] = host_inputs_.try_emplace(role);
  if (!fresh) return at->second;
  LAMINA_ASSERT(role != Input::embedding);  // embedding() adds it
  const TracePhase& p = phase();
  if (role == Input::positions_3d && !p.positions_3d) {
    Tensor one = ops::reshape(host_input(Input::positions), {1, p.batch, p.tokens});
    return host_inputs_[role] = ops::broadcast(one, {3, p.batch, p.tokens});
  }
  at->second = graph().add_input(std::string(role_name(role)), host_input_type(role, p));
  out_.inputs.push_back({role, {}, false, {}});
  if (role == Input::compressed_tokens)
    out_.inputs.back().values.assign(parts_.engram->ids.begin(), parts_.engram->ids.end());
  return at->second;
}

Tensor Assembler::parameter(int index) {
  auto [at, fresh] = outside_.try_emplace(index);
  if (fresh) {
    const Parameter& p = parts_.parameters[index];
    at->second = graph().add_input(p.name, param_type(p.desc, p));
    out_.inputs.push_back({Input::parameter, {index}, false, {}});
  }
  return at->second;
}

// A state outside of scans is stacked, too, over one layer.
Tensor Assembler::state_input(const std::string& name, std::int64_t layer, registry::StateKind kind,
                              const Type& type, bool ring) {
  int index = static_cast<int>(out_.states.size());
  out_.states.push_back({name, layer, type, ring, kind});
  Tensor outer = graph().add_input(name, type.with(type.shape.with_leading(1)));
  out_.inputs.push_back({Input::state, {index}, true, {}});
  return ops::reshape(outer, type.shape);
}

void Assembler::state_output(Tensor state, Tensor written) {
  const Node& view = graph().node(graph().value(state.id).node);
  int input = static_cast<int>(graph().value(view.inputs[0]).index);
  std::string name = graph().inputs()[static_cast<std::size_t>(input)].name;
  add_output(std::move(name), ops::reshape(written, state.shape().with_leading(1)),
             {.role = Output::state, .input = input, .stacked = true}, input);
}

void Assembler::add_output(std::string name, Tensor value, OutputRole role, int alias) {
  graph().add_output(std::move(name), value, alias);
  out_.outputs.push_back(std::move(role));
}

void Assembler::add_output(Output role, Tensor value) {
  add_output(std::string(role_name(role)), value, {.role = role});
}

void Assembler::add_hidden(std::string name, Tensor x, std::vector<std::int64_t> layers,
                           bool stacked) {
  add_output(std::move(name), x,
             {.role = Output::hidden, .layers = std::move(layers), .stacked = stacked});
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
  Tensor x = ops::embedding(parameter(parts_.embed), tokens);
  x = without_channels(ops::scale(x, spec.scale), stream);
  if (spec.positions == registry::Positions::sinusoidal || parts_.sinusoids)
    x = x + sinusoids(x, positions);
  if (parts_.positions >= 0) x = x + ops::embedding(parameter(parts_.positions), positions);
  if (phase().training && spec.dropout > 0)
    x = ops::dropout(x, host_input(Input::seed), {}, {.rate = spec.dropout, .stream = stream});
  return x;
}

Tensor Assembler::embedding() {
  bool positions = parts_.positions >= 0 || parts_.sinusoids ||
                   parts_.options.embed.positions != registry::Positions::none;
  Tensor x = embed(host_input(Input::tokens), positions ? host_input(Input::positions) : Tensor{});
  if (phase().embedding_overrides.count > 0)
    x = with_embedding_overrides(x, host_input(Input::override_index));
  host_inputs_[Input::embedding] = x;
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
  last_carry_ = carries[0];
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

// The embedding has stream 0; entry, exit and prediction small negative ones, layers positive ones.
Tensor Assembler::for_head(Tensor normed, std::int64_t depth) {
  constexpr std::int64_t kFirstStream = -(1 << 20);
  return without_channels(normed, kFirstStream - depth);
}

Tensor Assembler::without_channels(Tensor x, std::int64_t stream) {
  const double rate = phase().options.dropout;
  if (!phase().training || rate == 0) return x;
  return drop_channels(x, [&](Tensor ones) {
    return ops::dropout(ones, host_input(Input::seed), {}, {.rate = rate, .stream = stream});
  });
}

Tensor Assembler::head_bias() {
  return parts_.head_bias >= 0 ? parameter(parts_.head_bias) : Tensor{};
}

Tensor Assembler::head(Tensor rows, Tensor weight, Tensor bias) const {
  const registry::HeadSpec& head = parts_.options.head;
  Tensor logits = ops::matmul(rows, weight, false, true, sum_dtype(rows.dtype()));
  logits = ops::scale(logits, head.logit_scale);
  if (bias) logits = logits + ops::cast(bias, logits.dtype());
  if (head.soft_cap != 0) logits = ops::soft_cap(logits, {.cap = head.soft_cap});
  return logits;
}

Tensor Assembler::logits(Tensor x) {
  return head(ops::as_rows(x), parameter(parts_.head_weight()), head_bias());
}

Assembler::Losses Assembler::losses(Tensor x, Tensor labels) {
  const registry::HeadSpec& head = parts_.options.head;
  const auto sums =
      ops::cross_entropy(ops::as_rows(x), parameter(parts_.head_weight()), labels, head_bias(),
                         {.soft_cap = head.soft_cap, .logit_scale = head.logit_scale});
  return {sums.loss, sums.z_loss, sums.uniform_loss, sums.token_loss};
}

Tensor Assembler::choices(Tensor x) {
  const auto best = [](Tensor logits) { return std::vector{ops::top_k(logits, {.k = 1}).ids}; };
  Tensor out = of_logits(x, best).front();
  return ops::reshape(out, {out.dim(0)});
}

// Computes blocks of rows, so that only the logits of one block exist at a time.
std::vector<Tensor> Assembler::of_logits(Tensor x, const LogitsUse& use) {
  constexpr std::int64_t kBlockRows = 64;
  Tensor rows = ops::as_rows(x), weight = parameter(parts_.head_weight());
  const std::int64_t count = rows.dim(0), times = divide_up(count, kBlockRows);
  if (std::int64_t missing = times * kBlockRows - count; missing > 0)
    rows = ops::pad(rows, {.dim = 0, .after = missing});
  std::vector<std::pair<std::string, Tensor>> consts{{"head", weight}};
  const Tensor bias = head_bias();
  if (bias) consts.emplace_back("head bias", bias);
  ScanBuilder scan(graph(), times, consts, {});
  Tensor block = scan.add_x("rows", ops::reshape(rows, {times, kBlockRows, rows.dim(1)}));
  Tensor logits = head(block, scan.inner_const(weight), bias ? scan.inner_const(bias) : Tensor{});
  const std::vector<Tensor> results = use(logits);
  std::vector<Tensor> out(results.size());
  for (std::size_t i = 0; i < results.size(); ++i)
    scan.add_y("of logits", results[i], [&out, i](Tensor all) { out[i] = all; });
  scan.finish([](auto body) { return body; });
  for (Tensor& all : out)
    all = ops::slice(ops::reshape(all, {times * kBlockRows, all.dim(-1)}), 0, 0, count);
  return out;
}

// ---- Layers -------------------------------------------------------------------------------------

std::vector<Tensor> Assembler::layers(std::vector<Tensor> carries,
                                      const std::vector<Tensor>& per_layer, bool hidden) {
  for (const StackSegment& segment : stack_.segments) {
    carries = engram(std::move(carries), segment);
    carries = this->segment(std::move(carries), per_layer, segment, hidden);
    layer_outputs_[segment.first_layer + segment.num_layers() - 1] = carries[0];
  }
  return carries;
}

// Uses a separate scan, so that its values are rematerialised like a layer's, and the body of the
// following layer stays equal to other layers'.
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

// Returns the values outside of a segment's body that it reads, the same for all its layers.
std::vector<std::pair<std::string, Tensor>> Assembler::consts_of(const StackSegment& segment) {
  std::vector<std::pair<std::string, Tensor>> out;
  auto add = [&](std::string name, Tensor tensor) {
    for (const auto& known : out)
      if (known.second.id == tensor.id) return;
    out.emplace_back(std::move(name), tensor);
  };
  if (has_deepstack_features(segment.first_layer)) {
    add("deepstack_features", host_input(Input::deepstack_features));
    add("deepstack_index", deepstack_index());
  }
  for (std::size_t p = 0; p < segment.unit.size(); ++p) {
    for (const BlockGraph::HostInput& input : blocks_.layer(segment, p).host_inputs)
      if (!is_per_layer(input.role))
        add(std::string(role_name(input.role)), host_input(input.role));
    if (auto donor = segment.unit[p].kv_donor) {
      add("donor k", donated_kv_.at(*donor).first);
      add("donor v", donated_kv_.at(*donor).second);
    }
    if (auto owner = segment.params_of(p))
      for (const BlockGraph::Param& param : blocks_.layer(segment, p).params)
        add(param.desc.name, shared_param(*owner, param));
  }
  return out;
}

// Makes a scan from a segment: parameters, decode state and constants of its layers are xs.
std::vector<Tensor> Assembler::segment(std::vector<Tensor> carries,
                                       const std::vector<Tensor>& per_layer,
                                       const StackSegment& segment, bool hidden) {
  std::int64_t size = static_cast<std::int64_t>(segment.unit.size());
  ScanBuilder scan(graph(), segment.times, consts_of(segment), carries);
  for (std::size_t p = 0; p < segment.unit.size(); ++p) {
    BlockPlacement place{.layers = segment.layers_at(p), .scan = &scan};
    for (std::int64_t layer : place.layers) place.scopes.push_back(layer_scope(layer));
    place.label = place.scopes[0];
    place.kv_donor = segment.unit[p].kv_donor;
    place.params_of = segment.params_of(p);
    std::vector<Tensor> elements;
    for (Tensor all : per_layer)
      elements.push_back(scan.add_x(
          "per_layer",
          every(all, segment.first_layer, size, static_cast<std::int64_t>(p), segment.times)));
    scan.carries() = run(blocks_.layer(segment, p), place, scan.carries(), elements);
    if (phase().layer_metrics) add_layer_metrics(place, scan.carries()[0]);
    if (hidden)
      collect(place, "hidden", scan.carries()[0], [this, layers = place.layers](Tensor t) {
        add_hidden(fmt::format("hidden from layer {}", layers[0]), t, layers, true);
      });
    if (has_deepstack_features(place.layers[0])) add_deepstack_features(place);
  }
  return scan.finish([this](auto body) { return shared_body(std::move(body)); });
}

// Layers that are unrolled from one segment have equal bodies. They share one object, which is
// compiled once.
std::shared_ptr<const Graph> Assembler::shared_body(std::shared_ptr<const Graph> body) {
  for (const std::shared_ptr<const Graph>& known : bodies_)
    if (same_graph(*known, *body)) return known;
  bodies_.push_back(body);
  return body;
}

}  // namespace lamina::decoder
