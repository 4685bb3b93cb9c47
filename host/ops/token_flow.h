// Which tokens the elements of a value are of, followed from op to op: where an op mixes tokens, or
// tells them apart by their place in the call, a block would be another model while decoding.
//
// The dims of an op that may be split over devices keep tokens apart: ops/split.h. An op for which
// that is no answer has a function of its own (OpDef::tokens).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/call.h"

namespace lamina::ops {

// What is counted along a dim, or along a part of one.
enum class Counted {
  same,    // elements that are all the same
  other,   // anything but tokens: channels, heads, experts
  batch,   // rows of the batch
  tokens,  // tokens of a row
  sorted,  // tokens in an order of their own: rows by expert
  places,  // numbers that are places in that order, and where its groups begin
};

struct Extent {
  Counted counted;
  std::int64_t size;  // 2 or more
  friend bool operator==(const Extent&, const Extent&) = default;
};

// Of a dim, the outermost first; several where a reshape made one dim of them, none of size 1.
using DimExtents = std::vector<Extent>;
bool has_tokens(const DimExtents& dim);
// A dim of `size` that counts `counted`.
DimExtents dim_of(Counted counted, std::int64_t size);

// Of a value: one per dim.
using Extents = std::vector<DimExtents>;
Extents extents_of(const Type& type, Counted counted);

// One node of a graph.
struct TokenFlow {
  const NodeView& node;
  std::vector<const Extents*> inputs;  // null where absent
  std::vector<Extents> outputs = {};   // to be found
  std::string mixes = {};  // what it does to tokens that may not be done; empty: nothing

  std::vector<int> reads_places = {};  // inputs that may be places of tokens: see read_places()

  const Extents& in(int i) const { return *inputs[static_cast<std::size_t>(i)]; }
  // Says that it combines the tokens along a dim of an input, or tells how many there are.
  void mix(int input, int dim);
  void count(int input, int dim);
  // Says that places of tokens, as group_rows gives them, may be in an input: rows move by them.
  void read_places(int input) { reads_places.push_back(input); }
};

// Finds `outputs` and `mixes`. An op that sees other tokens through its decode state may mix them,
// and only those that say so (read_places) may read places of tokens.
void follow_tokens(TokenFlow& flow);

// The values of a graph: what those of its inputs are is said first.
//
//   GraphFlow flow(body);
//   flow.at(body.inputs()[0].value).extents = ...;
//   flow.run();
class GraphFlow {
 public:
  struct Followed {
    Extents extents;
    std::string mixes;  // what made it depend on tokens that it may not see; empty: nothing
  };
  explicit GraphFlow(const Graph& graph) : graph_(graph), values_(graph.values().size()) {}
  Followed& at(ValueId value) { return values_[value]; }
  void run();

 private:
  const Graph& graph_;
  std::vector<Followed> values_;
};

// For OpDef::tokens: elements stay where those of input 0 are.
void keep_extents(TokenFlow& flow);

}  // namespace lamina::ops
