// Tracks which tokens the elements of a value belong to, from op to op. A block that mixes tokens,
// or distinguishes them by their position in the call, would compute something else while decoding.
//
// Dims of an op that may be split over devices keep tokens separate: ops/split.h. An op for which
// that is not sufficient has its own function (OpDef::tokens).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/call.h"

namespace lamina::ops {

// The things that a dim, or a part of one, enumerates.
enum class Counted {
  same,    // elements that are all equal
  other,   // anything but tokens: channels, heads, experts
  batch,   // rows of the batch
  tokens,  // tokens of a row
  sorted,  // tokens in another order: rows by expert
  places,  // positions in that order, and starts of its groups
};

struct Extent {
  Counted counted;
  std::int64_t size;  // 2 or more
  friend bool operator==(const Extent&, const Extent&) = default;
};

// The extents of a dim, outermost first; several if a reshape merged dims, none of size 1.
using DimExtents = std::vector<Extent>;
bool has_tokens(const DimExtents& dim);
// Returns a dim of `size` that enumerates `counted`.
DimExtents dim_of(Counted counted, std::int64_t size);

// The extents of a value: one entry per dim.
using Extents = std::vector<DimExtents>;
Extents extents_of(const Type& type, Counted counted);

// One node of a graph.
struct TokenFlow {
  const NodeView& node;
  std::vector<const Extents*> inputs;  // null if absent
  std::vector<Extents> outputs = {};   // the result
  std::string mixes = {};              // forbidden mixing of tokens, if any; empty: none

  std::vector<int> reads_places = {};  // inputs that may be positions of tokens: see read_places()

  const Extents& in(int i) const { return *inputs[static_cast<std::size_t>(i)]; }
  // Records that it combines the tokens along a dim of an input, or depends on their number.
  void mix(int input, int dim);
  void count(int input, int dim);
  // Allows positions of tokens, as group_rows returns them, in an input: rows are moved by them.
  void read_places(int input) { reads_places.push_back(input); }
};

// Computes `outputs` and `mixes`. An op that sees other tokens through its decode state may mix
// them, and only ops that call read_places may read positions of tokens.
void follow_tokens(TokenFlow& flow);

// Token flow through a graph; the extents of its inputs must be set first.
//
//   GraphFlow flow(body);
//   flow.at(body.inputs()[0].value).extents = ...;
//   flow.run();
class GraphFlow {
 public:
  struct Followed {
    Extents extents;
    std::string mixes;  // the op that made it depend on forbidden tokens; empty: none
  };
  explicit GraphFlow(const Graph& graph) : graph_(graph), values_(graph.values().size()) {}
  Followed& at(ValueId value) { return values_[value]; }
  void run();

 private:
  const Graph& graph_;
  std::vector<Followed> values_;
};

// For OpDef::tokens: elements stay at the positions of input 0.
void keep_extents(TokenFlow& flow);

}  // namespace lamina::ops
