#include "decoder/graph/trace_block.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "decoder/rewrite/rewrites.h"
#include "decoder/state/forms.h"
#include "decoder/trace/recorder.h"
#include "graph/rewrite.h"

namespace lamina::decoder {
namespace {

// Makes outputs of the values of a recorded block. In `x + attention(..) + mlp(..)` the plugin's
// compiler chooses which is built first; the order of nodes, outputs and draws must not depend on
// it.
class Finish {
 public:
  Finish(Recording recording, const BlockContext& context)
      : recording_(std::move(recording)), block_(recording_.block), context_(context) {}

  BlockGraph run() {
    std::ranges::sort(block_.params, {}, [](const BlockGraph::Param& p) { return p.desc.name; });
    std::ranges::stable_sort(block_.host_inputs, {}, &BlockGraph::HostInput::role);
    std::ranges::sort(recording_.aux, {}, [](const Recording::Aux& aux) { return aux.desc.name; });
    std::ranges::sort(recording_.updates, {},
                      [](const Recording::Update& update) { return update.desc.param; });
    for (ValueId result : recording_.results) add("x", result);
    block_.num_results = recording_.results.size();
    for (std::size_t i = 0; i < block_.states.size(); ++i) {
      BlockGraph::State& state = block_.states[i];
      state.output = add(state.name, recording_.written[i], state.input);
    }
    if (context_.use.gives_kv) give_kv();
    for (const Recording::Aux& value : recording_.aux) {
      BlockGraph::Aux aux{value.desc, add(value.desc.name, value.value)};
      if (value.other != kNoValue) aux.other = add(value.desc.name + " other", value.other);
      block_.aux.push_back(std::move(aux));
    }
    for (const Recording::Update& update : recording_.updates) give_update(update);
    add_records();
    check_left_out();
    block_.graph = in_order_of_use();
    if (context_.phase.options.remake()) block_.graph = without_dead_nodes(block_.graph);
    return std::move(block_);
  }

 private:
  int add(const std::string& name, ValueId value, int alias = -1) {
    block_.graph.add_output(name, block_.graph.tensor(value), alias);
    return static_cast<int>(block_.graph.outputs().size()) - 1;
  }

  void give_kv() {
    const auto& donated = recording_.donated;
    if (!donated)
      throw PluginError(
          {"host",
           "another layer reads the keys and values of this one, which has no attention",
           {}});
    const Graph& graph = block_.graph;
    BlockGraph::Kv kv{
        graph.type(donated->k), graph.type(donated->v), donated->ring, donated->window, -1, -1};
    // While decoding they are the state, which is already an output.
    for (std::size_t i = 0; i < block_.states.size(); ++i) {
      if (recording_.written[i] == donated->k) kv.k_at = block_.states[i].output;
      if (recording_.written[i] == donated->v) kv.v_at = block_.states[i].output;
    }
    if (kv.k_at < 0) kv.k_at = add("donated k", donated->k);
    if (kv.v_at < 0) kv.v_at = add("donated v", donated->v);
    block_.donated_kv = kv;
  }

  void give_update(const Recording::Update& update) {
    const auto param = std::ranges::find_if(block_.params, [&](const BlockGraph::Param& p) {
      return p.desc.name == update.desc.param;
    });
    const int index = static_cast<int>(param - block_.params.begin());
    block_.updates.push_back(
        {update.desc, index, add("update of " + update.desc.param, update.value)});
  }

  // Several names of the recording may refer to one value.
  void add_records() {
    std::vector<std::pair<std::string, ValueId>> done;
    for (const auto& record : recording_.records) {
      if (std::ranges::find(done, record) != done.end()) continue;
      done.push_back(record);
      block_.records.push_back({record.first, add(record.first, record.second)});
    }
  }

  // Checks that no needed value depends on a removed parameter.
  void check_left_out() const {
    if (recording_.stand_ins.empty()) return;
    const Graph& graph = block_.graph;
    std::vector<ValueId> roots;
    for (const GraphOutput& output : graph.outputs()) roots.push_back(output.value);
    std::vector<bool> live(graph.values().size(), false);
    while (!roots.empty()) {
      const ValueId value = roots.back();
      roots.pop_back();
      if (value == kNoValue || live[value]) continue;
      live[value] = true;
      if (const NodeId node = graph.value(value).node; node != kNoNode)
        for (ValueId input : graph.node(node).inputs) roots.push_back(input);
    }
    for (ValueId stand_in : recording_.stand_ins)
      if (live[stand_in])
        throw UserError(ExitCode::usage,
                        {"model",
                         "a block reads a matrix or norm a second time that a key leaves out",
                         {"remove the keys for norms, shared values and activations"}});
  }

  // Returns the graph, with the streams of draws.
  Graph in_order_of_use() const {
    const Graph& from = block_.graph;
    std::vector<ValueId> roots;
    for (const GraphOutput& output : from.outputs()) roots.push_back(output.value);
    Graph out;
    Copier copy(from, out);
    copy.inputs();
    std::int64_t draws = 0;  // so far; stream 0 is the embedding's
    for (NodeId id : order_of_use(from, roots)) {
      Node node = from.node(id);
      if (node.op->def->facts.draws) node.set_attr("stream", stream(++draws));
      copy.node(node);
    }
    copy.outputs();
    return out;
  }

  // Streams of draws differ by the layer's place; entry and exit have negative numbers.
  std::int64_t stream(std::int64_t place) const {
    if (context_.use.kind == BlockUse::Kind::entry) return -2 * place;
    if (context_.use.kind == BlockUse::Kind::exit) return -2 * place - 1;
    return place;
  }

  Recording recording_;
  BlockGraph& block_;
  BlockContext context_;
};

// Adds the origin of the key that an error names: "run.toml:9: model.share_kv".
ErrorText with_origin(const registry::ModelConfig& config, ErrorText text) {
  constexpr std::string_view kModel = "model.";
  if (!text.where.starts_with(kModel)) return text;
  if (const config::Entry* entry = config.values().find(text.where.substr(kModel.size())))
    text.where = fmt::format("{}: {}", entry->origin.text, text.where);
  return text;
}

}  // namespace

BlockGraph trace_block(const registry::Family& family, const registry::ModelConfig& config,
                       const BlockUse& use, const BlockGraph::Kv* donor, const TracePhase& phase) {
  const BlockContext context{phase, use};
  Recording recording = record_block(family, config, context, donor);
  recording.block.has = block_parts(recording);
  const auto apply_all = [&](auto Rewrite::*change) {
    for (const Rewrite* rewrite : rewrites())
      if (rewrite->*change && rewrite->wanted(phase)) (rewrite->*change)(recording, context);
  };
  try {
    apply_all(&Rewrite::apply);
    apply_forms(recording, context);
    apply_all(&Rewrite::apply_to_forms);
  } catch (const UserError& refused) {
    throw UserError(refused.code(), with_origin(config, refused.text()));
  }
  return Finish(std::move(recording), context).run();
}

BlockGraph trace_host_block(const BlockUse& use, const HostBlock& build, const TracePhase& phase) {
  const BlockContext context{phase, use};
  Recording recording = record_host_block(context, build);
  apply_forms(recording, context);
  return Finish(std::move(recording), context).run();
}

}  // namespace lamina::decoder
