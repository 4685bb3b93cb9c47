// One distinct layer as a graph of its own: what a block's build describes, traced for one phase.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decoder/model.h"
#include "registry/trace.h"

namespace lamina::decoder {

// What a trace needs to know of the call that the graph is for.
struct TracePhase {
  bool stateful = false;  // reads and writes decode state
  bool training = false;  // dropout is active
  bool segments = false;  // rows hold several documents
  std::int64_t batch = 1;
  std::int64_t tokens = 1;
  std::int64_t capacity = 1;         // of decode state, in tokens a row
  std::int64_t max_call_tokens = 1;  // the most tokens one call writes
  DType dtype = DType::f32;
  std::int64_t num_layers = 0;  // of the model
};

struct BlockGraph {
  struct Param {
    registry::ParamDesc desc;
    int input;
  };
  struct State {
    std::string name;  // "kv.k"
    Type type;
    bool ring = false;
    int input;
    int output;  // written over the input
  };
  struct HostInput {
    Role role;
    int input;
    std::vector<double> values;  // of a layer constant: one a layer of the model
  };

  Graph graph;  // input 0 and output 0 are the activations [B, T, D]
  std::vector<Param> params;
  std::vector<State> states;
  std::vector<HostInput> host_inputs;
  // The least max_positions of rotations that depend on the length of the sequence; 0 = none.
  std::int64_t length_dependent_from = 0;
};

BlockGraph trace_block(const registry::Family& family, const registry::ModelConfig& config,
                       const registry::PositionSpec& position, const TracePhase& phase);

}  // namespace lamina::decoder
