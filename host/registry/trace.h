// The host's side of building a block: a plugin's calls through the C contract arrive here, are
// checked, and become calls of virtual functions in values of ours. The decoder derives from it.
//
//   class MyTrace : public Trace { ... };
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
#include "ops/decode.h"
#include "registry/family.h"
#include "registry/model_config.h"
#include "registry/plan.h"

namespace lamina::ops {
struct CustomOp;
}

namespace lamina::registry {

// What a parameter is for (LAMINA_ROLE_*).
enum class Role { weight = 1, bias, norm, embedding, head, router, scalar, conv };

// How a parameter starts (LAMINA_INIT_*), with up to two numbers.
struct InitSpec {
  enum class Kind {
    zeros,
    ones,
    constant,          // a
    normal,            // deviation a
    truncated_normal,  // deviation a, cut at 2 of them
    uniform,           // between a and b
    log_uniform,       // log of a draw between a and b
    fan_in,            // normal, deviation a / sqrt(last dim)
    cycle,             // element i is i modulo a
  };
  Kind kind = Kind::zeros;
  double a = 0, b = 0;
  friend bool operator==(const InitSpec&, const InitSpec&) = default;
};

struct ParamDesc {
  std::string name;  // full inside the block: "attention.wq.weight"
  Shape shape;
  std::vector<AxisId> axes;  // one per dim
  Role role = Role::weight;
  InitSpec init;
  bool trained = true;
  std::optional<bool> decay;   // weight decay; nothing: by role
  std::optional<DType> dtype;  // nothing: the run's
  std::string group;           // for learning rates and masks; may be empty
  // Of one that the host adds to a plugin's block: the plugin's parameter whose module it stands
  // beside, or whose module's name it continues ("wi_1" that of "wi"). Published names follow it.
  std::string beside = {};
  friend bool operator==(const ParamDesc&, const ParamDesc&) = default;
};

// What a block remembers between decoded tokens.
using ops::StateDesc;
using ops::StateKind;

enum class InputKind {
  positions = 1,
  token_ids,
  segment_ids,
  layer_index,
  embedding,
  positions_3d,
  image_blocks
};

struct AuxDesc {
  enum class Kind { loss = 1, metric };
  enum class Reduce { sum, mean, max };
  Kind kind = Kind::loss;
  std::string name;
  Tensor value;
  std::string weight_key;  // config key that multiplies a loss; empty = 1
  Reduce reduce = Reduce::sum;
  Tensor other;  // of a loss that is a product of means over layers; null = none
};

struct UpdateDesc {
  enum class Rule { add = 1, sign_step, assign };
  Rule rule = Rule::add;
  std::string param;  // full name of a parameter of the block
  Tensor value;
  std::string rate_key;  // config key; empty = 1
};

// The tag under which a block's graph keeps the value of the exported parameter `param`.
std::string export_tag(std::string_view param);

using ops::NamedAttrs;

class Trace {
 public:
  explicit Trace(Graph& graph);
  virtual ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  Graph& graph() const { return graph_; }

 protected:
  // Called while a block is built, on the thread that builds it; arguments are checked. What they
  // throw ends the build: Errors with their own text, which gets the place in the plugin added.
  // The graph's origin is set to the plugin's line.

  // A parameter, once per name and block.
  virtual Tensor make_param(const ParamDesc& param) = 0;
  // A decode state, once per name and block; `index` counts from 0 in each block and is what
  // add_op() gets.
  virtual void make_state(const StateDesc& state, int index) = 0;
  // An input of the block, once per kind and block; null for image_blocks without images.
  virtual Tensor make_input(InputKind kind) = 0;
  // f32[]: values[i] in layer i.
  virtual Tensor make_layer_constant(const std::string& name,
                                     const std::vector<double>& values) = 0;
  // Whether the host gives the op an input that its declaration asks of the plugin (k and v of a
  // layer that reads another's).
  virtual bool supplies(const Op& op, std::size_t input) const;
  // One use of an op: its outputs. `inputs` has an element for each input that the op declares
  // (more for variadic ones), null where the plugin gave none. By default just a node of the graph;
  // an op with a state needs more.
  virtual std::vector<Tensor> add_op(const Op& op, std::span<const Tensor> inputs,
                                     const NamedAttrs& attrs, std::optional<int> state);
  // Named values and axes; by default kept in the graph.
  virtual Tensor tag(Tensor value, const std::string& name);
  virtual Tensor annotate(Tensor value, std::span<const AxisId> axes);
  // A body that runs token by token (ext/time_region.h): what is built between the two calls, which
  // are in turn. begin gives the carries, then the inputs, of one token; end, for the carries after
  // a token and its results, the results of all tokens.
  virtual std::vector<Tensor> begin_region(std::span<const int> states,
                                           std::span<const Tensor> inputs);
  virtual std::vector<Tensor> end_region(std::span<const Tensor> carries,
                                         std::span<const Tensor> results);
  // A custom op (ext/custom_ops.h): what is built between the two calls, which are in turn, is its
  // lowering. begin gives stand-ins for the inputs, null where they are absent; end, for the
  // results of the lowering, what stands for them outside.
  virtual std::vector<Tensor> begin_custom(std::span<const Tensor> inputs);
  virtual std::vector<Tensor> end_custom(const ops::CustomOp& op, const NamedAttrs& attrs,
                                         std::span<const Tensor> results);
  virtual void add_aux(const AuxDesc& value) = 0;
  virtual void update(const UpdateDesc& update) = 0;

 private:
  friend class BlockBuild;
  Graph& graph_;
  std::uint64_t tag_;             // of this trace's handles
  std::uint64_t generation_ = 0;  // of the current block's handles
};

// How and for what a block is built.
struct BlockRequest {
  std::vector<Tensor> carries;         // [0] = activations [B, T, D]
  std::span<const Setting> overrides;  // of the position
  std::string place;                   // for messages: "layer 8, phase train"
  std::vector<Tensor> per_layer = {};  // see lamina_io_t
  // What the block must give: a type, or nothing where any will do. Empty: the types of carries.
  std::vector<std::optional<Type>> results = {};
};

struct BlockResult {
  std::vector<Tensor> carries;    // what the request asks for
  std::vector<ParamDesc> params;  // in order of declaration
  std::vector<StateDesc> states;
};

// Runs the plugin's build of one block into the trace's graph. Throws PluginError, naming plugin,
// block, scope, line of the plugin's source and config values, when the block refuses, breaks the
// contract, or an op refuses what it is given. A trace may build several blocks, one at a time.
BlockResult build_block(const Family& family, const Block& block, const ModelConfig& config,
                        Trace& trace, const BlockRequest& request);

}  // namespace lamina::registry
