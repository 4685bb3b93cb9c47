// The host's side of building a block: receives and checks the plugin's calls through the C
// contract, and converts them to calls of virtual functions with our types. The decoder derives
// from it.
//
//   class MyTrace : public BlockTrace { ... };
//   MyTrace trace(graph, ...);
//   BlockResult out = build_block(family, family.block(1), config, trace, {.carries = {x}});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "registry/block_desc.h"
#include "registry/family.h"
#include "registry/model_config.h"
#include "registry/plan.h"

namespace lamina::ops {
struct CustomOp;
}

namespace lamina::registry {

using ops::NamedAttrs;

class BlockTrace {
 public:
  explicit BlockTrace(Graph& graph);
  virtual ~BlockTrace();
  BlockTrace(const BlockTrace&) = delete;
  BlockTrace& operator=(const BlockTrace&) = delete;

  Graph& graph() const { return graph_; }

 protected:
  // Called while a block is built, on the thread that builds it, with checked arguments. Exceptions
  // end the build: Errors keep their text, and the place in the plugin is added. The graph's origin
  // is set to the plugin's line.

  // Creates a parameter, once per name and block.
  virtual Tensor make_param(const ParamDesc& param) = 0;
  // Creates a decode state, once per name and block; `index` counts from 0 in each block and is
  // passed to add_op().
  virtual void make_state(const StateDesc& state, int index) = 0;
  // Returns an input of the block, once per kind and block; null for image_blocks without images.
  virtual Tensor make_input(InputKind kind) = 0;
  // Returns f32[]: values[i] in layer i.
  virtual Tensor make_layer_constant(const std::string& name,
                                     const std::vector<double>& values) = 0;
  // Returns whether the host supplies an op's input that its declaration requires from the plugin
  // (k and v of a layer that reads the state of another).
  virtual bool supplies(const Op& op, std::size_t input) const;
  // Adds one use of an op and returns its outputs. `inputs` has an element for each declared input
  // (more for variadic ops), null for those that the plugin omitted. The default adds a node to the
  // graph; an op with a state needs more.
  virtual std::vector<Tensor> add_op(const Op& op, std::span<const Tensor> inputs,
                                     const NamedAttrs& attrs, std::optional<int> state);
  // Names values and axes. The default keeps them in the graph.
  virtual Tensor tag(Tensor value, const std::string& name);
  virtual Tensor annotate(Tensor value, std::span<const AxisId> axes);
  // A body that runs token by token (ext/time_region.h): everything built between the two calls,
  // which alternate. begin returns the carries, then the inputs, of one token; end takes the
  // carries after a token and its results, and returns the results of all tokens.
  virtual std::vector<Tensor> begin_region(std::span<const int> states,
                                           std::span<const Tensor> inputs);
  virtual std::vector<Tensor> end_region(std::span<const Tensor> carries,
                                         std::span<const Tensor> results);
  // A custom op (ext/custom_ops.h): everything built between the two calls, which alternate, is its
  // lowering. begin returns placeholders for the inputs, null for absent ones; end takes the
  // results of the lowering and returns the values to use outside.
  virtual std::vector<Tensor> begin_custom(std::span<const Tensor> inputs);
  virtual std::vector<Tensor> end_custom(const ops::CustomOp& op, const NamedAttrs& attrs,
                                         std::span<const Tensor> results);
  virtual void add_aux(const AuxDesc& value) = 0;
  virtual void update(const UpdateDesc& update) = 0;

 private:
  friend class BlockBuild;
  Graph& graph_;
  std::uint64_t tag_;             // part of this trace's handles
  std::uint64_t generation_ = 0;  // part of the current block's handles
};

// Inputs and context of building a block.
struct BlockRequest {
  std::vector<Tensor> carries;         // [0] = activations [B, T, D]
  std::span<const Setting> overrides;  // values set by the position
  std::string place;                   // for messages: "layer 8, phase train"
  std::vector<Tensor> per_layer = {};  // see lamina_io_t
  // The expected results: a type, or nothing if any type is accepted. Empty: the types of carries.
  std::vector<std::optional<Type>> results = {};
};

struct BlockResult {
  std::vector<Tensor> carries;    // the requested results
  std::vector<ParamDesc> params;  // in order of declaration
  std::vector<StateDesc> states;
};

// Runs the plugin's build of one block into the trace's graph. Throws PluginError, with plugin,
// block, scope, line of the plugin's source and config values, if the block refuses, breaks the
// contract, or an op rejects its inputs. A trace may build several blocks, one at a time.
BlockResult build_block(const Family& family, const Block& block, const ModelConfig& config,
                        BlockTrace& trace, const BlockRequest& request);

}  // namespace lamina::registry
