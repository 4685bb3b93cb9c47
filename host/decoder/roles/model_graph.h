// A model's graph, and the roles of its inputs and outputs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "registry/block_desc.h"

namespace lamina::decoder {

// The size of a call, and the type of its computation.
struct GraphShape {
  std::int64_t batch = 1;
  std::int64_t tokens = 1;  // of a row
  DType dtype = DType::f32;
};

// Number of rows that replace the embeddings of placeholder tokens: outputs of an image or audio
// encoder. The rows are not scaled and get no positions.
struct EmbeddingOverrideShape {
  std::int64_t count = 0;   // R, over the whole batch; 0 = none
  std::int64_t layers = 0;  // the first layers, to whose output features of these rows are added
};

// The distance between two hidden states of a token: the mean of their squared differences, or 1
// minus the cosine of the angle between them.
enum class HiddenDistance { mse, cosine };

// A layer of a model and one of its teacher, by index; absent: the last layer.
struct ComparedLayers {
  std::optional<std::int64_t> student, teacher;
};

// The outputs of a second model, the teacher: log-probabilities of the next token at a temperature,
// for all tokens or for the likeliest (Hinton et al. 2015), and outputs of some of its layers.
struct TeacherShape {
  bool any = false;
  std::int64_t top_k = 0;  // 0 = all tokens, in the order of their ids
  double temperature = 1;  // logits are divided by it
  // P layers of the model and of the teacher whose outputs are compared.
  std::vector<ComparedLayers> layers = {};
  HiddenDistance distance = HiddenDistance::mse;

  // Number of tokens with a log-probability, K.
  std::int64_t num_tokens(std::int64_t vocab_size) const { return top_k == 0 ? vocab_size : top_k; }
};

// Inputs of a graph beyond tokens, and outputs beyond a loss or logits.
struct GraphFeatures {
  bool segments = false;      // rows hold several documents
  bool positions_3d = false;  // Input::positions_3d is an input; else made from the positions
  EmbeddingOverrideShape embedding_overrides = {};
  // Features of a loss.
  bool training = false;  // dropout is active
  bool aux = false;       // also auxiliary losses, metrics and updates of layers
  bool mtp = false;       // loss: also of multi-token prediction; logits: also its outputs
  bool mtp_agreement =
      false;  // also the number of its choices equal to the model's; not together with mtp
  // Optional terms of the loss, by their names in host/decoder/losses.cc.
  std::vector<std::string> losses = {};
  bool token_losses = false;  // also the cross-entropy of each label
  TeacherShape teacher = {};  // also the divergence from a teacher
  // With aux, the metric kMaxLogits of each layer with latent attention and ModelGraph::query_keys.
  // UserError (exit 2) if its matrices do not fit QueryKeyMatrices.
  bool max_logits = false;
  // With aux, metrics of each layer: mean, population standard deviation and share of zeros of its
  // output as "activation_mean", "activation_stdev", "activation_zeros"; its losses by their names.
  bool layer_metrics = false;
  // Features of logits; the first one without decode state.
  bool hidden = false;  // also the input and output of every layer
  bool normed = false;  // also the input of the head, for every token
  bool logits = true;   // false: without the head
  // Tags of names.h: also the values that the blocks of layers give these tags, as Output::record.
  // Several values of one tag in a block are separate outputs, in the order of its build.
  std::vector<std::string> records = {};
};

// The size of decode state, for all graphs that share it.
struct StateSize {
  std::int64_t capacity = 1;         // slots of a row: the longest sequence
  std::int64_t max_call_tokens = 1;  // the largest GraphShape::tokens used with this state
};

// The role of an input. roles.h has the name and the type of each.
enum class Input {
  tokens,               // i32[B, T]
  positions,            // i32[B, T], from 0 in each document
  positions_3d,         // i32[3, B, T]: time, height, width
  segments,             // i32[B, T], from 1; 0 = padding
  labels,               // i32[B * T]; negative = not counted
  loss_scales,          // f32[n]: the gradient of each of Output::losses
  seed,                 // i64[2]: seed, step
  reference,            // f32[B, S]: log-probability of each segment's labels, by another model
  teacher_logp,         // f32[B * T, K]: as the output of that name
  teacher_ids,          // i32[B * T, K]: likewise
  teacher_hidden,       // f32[P, B * T, W]: likewise
  start,                // i32[B]: tokens in the decode state before this call
  count,                // i32[B]: tokens of this call that are not padding; 0: the row is unchanged
  rows,                 // i32[B]: the token of each row whose logits are computed
  temperature,          // f64[]: of the next tokens, see ops::likeliest_tokens
  draws,                // f64[B]: a number in [0, 1) for each row's next token
  embedding_overrides,  // [R, D] in the type of activations; see EmbeddingOverrideShape
  override_index,       // i32[B, T]: the row that replaces a token's embedding; -1 = none
  image_blocks,         // i32[B, T]: the image of a token, from 1; 0: none
  deepstack_features,   // [layers * R, D]: row l R + r is added to the output of layer l at row r
  // i32[N], from the tokenizer; the graph has the values of it and of the next three.
  compressed_tokens,
  embedding,       // never bound: the input of the first layer
  normed,          // [B, T, D] in the type of activations: the head's input, of head_graph()
  layer_index,     // i32[times]: global index of each layer of a segment
  layer_constant,  // [times]: values of the plugin, in the type of activations
  parameter,       // stacked over `members` if it is in a segment
  state,           // decode state, stacked over `members`, written in place
  gradient_sum,    // of the microbatches before, stacked like its parameter, written in place
};

// The role of an output.
enum class Output {
  losses,          // f32[n]: the sum of each term of the loss, ModelGraph::losses
  token_losses,    // f32[B * T]: the cross-entropy of each label; 0 where it is not counted
  named_loss,      // f32[]: the auxiliary loss `name`, without its weight
  metric,          // [layers, ...]: the metric `name` of each of `layers`
  task_sum,        // f32[]: the sum of `name` over the same elements as the loss
  segment_logp,    // f32[B, S]: log-probability of the labels of each segment
  teacher_logp,    // f32[B * T, K]: log-probabilities of next tokens, see TeacherShape
  teacher_ids,     // i32[B * T, K]: the likeliest tokens, for their log-probabilities
  teacher_hidden,  // f32[P, B * T, W]: outputs of layers, W values per token
  state,           // decode state, stacked over `members`, written over its input
  update,          // [(times,) ...]: a change of the parameter input `input`
  logits,          // f32[B, V] of `rows`, or f32[B, T, V]
  // Parts of the logits of next tokens, by decode/shortlist.h.
  likeliest_logits,  // f32[B, K]
  likeliest_ids,     // i32[B, K]
  drawn_logits,      // f32[B, 256]: the group of tokens in which the draw falls
  drawn_first,       // i32[B]: the first token of the group
  drawn_before,      // f64[B]: the weight of the tokens before it
  drawn_largest,     // f32[B]: the largest logit
  total_weight,      // f64[B]: of all tokens, NaN if the logits are not numbers
  gradient,          // f32, of the parameter input `input`
  gradient_ids,      // i32: the rows of a gradient that is a list: train/optimizer/row_gradients.h
  normed,            // [B, T, D]: the input of the head
  hidden,       // carry 0 entering the stack (layer -1) or leaving layer `layer`; often [B, T, D]
  record,       // [layers, ...]: the value with the tag `name` in each of `layers`
  mtp_hidden,   // f32[depth, B, T, D], of streams [.., K, D]: the state for the next depth
  mtp_normed,   // f32[depth, B, T, D]: the input of the head
  mtp_logits,   // f32[depth, B, T, V]
  mtp_counted,  // f32[depth]: labels that multi-token prediction has
  mtp_agreed,   // f32[depth]: the labels of these at which it chooses the model's token
};

// One input of a model's graph.
struct InputRole {
  Input role;
  std::vector<int> members;  // parameters or states, by index; one per layer of the segment
  bool stacked = false;      // its first dim runs over members
  // The values of layer_constant, layer_index and compressed_tokens.
  std::vector<double> values = {};
};

struct OutputRole {
  Output role;
  int input = -1;  // gradient: the parameter input; state: the input
  // hidden: the layers that it leaves, -1 for the input of the stack; metric, record: the layers
  // that have it.
  std::vector<std::int64_t> layers = {};
  bool stacked = false;   // its first dim runs over layers or parameters of the input
  std::string name = {};  // of auxiliary losses and metrics; the tag of a record
};

// The rule that combines values of several microbatches.
using Reduce = registry::AuxDesc::Reduce;

// The use of the updates of a parameter: p += rate * value, p += rate * sign(value), p = value.
struct ParameterUpdate {
  int parameter = -1;
  registry::UpdateDesc::Rule rule = registry::UpdateDesc::Rule::add;
  double rate = 1;
};

// The metric of latent attention's largest logits: f32[heads] of each layer.
inline constexpr const char* kMaxLogits = "max_logits";

// The matrices of queries and keys of a layer's latent attention. Head n has rows [n * query_rows,
// ...) of the matrix `query`; the first `nope` of these rows have no rotary positions. It has rows
// [n * key_rows, ...) of the matrix `key`; the first `nope` of these rows make keys, the rest
// values.
struct QueryKeyMatrices {
  std::int64_t layer = 0;    // global index
  std::uint32_t block = 0;   // the id of its block
  int query = -1, key = -1;  // parameters
  std::int64_t heads = 0, nope = 0, query_rows = 0, key_rows = 0;
};

// A tensor of decode state, one per layer (and part) with state.
struct StateTensor {
  std::string name;        // "layers.3.kv.k"
  std::int64_t layer = 0;  // -1 outside the layers
  Type type;               // [B, slots, ...], or [B, ...] of a fixed size
  bool ring = false;       // holds the latest `slots` tokens only
  registry::StateKind kind = registry::StateKind::kv;
  std::int64_t bytes() const { return type.bytes(); }
};

// The items that a term of the loss sums over, in all microbatches of a step. Its mean is the sum
// divided by their number.
enum class LossCount {
  items,         // what the task counts: labels, or pairs
  mtp_labels,    // labels of multi-token prediction
  microbatches,  // the term is a mean over the tokens of its microbatch
};

// The places that report the mean of a loss term.
enum class LossReport {
  none,
  metrics,   // in the metrics of a step, if it adds something to the loss
  progress,  // with the means of the task: in metrics, and beside the progress of a run
};

// One term of the loss: training minimises the sum of weight * mean over all terms.
struct LossTerm {
  std::string name;  // of metrics: "z_loss"
  LossCount count = LossCount::items;
  LossReport report = LossReport::metrics;
};

struct ModelGraph {
  Graph graph;
  std::vector<InputRole> inputs;    // one per input of the graph
  std::vector<OutputRole> outputs;  // one per output
  std::vector<LossTerm> losses;     // one per element of Output::losses
  std::vector<StateTensor> states;  // by index
  std::vector<ParameterUpdate> updates;
  std::vector<QueryKeyMatrices> query_keys;  // with GraphFeatures::max_logits, one per layer
  std::map<std::string, Reduce> metrics;     // of layers, by name
};

}  // namespace lamina::decoder
