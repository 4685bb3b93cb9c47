#include "decoder/graph/block_cache.h"

#include <algorithm>

#include "core/error.h"
#include "decoder/engram/engram_block.h"
#include "decoder/graph/trace_block.h"

namespace lamina::decoder {

BlockCache::BlockCache(const ModelParts& parts, TracePhase phase)
    : parts_(parts), phase_(std::move(phase)) {
  phase_.hidden_size = parts.config.hidden_size();
  phase_.num_layers = parts.config.num_layers();
  phase_.adapter = parts.adapter ? &*parts.adapter : nullptr;
  phase_.options = parts.block_options;
  phase_.bidirectional = parts.options.head.bidirectional;
  if (parts.engram) phase_.num_token_ids = std::ssize(parts.engram->ids);
  const registry::EmbedSpec& embed = parts.options.embed;
  if (!embed.entry) {
    phase_.carries = {phase_.activations()};
    tokens_.carries = {tokens_of_activations(phase_)};
    return;
  }
  const Graph& graph = entry().graph;
  for (std::size_t i = 0; i < embed.num_carries + embed.num_per_layer; ++i) {
    const Type& type = graph.type(graph.outputs()[i].value);
    if (i < embed.num_carries) {
      phase_.carries.push_back(type);
      continue;
    }
    if (type.ndim() == 0 || type.dim(0) != phase_.num_layers)
      throw PluginError(
          {"entry block",
           fmt::format("carry_out[{}] is {}; tensors for each layer have a first dim of {}", i,
                       to_string(type), phase_.num_layers),
           {}});
    phase_.per_layer.push_back(type.with(type.shape.without_leading()));
  }
}

const BlockGraph& BlockCache::layer(const StackSegment& segment, std::size_t position) {
  const registry::PositionSpec& spec = segment.unit[position];
  return get({.block = spec.block,
              .overrides = spec.overrides,
              .kv_donor = spec.kv_donor,
              .gives_kv = segment.gives_kv});
}

const BlockGraph& BlockCache::engram(std::int64_t layer) {
  return get({.kind = BlockUse::Kind::engram, .layer = layer});
}

const BlockGraph& BlockCache::entry() {
  const registry::EmbedSpec& embed = parts_.options.embed;
  return get({.kind = BlockUse::Kind::entry,
              .block = embed.entry,
              .num_results = embed.num_carries + embed.num_per_layer});
}

const BlockGraph& BlockCache::exit() {
  return get({.kind = BlockUse::Kind::exit, .block = parts_.options.head.exit});
}

const BlockGraph& BlockCache::mtp() {
  const registry::MtpSpec& mtp = parts_.options.mtp;
  return get({.kind = BlockUse::Kind::mtp,
              .block = mtp.block,
              .overrides = mtp.overrides,
              .carries = mtp.carries});
}

const BlockGraph& BlockCache::get(const BlockUse& use) {
  for (const auto& [known, graph] : traced_)
    if (known == use) return *graph;
  if (use.kind == BlockUse::Kind::engram) {
    const Engram& engram = *parts_.engram;
    HostBlock build = engram_block(engram, *engram.find(use.layer), phase_.hidden_size);
    auto graph = std::make_unique<BlockGraph>(trace_host_block(use, build, phase_));
    traced_.emplace_back(use, std::move(graph));
    return *traced_.back().second;
  }
  const BlockGraph::Kv* donor = nullptr;
  if (use.kv_donor) {
    auto [segment, position] = parts_.stack.find(*use.kv_donor);
    donor = &*layer(parts_.stack.segments[segment], position).donated_kv;
  }
  auto graph =
      std::make_unique<BlockGraph>(trace_block(*parts_.family, parts_.config, use, donor, phase_));
  const auto declared = std::ranges::find(parts_.declared, use, &BlockDeclaration::use);
  if (declared != parts_.declared.end()) check_declaration(*declared, *graph, *parts_.family);
  check_tokens_apart(use, *graph);
  traced_.emplace_back(use, std::move(graph));
  return *traced_.back().second;
}

std::vector<BlockDeclaration> BlockCache::declarations() const {
  std::vector<BlockDeclaration> out;
  for (const auto& [use, graph] : traced_)
    if (use.kind != BlockUse::Kind::engram) out.push_back(declaration_of(use, *graph));
  return out;
}

void BlockCache::trace_all(const std::vector<BlockDeclaration>& blocks) {
  for (const BlockDeclaration& block : blocks) get(block.use);
}

// The plugin must not depend on training, on decode state or on several documents per row: its
// build for a call of this size is always the same.
void BlockCache::check_tokens_apart(const BlockUse& use, const BlockGraph& graph) {
  if (phase_.batch * phase_.tokens == 1) return;
  if (phase_.stateful || phase_.segments || phase_.training) {
    TracePhase phase = phase_;
    phase.stateful = phase.segments = phase.training = phase.max_logits = false;
    phase.carries.clear();
    phase.per_layer.clear();
    if (!plain_) plain_ = std::make_unique<BlockCache>(parts_, std::move(phase));
    plain_->get(use);
    return;
  }
  std::vector<ops::Extents> results =
      decoder::check_tokens_apart(use, graph, phase_, tokens_, *parts_.family);
  if (use.kind != BlockUse::Kind::entry) return;
  const auto per_layer = results.begin() + static_cast<std::ptrdiff_t>(use.num_results) -
                         static_cast<std::ptrdiff_t>(parts_.options.embed.num_per_layer);
  tokens_.carries.assign(results.begin(), per_layer);
  for (auto of = per_layer; of != results.end(); ++of) {
    if (!of->empty()) of->erase(of->begin());
    tokens_.per_layer.push_back(std::move(*of));
  }
}

void BlockCache::check_repeated(const BlockCache& first) {
  for (const auto& [use, graph] : first.traced_)
    if (use.kind != BlockUse::Kind::engram)
      check_repeated_trace(use, *graph, get(use), *parts_.family);
}

}  // namespace lamina::decoder
