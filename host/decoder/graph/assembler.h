// Builds the graph of a whole model from the graphs of its blocks. Private to decoder.
//
//   Assembler a(parts, phase);
//   Tensor logits = a.logits(a.final_norm(a.stack(a.embedding(), false)));
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decoder/graph/block_cache.h"
#include "decoder/graph/scan_builder.h"
#include "decoder/roles/roles.h"
#include "ops/tensor.h"

namespace lamina::decoder {

// An auxiliary loss or metric, stacked over the layers that have it: its first dim runs over
// `layers`.
struct AuxValue {
  registry::AuxDesc desc;
  std::vector<std::int64_t> layers;
  Tensor value, other;
};

class Assembler {
 public:
  Assembler(const ModelParts& parts, const TracePhase& phase);

  ModelGraph& out() { return out_; }
  Graph& graph() { return out_.graph; }
  const TracePhase& phase() const { return blocks_.phase(); }
  const ModelParts& parts() const { return parts_; }

  // Inputs of the graph, each added on first use.
  Tensor host_input(Input role);
  Tensor parameter(int index);  // outside the scans
  // A tensor of decode state [B, ...], and the value written over it.
  Tensor state_input(const std::string& name, std::int64_t layer, registry::StateKind kind,
                     const Type& type, bool ring = false);
  void state_output(Tensor state, Tensor written);
  void add_output(std::string name, Tensor value, OutputRole role, int alias = -1);
  // Adds an output without members, under the role's name.
  void add_output(Output role, Tensor value);

  // Returns rows of the table for tokens i32[B, T], with positions and dropout; `stream` separates
  // draws.
  Tensor embed(Tensor tokens, Tensor positions, std::int64_t stream = 0);
  // Returns the embedding of the call's tokens.
  Tensor embedding();
  // Runs all layers, from the embedding to the input of the final norm. With `hidden`, the input
  // and the output of each layer become outputs.
  Tensor stack(Tensor embedding, bool hidden);
  // Returns carry 0 after the last layer, before the exit block. REQUIRES: stack() was called.
  Tensor last_carry() const { return last_carry_; }
  Tensor final_norm(Tensor x);
  // Returns the head's input from the output of the final norm; training may drop channels. `depth`
  // is 0 for the model, 1 and up for multi-token prediction.
  Tensor for_head(Tensor normed, std::int64_t depth = 0);
  // Returns the logits of x[..., D], f32[rows, V].
  Tensor logits(Tensor x);
  // Results of ops::cross_entropy over rows of x[..., D]: its sums, and token_losses[rows].
  struct Losses {
    Tensor loss, z_loss, uniform_loss, token_losses;
  };
  Losses losses(Tensor x, Tensor labels);
  // Returns i32[rows]: the token with the largest logit, the lowest of equal ones. The whole logits
  // are never stored.
  Tensor choices(Tensor x);

  // In teacher.cc, for phase().teacher. Selects this model's layer of each compared pair; scans end
  // after them. REQUIRES: stack() was not called yet.
  void compare_layers(std::optional<std::int64_t> config::LayerPair::*side);
  // Adds the outputs of a teacher: log-probabilities of all tokens, or of the likeliest with their
  // ids; and the outputs of the compared layers.
  void add_teacher_outputs(Tensor x);
  // Returns the sum over counted labels of KL(teacher || model), both at the temperature. With only
  // the likeliest tokens, all others are one more outcome.
  Tensor divergence(Tensor x, Tensor labels);
  // Returns the sum over counted labels of the distance between the outputs of the compared layers
  // and the teacher's. REQUIRES: there are such layers.
  Tensor hidden_distance(Tensor labels);

  // In embedding_overrides.cc: returns x[B, T, D] with override row index[b, t] where the index is
  // not -1.
  Tensor with_embedding_overrides(Tensor x, Tensor index);

  // Returns the results of a block that runs once; parameters are named "<scope>.<name>".
  std::vector<Tensor> run_once(const BlockGraph& block, const std::string& scope,
                               std::int64_t layer, const std::vector<Tensor>& carries,
                               const std::vector<Tensor>& per_layer = {},
                               const std::map<Input, Tensor>& instead = {});
  BlockCache& blocks() { return blocks_; }

  // Makes outputs of the auxiliary losses and metrics collected so far. Returns the sum of the
  // losses times their weights, []; null if there is none.
  Tensor add_aux_outputs();

 private:
  // The place of a block: inside a scan over `layers`, or run once.
  struct BlockPlacement {
    std::vector<std::int64_t> layers;      // one per iteration
    std::vector<std::string> scopes = {};  // of parameters and states, likewise
    std::string label = {};                // for names of the graph's inputs
    ScanBuilder* scan = nullptr;           // null: once, in the graph itself
    std::map<Input, Tensor> instead =
        {};  // replace inputs from the host; only for a block run once
    std::optional<std::int64_t> kv_donor = {};
    std::optional<std::int64_t> params_of = {};
  };
  // The inputs of a block's graph.
  struct Bound {
    std::vector<Tensor> inputs;  // where the block runs
    std::vector<int> params;     // inputs of the model's graph, one per parameter
    std::vector<int> states;     // likewise
  };

  // Runs the block, and collects its values other than the results.
  std::vector<Tensor> run(const BlockGraph& block, const BlockPlacement& place,
                          const std::vector<Tensor>& carries, const std::vector<Tensor>& per_layer);
  Tensor value_input(const BlockPlacement& place, const std::string& name, const Type& inner,
                     InputRole role);
  // Returns a parameter that layers share, outside of scans.
  Tensor shared_param(std::int64_t owner, const BlockGraph::Param& param);
  Tensor param_input(const BlockPlacement& place, const BlockGraph::Param& param);
  Tensor block_state(const BlockPlacement& place, const BlockGraph::State& state);
  Tensor layer_value(const BlockGraph& block, const BlockPlacement& place,
                     const BlockGraph::HostInput& input);
  int last_input() const { return static_cast<int>(out_.inputs.size()) - 1; }
  int outside_input(Tensor input);

  // Calls `use` with `value` stacked over the place's iterations.
  void collect(const BlockPlacement& place, const std::string& name, Tensor value,
               std::function<void(Tensor)> use, Tensor over = {});
  void collect_states(const BlockGraph& block, const BlockPlacement& place, const Bound& bound,
                      const std::vector<Tensor>& results);
  void collect_kv(const BlockGraph& block, const BlockPlacement& place,
                  const std::vector<Tensor>& results);
  void collect_aux(const BlockGraph& block, const BlockPlacement& place, const Bound& bound,
                   const std::vector<Tensor>& results);
  void add_layer_metrics(const BlockPlacement& place, Tensor x);
  void collect_records(const BlockGraph& block, const BlockPlacement& place,
                       const std::vector<Tensor>& results);

  std::vector<Tensor> layers(std::vector<Tensor> carries, const std::vector<Tensor>& per_layer,
                             bool hidden);
  std::vector<Tensor> segment(std::vector<Tensor> carries, const std::vector<Tensor>& per_layer,
                              const StackSegment& segment, bool hidden);
  std::vector<std::pair<std::string, Tensor>> consts_of(const StackSegment& segment);
  // Computes values with rows [rows, ...] from logits [block, V].
  using LogitsUse = std::function<std::vector<Tensor>(Tensor logits)>;
  std::vector<Tensor> of_logits(Tensor x, const LogitsUse& use);
  Tensor teacher_input(Input role, Type type);
  Tensor compared_rows(std::int64_t layer) const;
  Tensor top_log_probabilities(Tensor x, Tensor labels, Tensor ids);
  Tensor without_channels(Tensor x, std::int64_t stream);
  Tensor head_bias();  // null without one
  Tensor head(Tensor rows, Tensor weight, Tensor bias) const;
  // In embedding_overrides.cc: true if features are added to the output of these first layers
  // (DeepStack).
  bool has_deepstack_features(std::int64_t first_layer) const {
    return phase().embedding_overrides.count > 0 &&
           first_layer < phase().embedding_overrides.layers;
  }
  Tensor deepstack_index();
  void add_deepstack_features(const BlockPlacement& place);
  std::vector<Tensor> engram(std::vector<Tensor> carries, const StackSegment& segment);
  std::shared_ptr<const Graph> shared_body(std::shared_ptr<const Graph> body);
  Type param_type(const registry::ParamDesc& desc, const Parameter& p) const;
  void add_hidden(std::string name, Tensor x, std::vector<std::int64_t> layers, bool stacked);

  const ModelParts& parts_;
  BlockCache blocks_;
  ModelGraph out_;
  StackPlan stack_;
  std::vector<std::int64_t> compared_;            // layers, in the order of their pairs
  std::map<std::int64_t, Tensor> layer_outputs_;  // of the last layers of segments
  std::map<Input, Tensor> host_inputs_;
  Tensor deepstack_index_, last_carry_;
  std::map<int, Tensor> outside_;
  std::map<std::int64_t, std::pair<Tensor, Tensor>> donated_kv_;  // by layer
  std::vector<AuxValue> aux_;
  std::vector<std::shared_ptr<const Graph>> bodies_;  // shared by equal segments
};

}  // namespace lamina::decoder
