// A model: a family with a config, its stack, its parameters, and the graphs of its phases.
//
//   Model model(family, config, {.scan_layers = true});
//   ModelGraph graph = model.loss_graph({.batch = 4, .tokens = 256, .dtype = DType::bf16});
//
// Each distinct block is traced once a graph, whatever the depth. Graphs are as traced: run them
// through passes::optimize() before compiling.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/engram/engram.h"
#include "decoder/parameter.h"
#include "decoder/stack/stack_plan.h"
#include "graph/graph.h"
#include "registry/family.h"

namespace lamina::decoder {

// What is to be bound to an input (or output) of a model's graph.
enum class Role {
  tokens,          // i32[B, T]
  positions,       // i32[B, T], from 0 in each document
  positions_3d,    // i32[3, B, T]: time, height, width
  segments,        // i32[B, T], from 1; 0 = padding
  labels,          // i32[B * T]; negative = not counted
  loss_scale,      // f32[]: what d loss is, usually 1 / number of labels of the whole step
  z_loss_scale,    // f32[]: likewise for the z-loss, with its weight
  aux_scale,       // f32[]: likewise for aux_loss, usually 1 / number of microbatches
  mtp_scale,       // f32[]: likewise for mtp_loss, usually 1 / its labels in the whole step
  seed,            // i64[2]: seed, step
  start,           // i32[B]: tokens in the decode state before this call
  count,           // i32[B]: tokens of this call that are no padding; 0 = the row is left alone
  rows,            // i32[B]: the token of each row whose logits are wanted
  given_rows,      // [R, D] in the type of activations; see GivenRows
  given_index,     // i32[B, T]: the given row that stands at a token; -1 = the token's own
  given_blocks,    // i32[B, T]: the image a token is of, from 1; 0 = none
  given_features,  // [layers * R, D]: what layer l adds behind itself at tokens of row r: l R + r
  // i32[N], of the tokenizer; nobody binds it or the next three.
  compressed_tokens,
  embedding,       // never to be bound: what enters the first layer
  layer_index,     // i32[times]: global index of each layer of a segment
  layer_constant,  // [times]: values given by the plugin, in the type of activations
  parameter,       // stacked over `members` when it lies in a segment
  state,           // decode state, stacked over `members`, written in place
  // Outputs.
  loss,          // f32[]: sum of the cross-entropies of counted labels
  z_loss,        // f32[]: sum of their squared log-sum-exp
  aux_loss,      // f32[]: sum of the losses that layers sow, times their weights
  mtp_loss,      // f32[]: sum of the cross-entropies of multi-token prediction, with its weights
  sown_loss,     // f32[]: the loss `name` that layers sow, without its weight
  metric,        // [layers, ...]: the metric `name` of each of `layers`
  update,        // [(times,) ...]: a change of the parameter input `input`
  logits,        // f32[B, V] of `rows`, or f32[B, T, V]
  gradient,      // f32, of the parameter input `input`
  gradient_ids,  // i32: the rows that the gradient is of, where it is a list: train/row_gradients.h
  hidden,        // carry 0 entering the stack (layer -1) or leaving layer `layer`; often [B, T, D]
  record,        // [layers, ...]: the value with the tag `name` in each of `layers`
  mtp_hidden,    // f32[depth, B, T, D]: the state that goes to the next depth
  mtp_normed,    // f32[depth, B, T, D]: what the head gets
  mtp_logits,    // f32[depth, B, T, V]
  mtp_counted,   // f32[depth]: labels that multi-token prediction has
  mtp_agreed,    // f32[depth]: of them, those where it chooses the token that the model will
};

// One input of a model's graph.
struct InputRole {
  Role role;
  std::vector<int> members;  // parameters or states, by index; one a layer of the segment
  bool stacked = false;      // its first dim runs over members
  // What the input holds: of layer_constant, layer_index and compressed_tokens.
  std::vector<double> values;
};

struct OutputRole {
  Role role;
  int input = -1;  // gradient: the parameter input; state: the state input
  // hidden: the layers it leaves, -1 for what enters the stack; metric, record: the layers that
  // have it.
  std::vector<std::int64_t> layers = {};
  bool stacked = false;   // its first dim runs over layers or parameters of the input
  std::string name = {};  // of sown losses and metrics; the tag of a record
};

// How values of several microbatches become one.
using Reduce = registry::SowDesc::Reduce;

// What is done with the updates of a parameter: p += rate * value, p += rate * sign(value), p =
// value.
struct ParameterUpdate {
  int parameter = -1;
  registry::UpdateDesc::Rule rule = registry::UpdateDesc::Rule::add;
  double rate = 1;
};

// A tensor of decode state, one a layer (and part) that has some.
struct StateTensor {
  std::string name;        // "layers.3.kv.k"
  std::int64_t layer = 0;  // -1 outside the layers
  Type type;               // [B, slots, ...], or [B, ...] of a fixed size
  bool ring = false;       // holds the latest `slots` tokens only
  registry::StateKind kind = registry::StateKind::kv;
  std::int64_t bytes() const { return type.bytes(); }
};

struct ModelGraph {
  Graph graph;
  std::vector<InputRole> inputs;    // one an input of the graph
  std::vector<OutputRole> outputs;  // one an output
  std::vector<StateTensor> states;  // by index
  std::vector<ParameterUpdate> updates;
  std::map<std::string, Reduce> metrics;  // of the metrics that layers sow
};

// Rows that stand at placeholder tokens instead of those of the token table: what towers make of
// images and sounds. They are neither scaled nor given positions.
struct GivenRows {
  std::int64_t count = 0;   // R, over the whole batch; 0 = none
  std::int64_t layers = 0;  // the first layers that add features of these rows behind themselves
};

struct LossGraphOptions {
  std::int64_t batch = 1;
  std::int64_t tokens = 1;
  DType dtype = DType::f32;
  bool segments = false;       // rows hold several documents
  bool training = false;       // dropout is active
  bool aux = false;            // also losses, metrics and updates that layers sow
  bool mtp = false;            // also what multi-token prediction loses
  bool mtp_agreement = false;  // also how often it chooses as the model does; not together with mtp
  // With aux, metrics of each layer: mean, population standard deviation and share of zeros of its
  // output as "activation_mean", "activation_stdev", "activation_zeros"; its losses by their names.
  bool layer_metrics = false;
  bool positions_3d = false;  // as in ForwardGraphOptions
  GivenRows given = {};
};

struct ForwardGraphOptions {
  std::int64_t batch = 1;
  std::int64_t tokens = 1;
  DType dtype = DType::f32;
  bool segments = false;
  bool hidden = false;        // also what enters and leaves every layer
  bool mtp = false;           // also what multi-token prediction gives
  bool positions_3d = false;  // Role::positions_3d is an input; otherwise made of the positions
  // Tags of names.h: also what the blocks of layers give those names, as Role::record. Several
  // values of one tag in a block are as many outputs, in the order of its build.
  std::vector<std::string> records = {};
  GivenRows given = {};
};

struct DecodeGraphOptions {
  std::int64_t batch = 1;
  std::int64_t tokens = 1;           // a call: 1 to decode, more to read a prompt
  std::int64_t capacity = 1;         // slots of state a row: the longest sequence
  std::int64_t max_call_tokens = 1;  // the largest `tokens` used with this state
  DType dtype = DType::f32;
  bool positions_3d = false;  // as in ForwardGraphOptions
  GivenRows given = {};
};

struct ModelOptions {
  bool scan_layers = true;
  // The tokenizer's tokens, for models with engram_layers, which are refused without.
  CompressTokens compress_tokens = {};
};

struct ModelParts;

class Model {
 public:
  // Traces every distinct block once to learn the parameters. Throws UserError or PluginError.
  Model(std::shared_ptr<const registry::Family> family, registry::ModelConfig config,
        const ModelOptions& options = {});
  ~Model();
  Model(Model&&) noexcept;

  const registry::Family& family() const;
  const registry::ModelConfig& config() const;
  const registry::OptionsSpec& options() const;
  const StackPlan& stack() const;
  const ParameterTable& parameters() const;
  std::int64_t vocab_size() const;
  std::int64_t hidden_size() const;

  // Positions from which on the rotation of earlier tokens changes as a sequence grows (dynamic
  // scaling): longer sequences must be computed again from their start. Nothing for most models.
  std::optional<std::int64_t> length_dependent_from() const;

  // Throws UserError (exit 2) if no sequence can be `tokens` long because positions are learned and
  // there are fewer. `what` asks for the length: "data.sequence_length". Every graph checks it.
  void check_length(std::int64_t tokens, std::string_view what) const;

  // Blocks of multi-token prediction, and what their losses are multiplied by.
  std::int64_t mtp_depth() const;
  double mtp_weight(std::int64_t depth) const;

  // The sums of loss and z_loss over counted labels. train/gradients.h adds gradients.
  ModelGraph loss_graph(const LossGraphOptions& options) const;
  // Logits of every token, without decode state.
  ModelGraph forward_graph(const ForwardGraphOptions& options) const;
  // Logits of one token a row, reading and writing decode state.
  ModelGraph decode_graph(const DecodeGraphOptions& options) const;

  // The state tensors that decode graphs with this batch, capacity, call size and dtype use.
  std::vector<StateTensor> states(const DecodeGraphOptions& options) const;

 private:
  std::unique_ptr<ModelParts> parts_;
};

}  // namespace lamina::decoder
