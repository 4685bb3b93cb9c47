// A model: a family with a config, its stack, its parameters, and the graphs of its phases.
//
//   Model model(family, config, {.scan_layers = true});
//   ModelGraph graph = model.loss_graph({.batch = 4, .tokens = 256, .dtype = DType::bf16});
//
// Each distinct block is traced once a graph, whatever the depth. Graphs are as traced: run them
// through passes::optimize() before compiling.
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
  // The tokenizer's tokens, for models with engram_layers, which are refused without.
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
  // Whether training draws random numbers, for dropout of the config or in blocks of the family.
  bool has_dropout() const;
  const std::optional<Adapter>& adapter() const;
  // How each parameter learns. Segments are cut where layers of one would differ in what is frozen.
  void set_learning(const std::vector<Learning>& by_parameter);
  std::int64_t vocab_size() const;
  std::int64_t hidden_size() const;
  // Values per token of what leaves a layer: hidden_size(), times the streams that there are.
  std::int64_t layer_width() const;

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
  ModelGraph loss_graph(const GraphShape& shape, const GraphFeatures& features = {}) const;
  // Logits of every token, without decode state.
  ModelGraph forward_graph(const GraphShape& shape, const GraphFeatures& features = {}) const;
  // What this model as a teacher tells of every token's next one: features.teacher.
  ModelGraph teacher_graph(const GraphShape& shape, const GraphFeatures& features) const;
  // f32[B, T, V] of what the head gets, Output::normed of a forward graph: logits later.
  ModelGraph head_graph(const GraphShape& shape) const;
  // Whether tokens see earlier ones only, so that there is a next token to decode.
  bool is_autoregressive() const;
  // Logits of one token per row, reading and writing decode state. Throws UserError (exit 2) for a
  // model that is not autoregressive; so does states().
  ModelGraph decode_graph(const GraphShape& shape, const StateSize& state,
                          const GraphFeatures& features = {}) const;

  // The state tensors that decode graphs with this batch, dtype and size of state use.
  std::vector<StateTensor> states(const GraphShape& shape, const StateSize& state) const;

 private:
  std::unique_ptr<ModelParts> parts_;
};

}  // namespace lamina::decoder
