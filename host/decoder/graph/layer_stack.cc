#include "decoder/graph/layer_stack.h"

#include "core/error.h"

namespace lamina::decoder {
namespace {

std::string layer_scope(std::int64_t layer) { return fmt::format("layers.{}.", layer); }

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

LayerStack::LayerStack(GraphBuilder& to, BlockCache& blocks, BlockRunner& runner, AuxOutputs& aux,
                       StackPlan plan)
    : to_(to),
      blocks_(blocks),
      runner_(runner),
      aux_(aux),
      plan_(std::move(plan)),
      deepstack_(to) {}

Tensor LayerStack::run(Tensor embedding, bool hidden) {
  const registry::EmbedSpec& embed = to_.parts().options.embed;
  std::vector<Tensor> carries{embedding}, per_layer;
  if (embed.entry) {
    carries = runner_.run_once(blocks_.entry(), "entry.", -1, carries);
    per_layer.assign(carries.begin() + static_cast<std::ptrdiff_t>(embed.num_carries),
                     carries.end());
    carries.resize(embed.num_carries);
  }
  if (hidden) to_.add_hidden("hidden.embed", carries[0], {-1}, false);
  for (const StackSegment& segment : plan_.segments) {
    carries = engram(std::move(carries), segment.first_layer);
    carries = this->segment(std::move(carries), per_layer, segment, hidden);
    outputs_[segment.first_layer + segment.num_layers() - 1] = carries[0];
  }
  last_carry_ = carries[0];
  if (to_.parts().options.head.exit)
    carries = runner_.run_once(blocks_.exit(), "exit.", -1, carries);
  const Type activations = to_.phase().activations();
  if (carries[0].type() != activations)
    throw PluginError({"head",
                       fmt::format("carry 0 leaves the layers as {}; without an exit block it "
                                   "must be {}",
                                   to_string(carries[0].type()), to_string(activations)),
                       {}});
  return carries[0];
}

// Uses a separate scan, so that its values are rematerialised like a layer's, and the body of the
// following layer stays equal to other layers'.
std::vector<Tensor> LayerStack::engram(std::vector<Tensor> carries, std::int64_t layer) {
  const ModelParts& parts = to_.parts();
  if (!parts.engram || !parts.engram->find(layer)) return carries;
  const BlockGraph& block = blocks_.engram(layer);
  std::vector<std::pair<std::string, Tensor>> consts;
  for (const BlockGraph::HostInput& input : block.host_inputs)
    consts.emplace_back(std::string(role_name(input.role)), to_.host_input(input.role));
  ScanBuilder scan(to_.graph(), 1, consts, carries);
  const std::string scope = layer_scope(layer);
  scan.carries() = runner_.run(
      block, {.layers = {layer}, .scopes = {scope}, .label = scope, .scan = &scan}, scan.carries());
  return scan.finish([this](auto body) { return to_.shared_body(std::move(body)); });
}

// Returns the values outside of a segment's body that it reads, the same for all its layers.
std::vector<std::pair<std::string, Tensor>> LayerStack::consts_of(const StackSegment& segment) {
  std::vector<std::pair<std::string, Tensor>> out;
  auto add = [&](std::string name, Tensor tensor) {
    for (const auto& known : out)
      if (known.second.id == tensor.id) return;
    out.emplace_back(std::move(name), tensor);
  };
  if (deepstack_.at(segment.first_layer))
    for (auto& [name, tensor] : deepstack_.consts()) add(std::move(name), tensor);
  for (std::size_t p = 0; p < segment.unit.size(); ++p) {
    for (const BlockGraph::HostInput& input : blocks_.layer(segment, p).host_inputs)
      if (!is_per_layer(input.role))
        add(std::string(role_name(input.role)), to_.host_input(input.role));
    if (auto donor = segment.unit[p].kv_donor) {
      add("donor k", runner_.donated_kv(*donor).k);
      add("donor v", runner_.donated_kv(*donor).v);
    }
    if (auto owner = segment.params_of(p))
      for (const BlockGraph::Param& param : blocks_.layer(segment, p).params)
        if (!param.desc.unshared) add(param.desc.name, shared_param(to_, *owner, param));
  }
  return out;
}

// Makes a scan from a segment: parameters, decode state and constants of its layers are xs.
std::vector<Tensor> LayerStack::segment(std::vector<Tensor> carries,
                                        const std::vector<Tensor>& per_layer,
                                        const StackSegment& segment, bool hidden) {
  std::int64_t size = static_cast<std::int64_t>(segment.unit.size());
  ScanBuilder scan(to_.graph(), segment.times, consts_of(segment), carries);
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
    scan.carries() = runner_.run(blocks_.layer(segment, p), place, scan.carries(), elements);
    if (to_.phase().layer_metrics) add_layer_metrics(place, scan.carries()[0]);
    if (hidden)
      collect(place, "hidden", scan.carries()[0], [this, layers = place.layers](Tensor t) {
        to_.add_hidden(fmt::format("hidden from layer {}", layers[0]), t, layers, true);
      });
    if (deepstack_.at(place.layers[0])) deepstack_.add(place);
  }
  return scan.finish([this](auto body) { return to_.shared_body(std::move(body)); });
}

void LayerStack::add_layer_metrics(const BlockPlacement& place, Tensor output) {
  for (const LayerMetric& metric : layer_metrics(output)) {
    registry::AuxDesc desc;
    desc.kind = registry::AuxDesc::Kind::metric;
    desc.name = metric.name;
    desc.reduce = Reduce::mean;
    const std::size_t index = aux_.add({std::move(desc), place.layers});
    collect(place, metric.name, metric.value, [this, index](Tensor t) { aux_[index].value = t; });
  }
}

}  // namespace lamina::decoder
