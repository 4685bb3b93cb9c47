// A region over time of a block: its body, recorded for one token, becomes the body of a scan over
// the tokens of each row. Private to decoder.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/decode.h"

namespace lamina::decoder {

// Nodes [first, end) of a graph.
struct NodeRange {
  NodeId first, end;
};

// While a region is open its ops are nodes of the block's graph, on stand-ins for carries and
// inputs; end() makes them the scan's body. No node may use them after that.
class TimeRegion {
 public:
  // Carries have the types of `states`, in `wide` unless a state gives another type; inputs are
  // [batch, tokens, ...]. Throws PluginError for others (trace/region_types.h).
  TimeRegion(ops::DecodeContext& context, std::vector<ops::StateDesc> states,
             std::vector<Tensor> inputs, DType wide, std::int64_t batch, std::int64_t tokens);

  // Returns the carries, then the inputs, of one token.
  const std::vector<Tensor>& stand_ins() const { return stand_ins_; }

  // Returns the results of all tokens, from the carries after a token and its results. REQUIRES:
  // check_region() has passed.
  std::vector<Tensor> end(std::span<const Tensor> carries, std::span<const Tensor> results);

  // Stand-ins and body. REQUIRES: end() was called.
  const NodeRange& nodes() const { return nodes_; }

 private:
  // Returns values from outside that the body uses.
  std::vector<Tensor> captured(std::span<const Tensor> wanted) const;
  bool is_inside(ValueId value) const;
  std::shared_ptr<const Graph> body(std::span<const Tensor> consts, std::span<const Tensor> carries,
                                    std::span<const Tensor> results) const;
  bool begins_documents() const { return !context_.stateful() && context_.segments(); }
  bool has_flags() const { return context_.stateful() || begins_documents(); }

  ops::DecodeContext& context_;
  std::vector<ops::StateDesc> states_;
  std::vector<Tensor> inputs_;
  std::int64_t batch_, tokens_;
  std::vector<Tensor> stand_ins_;
  NodeId first_;               // of the body
  std::vector<NodeId> order_;  // of its nodes, after end()
  NodeRange nodes_;
};

}  // namespace lamina::decoder
