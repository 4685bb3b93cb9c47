// A model: a family with a config, its stack, its parameters, and the graphs of its phases.
//
//   Model model(family, config, {.scan_layers = true});
//   ModelGraph graph = model.loss_graph({.batch = 4, .tokens = 256, .dtype = DType::bf16});
//
// Each distinct block is traced once per graph, for any depth. Graphs are not optimised: pass them
// to passes::optimize() before compiling.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/engram/engram.h"
#include "decoder/roles/adapter.h"
#include "decoder/roles/model_graph.h"
#include "decoder/stack/parameter.h"
#include "decoder/stack/stack_plan.h"
#include "registry/family.h"

namespace lamina::decoder {

struct ModelOptions {
  bool scan_layers = true;
  // Compresses the tokenizer's tokens. Models with engram_layers are refused without it.
  CompressTokens compress_tokens = {};
  std::optional<Adapter> adapter = {};
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
  // True if training draws random numbers, for dropout of the config or in blocks of the family.
  bool has_dropout() const;
  const std::optional<Adapter>& adapter() const;
  // Sets how each parameter learns. Cuts segments whose layers differ in frozen parameters.
  void set_learning(const std::vector<Learning>& by_parameter);
  // Returns for each parameter whether graphs without training can read it in blocks: decode
  // graphs, or forward graphs if the model is not autoregressive; with `losses` also loss graphs.
  std::vector<bool> storable_parameters(bool losses = false) const;
  // Likewise for the graphs of a training run, losses with GraphFeatures::training and without.
  // Only frozen parameters are storable there.
  std::vector<bool> storable_in_training() const;
  // Sets the storage of each parameter; null: plain. Graphs read the parameters in it and widen
  // them for ops that need plain values. Graphs with GraphFeatures::training have the storage of
  // frozen parameters only. Cuts segments whose layers differ in storage.
  void set_storage(const std::vector<const formats::BlockFormat*>& by_parameter);
  std::int64_t vocab_size() const;
  std::int64_t hidden_size() const;
  // Values per token of a layer's output: hidden_size(), times the number of streams.
  std::int64_t layer_width() const;

  // Returns the number of positions from which on the rotation of earlier tokens changes as a
  // sequence grows (scaling dynamic or longrope): longer sequences must be computed again from
  // their start. Nothing for most models.
  std::optional<std::int64_t> length_dependent_from() const;
  // True if it changes only there (longrope), not with every further token (dynamic).
  bool rotation_changes_once() const;
  // True if sequences of up to `tokens` tokens have different rotations.
  bool depends_on_length_within(std::int64_t tokens) const {
    const std::optional<std::int64_t> from = length_dependent_from();
    return from && tokens > *from;
  }

  // Returns the length of the longest sequence that the model is made for: its maximum number of
  // positions, or of learned positions if they are fewer; nothing if unknown, or if the rotation
  // grows with the sequence (dynamic).
  std::optional<std::int64_t> max_length() const;

  // Throws UserError (exit 2) if a sequence cannot be `tokens` long because there are fewer learned
  // positions. `what`: the key that requested the length, eg: "data.sequence_length". Every graph
  // checks it.
  void check_length(std::int64_t tokens, std::string_view what) const;

  // Number of blocks of multi-token prediction, and the weights of their losses.
  std::int64_t mtp_depth() const;
  double mtp_weight(std::int64_t depth) const;

  // Returns the graph of the sums of loss and z_loss over counted labels, without gradients
  // (train/optimizer/gradients.h).
  ModelGraph loss_graph(const GraphShape& shape, const GraphFeatures& features = {}) const;
  // Returns the graph of the logits of every token, without decode state.
  ModelGraph forward_graph(const GraphShape& shape, const GraphFeatures& features = {}) const;
  // Returns the graph of this model as a teacher of next tokens: features.teacher.
  ModelGraph teacher_graph(const GraphShape& shape, const GraphFeatures& features) const;
  // Returns the graph of logits f32[B, T, V] from the head's input, Output::normed of a forward
  // graph.
  ModelGraph head_graph(const GraphShape& shape) const;
  // True if tokens see earlier ones only, so that next tokens can be decoded.
  bool is_autoregressive() const;
  // Returns the graph of the logits of one token per row, which reads and writes decode state.
  // decode_graph() and states() throw UserError (exit 2) for a model that is not autoregressive.
  ModelGraph decode_graph(const GraphShape& shape, const StateSize& state,
                          const GraphFeatures& features = {}) const;

  // Returns the state tensors of decode graphs with this batch, dtype and size of state.
  std::vector<StateTensor> states(const GraphShape& shape, const StateSize& state) const;

 private:
  // Gives parameters their storage.
  ModelGraph stored(ModelGraph graph, bool training = false) const;

  std::unique_ptr<ModelParts> parts_;
};

}  // namespace lamina::decoder
