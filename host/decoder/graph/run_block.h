// Runs blocks at their places in a model's graph: binds the inputs of a block's graph, and collects
// its outputs other than the results. Private to decoder.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decoder/graph/aux_values.h"
#include "decoder/graph/graph_builder.h"
#include "decoder/graph/scan_builder.h"
#include "decoder/trace/block_graph.h"

namespace lamina::decoder {

// The place of a block: inside a scan over `layers`, or run once.
struct BlockPlacement {
  std::vector<std::int64_t> layers;      // one per iteration
  std::vector<std::string> scopes = {};  // of parameters and states, likewise
  std::string label = {};                // for names of the graph's inputs
  ScanBuilder* scan = nullptr;           // null: once, in the graph itself
  std::map<Input, Tensor> instead = {};  // replace inputs from the host; only without a scan
  std::optional<std::int64_t> kv_donor = {};
  std::optional<std::int64_t> params_of = {};
};

// Adds an input with a value of type `inner` for each iteration of the place. Returns it where the
// block runs.
Tensor value_input(GraphBuilder& to, const BlockPlacement& place, const std::string& name,
                   const Type& inner, InputRole role);
// Calls `use` with `value` stacked over the place's iterations, which is written over `over`.
void collect(const BlockPlacement& place, const std::string& name, Tensor value,
             std::function<void(Tensor)> use, Tensor over = {});
// Returns a parameter that layers share with layer `owner`, outside of scans.
Tensor shared_param(GraphBuilder& to, std::int64_t owner, const BlockGraph::Param& param);

class BlockRunner {
 public:
  // REQUIRES: both outlive it.
  BlockRunner(GraphBuilder& to, AuxOutputs& aux) : to_(to), aux_(aux) {}

  // Runs the block. Returns its results.
  std::vector<Tensor> run(const BlockGraph& block, const BlockPlacement& place,
                          const std::vector<Tensor>& carries,
                          const std::vector<Tensor>& per_layer = {});
  // Likewise once; parameters are named "<scope>.<name>".
  std::vector<Tensor> run_once(const BlockGraph& block, const std::string& scope,
                               std::int64_t layer, const std::vector<Tensor>& carries,
                               const std::map<Input, Tensor>& instead = {});

  // The keys and values of a layer that others read, outside of scans.
  struct Kv {
    Tensor k, v;
  };
  const Kv& donated_kv(std::int64_t layer) const { return donated_kv_.at(layer); }

 private:
  // The inputs of a block's graph.
  struct Bound {
    std::vector<Tensor> inputs;  // where the block runs
    std::vector<int> params;     // inputs of the model's graph, one per parameter
    std::vector<int> states;     // likewise
  };

  Bound bind(const BlockGraph& block, const BlockPlacement& place,
             const std::vector<Tensor>& carries, const std::vector<Tensor>& per_layer);
  void bind_params(const BlockGraph& block, const BlockPlacement& place, Bound& bound);
  Tensor param_input(const BlockPlacement& place, const BlockGraph::Param& param);
  Tensor block_state(const BlockPlacement& place, const BlockGraph::State& state);
  Tensor layer_value(const BlockGraph& block, const BlockPlacement& place,
                     const BlockGraph::HostInput& input);
  int outside_input(Tensor input);

  void collect_states(const BlockGraph& block, const BlockPlacement& place, const Bound& bound,
                      const std::vector<Tensor>& results);
  void collect_kv(const BlockGraph& block, const BlockPlacement& place,
                  const std::vector<Tensor>& results);
  void collect_aux(const BlockGraph& block, const BlockPlacement& place,
                   const std::vector<Tensor>& results);
  void add_query_keys(const BlockGraph& block, const BlockPlacement& place);
  void collect_updates(const BlockGraph& block, const BlockPlacement& place, const Bound& bound,
                       const std::vector<Tensor>& results);
  void collect_records(const BlockGraph& block, const BlockPlacement& place,
                       const std::vector<Tensor>& results);

  GraphBuilder& to_;
  AuxOutputs& aux_;
  std::map<std::int64_t, Kv> donated_kv_;  // by layer
};

}  // namespace lamina::decoder
