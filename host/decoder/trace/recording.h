// A block as it was described: its ops in the order of the build, before the host's options and the
// phase change it. Rewrites turn one recording into another; state/forms.h converts the last one to
// the graph that runs. Private to decoder.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decoder/roles/trace_phase.h"
#include "decoder/trace/block_graph.h"
#include "graph/rewrite.h"
#include "ops/custom.h"

namespace lamina::decoder {

// The current block, and the purpose of its build.
struct BlockContext {
  const TracePhase& phase;
  const BlockUse& use;

  bool is_layer() const {
    return use.kind == BlockUse::Kind::layer || use.kind == BlockUse::Kind::mtp;
  }
};

struct Recording {
  // A region over time, or the lowering of a custom op. Its ops are nodes of the graph, on
  // stand-ins (constants, its first nodes) for its inputs.
  struct Scope {
    const ops::CustomOp* op = nullptr;         // null: a region over time
    registry::NamedAttrs attrs;                // of the custom op
    std::vector<registry::StateDesc> carries;  // of a region
    std::vector<ValueId> inputs;               // outside; kNoValue for absent inputs of a custom op
    std::vector<ValueId> stand_ins;            // the carries, then one per input
    std::vector<ValueId> last;     // inside: the carries after a token, then the results
    std::vector<ValueId> outside;  // inputs of the graph in place of the results
    std::size_t first_state = 0, end_state = 0;  // declared inside a custom op

    bool is_region() const { return op == nullptr; }
  };
  // Scopes begin and end between nodes.
  struct Boundary {
    NodeId before;  // the next node
    std::size_t scope;
    bool ends;
  };
  struct Aux {
    registry::AuxDesc desc;  // without tensors
    ValueId value, other = kNoValue;
  };
  struct Update {
    registry::UpdateDesc desc;  // without a tensor
    ValueId value;
  };

  // Graph, parameters, host inputs and facts that do not depend on the phase. Ops that mix tokens
  // and ops that draw have only the plugin's inputs, and their results have the types of the phase.
  BlockGraph block;
  std::vector<Scope> scopes;
  std::vector<Boundary> boundaries;                             // in order
  std::vector<registry::StateDesc> states;                      // declared, in order
  std::map<NodeId, std::optional<registry::StateDesc>> mixing;  // ops that mix tokens
  std::vector<ValueId> carries;                                 // inputs of the block
  std::vector<ValueId> results;
  std::vector<Aux> aux;
  std::vector<Update> updates;
  std::vector<std::pair<std::string, ValueId>> records;  // by tag
  std::set<std::string> left_out;                        // parameters that nothing may read

  // Set by state/forms.h, which removes all scopes.
  std::vector<ValueId> written;    // one per state of the block
  std::vector<ValueId> stand_ins;  // for removed parameters
  // Keys and values that other layers may read.
  struct Donated {
    ValueId k, v;
    bool ring;
    std::int64_t window;
  };
  std::optional<Donated> donated;

  const Graph& graph() const { return block.graph; }
  // Returns the parameter of a value; null for other values.
  const registry::ParamDesc* param(ValueId value) const;
  // Replaces the recording's graph by `graph`, a copy of it. `moved`: records that follow another
  // value.
  void replace_graph(Graph graph, const Copier& copy, const std::map<ValueId, ValueId>& moved = {});
};

// Returns the index of an input among its graph's inputs.
inline int index_of(Tensor input) { return static_cast<int>(input.graph->value(input.id).index); }

// The matrix product that a value is: y = x weight^T + bias. Nothing for other values.
struct MatrixProduct {
  ValueId x, weight, bias;  // bias: kNoValue if there is none
};
std::optional<MatrixProduct> matrix_product(const Graph& graph, ValueId y);

// Appends a node whose results have the given types. Does not call the op's infer, which needs
// inputs that the host adds later.
std::vector<Tensor> append_node(Graph& graph, const Op& op, std::span<const Tensor> inputs,
                                const registry::NamedAttrs& attrs, std::span<const Type> results);

// Adds an input for a parameter. UserError (exit 2) if the block has one of that name.
Tensor add_param(BlockGraph& block, const registry::ParamDesc& desc, const TracePhase& phase);
// Returns the block's input of that role, added on first use. PluginError for the index of the
// layer outside of layers.
Tensor host_input(BlockGraph& block, Input role, const BlockContext& context);
// Throws "{what} is only available in layers" in entry and exit blocks.
void refuse_outside_layers(const BlockContext& context, std::string_view what);

}  // namespace lamina::decoder
