// A block as it was described: its ops in the order of the build, before the host's options and the
// phase change anything. Rewrites turn one recording into another; state/forms.h makes of the last
// one what runs. Private to decoder.
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

// The block that is built, and for what.
struct BlockContext {
  const TracePhase& phase;
  const BlockUse& use;

  bool is_layer() const {
    return use.kind == BlockUse::Kind::layer || use.kind == BlockUse::Kind::mtp;
  }
};

struct Recording {
  // A region over time, or the lowering of a custom op: its ops are nodes of the graph, on
  // stand-ins (constants, the first of its nodes) for what enters it.
  struct Scope {
    const ops::CustomOp* op = nullptr;         // null: a region over time
    registry::NamedAttrs attrs;                // of the custom op
    std::vector<registry::StateDesc> carries;  // of a region
    std::vector<ValueId> inputs;               // outside; kNoValue where a custom op has none
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

  // Graph, parameters, host inputs and what is known without the phase. Ops that mix tokens and ops
  // that draw have the inputs of plugins only, and their results have the types of the phase.
  BlockGraph block;
  std::vector<Scope> scopes;
  std::vector<Boundary> boundaries;                             // in order
  std::vector<registry::StateDesc> states;                      // declared, in order
  std::map<NodeId, std::optional<registry::StateDesc>> mixing;  // ops that mix tokens
  std::vector<ValueId> carries;                                 // what enters the block
  std::vector<ValueId> results;
  std::vector<Aux> aux;
  std::vector<Update> updates;
  std::vector<std::pair<std::string, ValueId>> records;  // by tag
  std::set<std::string> left_out;                        // parameters that nothing may read

  // Filled by state/forms.h, which leaves no scopes.
  std::vector<ValueId> written;    // one per state of the block
  std::vector<ValueId> stand_ins;  // for parameters that are left out
  // Keys and values that other layers may read.
  struct Donated {
    ValueId k, v;
    bool ring;
    std::int64_t window;
  };
  std::optional<Donated> donated;

  const Graph& graph() const { return block.graph; }
  // The parameter that a value is; null for another value.
  const registry::ParamDesc* param(ValueId value) const;
  // Puts `graph`, a copy of the recording's, in its place. `moved`: records that follow another
  // value.
  void replace_graph(Graph graph, const Copier& copy, const std::map<ValueId, ValueId>& moved = {});
};

// The place of an input among those of its graph.
inline int index_of(Tensor input) { return static_cast<int>(input.graph->value(input.id).index); }

// The matrix product that gives a value: y = x weight^T + bias. Nothing for other values.
struct MatrixProduct {
  ValueId x, weight, bias;  // bias: kNoValue where there is none
};
std::optional<MatrixProduct> matrix_product(const Graph& graph, ValueId y);

// Appends a node whose results have the given types: the op's infer is not asked, which needs
// inputs that the host adds later.
std::vector<Tensor> append_node(Graph& graph, const Op& op, std::span<const Tensor> inputs,
                                const registry::NamedAttrs& attrs, std::span<const Type> results);

// Adds an input for a parameter. UserError (exit 2) where the block has one of that name.
Tensor add_param(BlockGraph& block, const registry::ParamDesc& desc, const TracePhase& phase);
// The block's input of that role, added on first use. PluginError outside of layers for the index
// of the layer.
Tensor host_input(BlockGraph& block, Input role, const BlockContext& context);
// "{what} is only available in layers" in entry and exit blocks.
void refuse_outside_layers(const BlockContext& context, std::string_view what);

}  // namespace lamina::decoder
