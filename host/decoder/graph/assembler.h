// Builds the graph of a whole model from those of its blocks. Private to decoder.
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
  // A tensor of decode state [B, ...], and what is written over it.
  Tensor state_input(const std::string& name, std::int64_t layer, registry::StateKind kind,
                     const Type& type, bool ring = false);
  void state_output(Tensor state, Tensor written);
  void add_output(std::string name, Tensor value, OutputRole role, int alias = -1);
  // One that is there once, by its own name.
  void add_output(Output role, Tensor value);

  // Rows of the table for tokens i32[B, T], with positions and dropout; `stream` tells draws apart.
  Tensor embed(Tensor tokens, Tensor positions, std::int64_t stream = 0);
  // That of the call's tokens.
  Tensor embedding();
  // All layers: the embedding to what the final norm gets. With `hidden`, what enters and leaves
  // each layer becomes an output.
  Tensor stack(Tensor embedding, bool hidden);
  // Carry 0 as the last layer gave it, without the exit block. REQUIRES: stack() was called.
  Tensor last_carry() const { return last_carry_; }
  Tensor final_norm(Tensor x);
  // What the head gets of what the final norm gave: in training some channels drop out. `depth` is
  // 0 of the model, 1 and on of multi-token prediction.
  Tensor for_head(Tensor normed, std::int64_t depth = 0);
  // f32[rows, V] of x[..., D].
  Tensor logits(Tensor x);
  // Of ops::cross_entropy over rows of x[..., D]: its sums, and token_losses[rows].
  struct Losses {
    Tensor loss, z_loss, uniform_loss, token_losses;
  };
  Losses losses(Tensor x, Tensor labels);
  // i32[rows]: the token with the largest logit, the lowest of equal ones. Logits are never stored
  // whole.
  Tensor choices(Tensor x);

  // teacher.cc, as phase().teacher says. Before stack(): which layers of a pair are this model's.
  // Scans end after them.
  void compare_layers(std::optional<std::int64_t> config::LayerPair::*side);
  // What a teacher tells, as outputs: log-probabilities of all tokens or, with their ids, of the
  // likeliest; and what left the compared layers.
  void add_teacher_outputs(Tensor x);
  // The sum over counted labels of KL(teacher || model), both at the temperature. Of the likeliest
  // tokens only: with all others as one outcome more.
  Tensor divergence(Tensor x, Tensor labels);
  // The sum over counted labels of the distance of what left the compared layers from what left
  // those of the teacher. REQUIRES: there are some.
  Tensor hidden_distance(Tensor labels);

  // embedding_overrides.cc: x[B, T, D] with override row index[b, t] where that is not -1.
  Tensor with_embedding_overrides(Tensor x, Tensor index);

  // Results of a block that runs once; parameters are called "<scope>.<name>".
  std::vector<Tensor> run_once(const BlockGraph& block, const std::string& scope,
                               std::int64_t layer, const std::vector<Tensor>& carries,
                               const std::vector<Tensor>& per_layer = {},
                               const std::map<Input, Tensor>& instead = {});
  BlockCache& blocks() { return blocks_; }

  // The auxiliary losses and metrics collected so far become outputs.
  void add_aux_outputs();

 private:
  // Where a block is: inside a scan over `layers`, or once.
  struct BlockPlacement {
    std::vector<std::int64_t> layers;      // one per iteration
    std::vector<std::string> scopes = {};  // of parameters and states, likewise
    std::string label = {};                // for names of the graph's inputs
    ScanBuilder* scan = nullptr;           // null: once, in the graph itself
    std::map<Input, Tensor> instead = {};  // of the host's inputs, once
    std::optional<std::int64_t> kv_donor = {};
    std::optional<std::int64_t> params_of = {};
  };
  // What a block's graph reads.
  struct Bound {
    std::vector<Tensor> inputs;  // where the block runs
    std::vector<int> params;     // inputs of the model's graph, one per parameter
    std::vector<int> states;     // likewise
  };

  // Runs the block; what it makes beyond its results is collected.
  std::vector<Tensor> run(const BlockGraph& block, const BlockPlacement& place,
                          const std::vector<Tensor>& carries, const std::vector<Tensor>& per_layer);
  Tensor value_input(const BlockPlacement& place, const std::string& name, const Type& inner,
                     InputRole role);
  // The parameter where layers share it: outside of scans.
  Tensor shared_param(std::int64_t owner, const BlockGraph::Param& param);
  Tensor param_input(const BlockPlacement& place, const BlockGraph::Param& param);
  Tensor block_state(const BlockPlacement& place, const BlockGraph::State& state);
  Tensor layer_value(const BlockGraph& block, const BlockPlacement& place,
                     const BlockGraph::HostInput& input);
  int last_input() const { return static_cast<int>(out_.inputs.size()) - 1; }
  int outside_input(Tensor input);

  // `use` gets `value` stacked over the place's times.
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
  // Rows [rows, ...] of what `use` makes of logits [block, V].
  using LogitsUse = std::function<std::vector<Tensor>(Tensor logits)>;
  std::vector<Tensor> of_logits(Tensor x, const LogitsUse& use);
  Tensor teacher_input(Input role, Type type);
  Tensor compared_rows(std::int64_t layer) const;
  Tensor top_log_probabilities(Tensor x, Tensor labels, Tensor ids);
  Tensor without_channels(Tensor x, std::int64_t stream);
  Tensor head_bias();  // null without one
  Tensor head(Tensor rows, Tensor weight, Tensor bias) const;
  // embedding_overrides.cc: features added to the output of the first layers (DeepStack).
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
