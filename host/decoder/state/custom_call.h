// One use of a custom op in a block: its lowering, recorded on stand-ins for the inputs, becomes
// the body of one node. Private to decoder.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decoder/state/time_region.h"
#include "decoder/trace/block_graph.h"
#include "ops/custom.h"

namespace lamina::decoder {

// The results of the trace of a block so far, which custom ops add to.
struct TracedSoFar {
  ops::DecodeContext& context;
  BlockGraph& block;
  std::vector<registry::StateDesc>& declared;  // states, in order
  std::vector<Tensor>& written;                // one per state of the block
  std::optional<ops::KeysAndValues>& donated;
  bool gives_kv;  // another layer reads what is donated
};

// While it is open, the lowering's ops are nodes of the block's graph, and its states are the last
// states of the block. No node may use the lowering's nodes after end().
class CustomCall {
 public:
  CustomCall(TracedSoFar trace, std::span<const Tensor> inputs);

  // Returns one per input; null for absent ones.
  const std::vector<Tensor>& stand_ins() const { return stand_ins_; }

  // Returns the values that replace the results of the lowering: a node of `op`, or the lowering
  // itself if it reads inputs that kernels do not get, such as a cache of keys and values.
  std::vector<Tensor> end(const ops::CustomOp& op, const registry::NamedAttrs& attrs,
                          std::span<const Tensor> results);

  // Stand-ins and lowering. REQUIRES: end() was called.
  const NodeRange& nodes() const { return nodes_; }

 private:
  // Returns the states that the lowering continues from, in the order of their declarations.
  std::vector<std::size_t> states() const;
  std::optional<Input> role_of(Tensor input) const;
  bool is_for_kernels(std::span<const Tensor> captured, std::span<const std::size_t> states) const;

  // Marks nodes of the lowering, from the first on, that `wanted` depends on.
  std::vector<bool> alive(std::span<const Tensor> wanted) const;
  // Returns inputs of the graph that `wanted` depends on.
  std::vector<Tensor> captured(std::span<const Tensor> wanted) const;
  // Returns the body that computes `wanted` from the current inputs followed by `others`, inputs of
  // the graph.
  std::shared_ptr<const Graph> body(std::span<const Tensor> others,
                                    std::span<const Tensor> wanted) const;

  std::vector<Tensor> as_node(const ops::CustomOp& op, const registry::NamedAttrs& attrs,
                              std::span<const Tensor> captured, std::span<const std::size_t> states,
                              std::span<const Tensor> wanted);
  std::vector<Tensor> as_lowering(std::span<const Tensor> captured, std::span<const Tensor> wanted);

  TracedSoFar trace_;
  Graph& graph_;
  std::size_t first_state_, first_declared_, num_caches_;
  std::optional<ops::KeysAndValues> donated_before_;
  NodeRange nodes_;
  NodeId body_;  // after the stand-ins
  std::vector<Tensor> inputs_, stand_ins_;
};

}  // namespace lamina::decoder
