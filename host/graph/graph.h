// The graph: a list of nodes in executable order.
//
// A graph owns its nodes and values and hands out ids. Nodes are only appended; passes that need
// anything else build a new graph (graph/rewrite.h). Not thread-safe; a finished graph may be
// read from any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/node_lists.h"
#include "graph/op.h"
#include "graph/type.h"

namespace lamina {

using NodeId = std::uint32_t;
inline constexpr ValueId kNoValue = ~0u;
inline constexpr NodeId kNoNode = ~0u;

// The place that created a node: the scope of parameters and the line of the plugin (or host).
struct Origin {
  std::string scope;  // "layers/attention"
  std::string file;   // "model.cc"; empty for nodes of the host
  std::uint32_t line = 0;
};
std::string to_string(const Origin& origin);

struct Node {
  const Op* op = nullptr;
  ValueList inputs;  // one per input of the op; kNoValue if an optional one is absent
  AttrList attrs;    // one per attribute of the op, in its order
  ValueList outputs;
  std::shared_ptr<const Origin> origin;  // shared by all nodes of one line; may be null

  // Returns the value of an integer attribute. REQUIRES: the op has it.
  std::int64_t int_attr(std::string_view name) const;
  // Sets an attribute. REQUIRES: the op has it.
  void set_attr(std::string_view name, AttrValue value);
  // Returns the graph that a scan runs in every iteration. REQUIRES: the node is a scan.
  const std::shared_ptr<const Graph>& body() const;
};

struct Value {
  Type type;
  NodeId node = kNoNode;    // kNoNode for an input of the graph
  std::uint32_t index = 0;  // which output of the node, or which input of the graph
  std::string tag;          // for rematerialisation policies; usually empty
};

struct GraphInput {
  std::string name;
  ValueId value;
};

struct GraphOutput {
  std::string name;
  ValueId value;
  // Index of the graph input whose memory the output must overwrite, or -1. Used for decode state
  // and optimizer state.
  int alias_input = -1;
};

// One value of a graph under construction, which op files pass around.
struct Tensor {
  Graph* graph = nullptr;
  ValueId id = kNoValue;

  explicit operator bool() const { return graph != nullptr; }
  const Type& type() const;
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int ndim() const { return type().ndim(); }
  std::int64_t dim(int i) const { return type().dim(i); }
};

class Graph {
 public:
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Value>& values() const { return values_; }
  const std::vector<GraphInput>& inputs() const { return inputs_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  const Value& value(ValueId id) const { return values_[id]; }
  const Type& type(ValueId id) const { return values_[id].type; }

  Tensor add_input(std::string name, Type type);
  void add_output(std::string name, Tensor value, int alias_input = -1);
  // For passes that remove outputs.
  void set_outputs(std::vector<GraphOutput> outputs) { outputs_ = std::move(outputs); }

  // Appends a node; the op's infer determines the types of its outputs. `attrs` gives some of the
  // attributes by name; the rest take their defaults. Absent optional inputs are null Tensors;
  // trailing ones may be omitted. Throws UserError if infer refuses, with op and origin.
  std::vector<Tensor> add_node(const Op& op, std::span<const Tensor> inputs,
                               std::span<const std::pair<std::string_view, AttrValue>> attrs);

  // The same with attributes in the op's own order (copies of nodes).
  std::vector<Tensor> add_node_like(const Node& like, std::span<const Tensor> inputs);

  // Appends a copy of a node of `from`, keeping the types and tags of its results. REQUIRES: the
  // operands have the types of the old ones; infer is not called again. Returns its id.
  NodeId add_copy(const Graph& from, const Node& node, ValueList inputs);

  Tensor tensor(ValueId id) { return {this, id}; }

  // Names a value for rematerialisation policies. The last name applies.
  void set_tag(ValueId id, std::string_view tag) { values_[id].tag = tag; }
  // Annotates the dims of a value.
  void set_axes(ValueId id, std::span<const AxisId> axes);

  // Sets the origin of nodes that are appended from now on.
  void set_origin(std::shared_ptr<const Origin> origin) { origin_ = std::move(origin); }
  const std::shared_ptr<const Origin>& origin() const { return origin_; }

  // For autodiff only: gives scan node `id` another body (with additional results at its end),
  // appends the new results and returns them.
  std::vector<Tensor> replace_body(NodeId id, std::shared_ptr<const Graph> body,
                                   std::span<const Type> added_results);

 private:
  ValueId add_value(Type type, NodeId node, std::uint32_t index);

  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<GraphInput> inputs_;
  std::vector<GraphOutput> outputs_;
  std::shared_ptr<const Origin> origin_;
};

inline const Type& Tensor::type() const { return graph->type(id); }

// Structural equality: same nodes, attributes, types, inputs and outputs in the same order.
bool same_graph(const Graph& a, const Graph& b);

// One line per node: %7 = rms_norm(%3, %4) {eps=1e-05} : f32[2, 16]  # layers/norm model.cc:37
std::string to_string(const Graph& graph);

// Checks order, arities, and every type against the op's infer; throws InternalError with the name
// of the pass. Cheap; run after every pass in tests and with LAMINA_CHECK=max.
void verify(const Graph& graph, std::string_view after_pass);

}  // namespace lamina
