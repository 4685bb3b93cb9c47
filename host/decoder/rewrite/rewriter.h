// Copies a recording node by node and replaces some nodes; every rewrite uses it. Private to
// decoder.
//
//   Rewriter r(recording, context);
//   r.run([&](NodeId id) {
//     const Node& node = r.from().node(id);
//     if (!node.op->def->facts.rotates) return false;  // is copied
//     r.set(node.outputs[0], ...);                     // replaces its result everywhere
//     return true;
//   });
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "decoder/trace/recording.h"

namespace lamina::decoder {

// Zeroes elements of x at random; every call draws different numbers.
Tensor add_dropout(BlockGraph& block, const BlockContext& context, Tensor x, double rate);

// Returns "attention.wq" for "attention.wq.weight".
std::string_view module_of(std::string_view parameter);

// UserError (exit 2): the key cannot be combined with the block.
[[noreturn]] void refuse_option(std::string key, std::string what,
                                std::string advice = "remove it");

class Rewriter {
 public:
  Rewriter(Recording& recording, const BlockContext& context);

  // Calls change(NodeId) -> bool for each node, in order. True: it has set the values that replace
  // the node's results; false: the node is copied. New nodes have the origin of the node and are in
  // its scope. Finally the copy becomes the recording's graph.
  template <typename Change>
  void run(Change&& change) {
    begin();
    for (NodeId id = 0; id < from().nodes().size(); ++id) {
      enter(id);
      if (!change(id)) copy(id, operands(id));
    }
    end();
  }

  const Graph& from() const { return recording_.graph(); }
  Graph& graph() { return to_.graph; }
  const Recording& recording() const { return recording_; }
  const BlockContext& context() const { return context_; }

  // Returns the value that replaces an old one; null for kNoValue.
  Tensor get(ValueId old) const { return copy_.get(old); }
  std::vector<Tensor> operands(NodeId id) const { return copy_.operands(from().node(id)); }
  void set(ValueId old, Tensor now);
  // Copies the node with other operands, of the same types, and other attributes.
  void copy(NodeId id, std::span<const Tensor> operands) { copy(id, from().node(id), operands); }
  void copy(NodeId id, const Node& like, std::span<const Tensor> operands);
  // Returns the decode state of an op that mixes tokens; null for other ops.
  std::optional<registry::StateDesc>* state(NodeId id);
  // Marks the op of `result` as one that mixes tokens.
  void remember(Tensor result, std::optional<registry::StateDesc> state);
  // Moves records of the old value to the new one.
  void move_record(ValueId old, Tensor now) { moved_[old] = now.id; }

  // Adds a parameter `name` ("q_norm.weight") in the folder of `beside`'s module: "attention." for
  // "attention.wq.weight". The rest of `desc` is unchanged.
  Tensor add_param_beside(const registry::ParamDesc& beside, std::string_view name,
                          registry::ParamDesc desc);
  Tensor add_param(const registry::ParamDesc& desc);
  Tensor host_input(Input role);
  Tensor dropout(Tensor x, double rate) { return add_dropout(to_, context_, x, rate); }
  Tensor random(const Shape& shape);
  // Removes a parameter that no op reads any more. Ignores other values and kNoValue.
  void leave_out(ValueId param);
  void add_aux(registry::AuxDesc desc, Tensor value);

  // True if the current node is in a region over time.
  bool in_region() const { return num_regions_ > 0; }
  bool in_custom() const { return num_customs_ > 0; }
  // UserError (exit 2) in a scope, where queries, keys, values and feed-forwards cannot change.
  void refuse_in_scope() const;

 private:
  void begin();
  void enter(NodeId id);  // passes the boundaries before it
  void end();
  void pass_boundary();

  Recording& recording_;
  BlockContext context_;
  BlockGraph to_;  // graph, parameters and inputs of the copy
  Copier copy_;
  std::vector<Recording::Boundary> boundaries_;
  std::map<NodeId, std::optional<registry::StateDesc>> mixing_;
  std::map<ValueId, ValueId> moved_;
  std::vector<Recording::Aux> added_aux_;
  std::size_t next_boundary_ = 0;
  int num_regions_ = 0, num_customs_ = 0;
};

}  // namespace lamina::decoder
