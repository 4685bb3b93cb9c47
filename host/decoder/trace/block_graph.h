// The graph of one distinct block, for one phase.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decoder/roles/model_graph.h"
#include "decoder/roles/trace_phase.h"
#include "registry/trace.h"

namespace lamina::decoder {

struct BlockGraph {
  struct Param {
    registry::ParamDesc desc;
    int input;
  };
  struct State {
    std::string name;  // "kv.k"
    registry::StateKind kind;
    Type type;
    bool ring = false;
    int input;
    int output;  // written over the input
  };
  struct HostInput {
    Input role;
    int input;
    std::vector<double> values;  // of a layer constant: one per layer of the model
  };
  // Keys and values that this layer donates to others, or reads from its donor.
  struct Kv {
    Type k, v;
    bool ring = false;
    std::int64_t window = 0;
    int k_at, v_at;  // outputs if donated, inputs if read
  };
  struct Aux {
    registry::AuxDesc desc;  // without tensors
    int value;               // index of an output
    int other = -1;
  };
  struct Update {
    registry::UpdateDesc desc;  // without a tensor
    int param;                  // of params
    int output;
  };

  // The matrices of latent attention, with GraphFeatures::max_logits, by their names in the block.
  struct QueryKey {
    std::string query, key;
    std::int64_t heads, nope, query_rows, key_rows;
  };

  // A value with a tag that the phase records; several of one tag are in the order of the build.
  struct Record {
    std::string tag;
    int output;
  };

  // Inputs: carries, elements of per-layer tensors, then the rest in any order. Outputs: the
  // results of the block, then the rest.
  Graph graph;
  std::size_t num_results = 1;
  std::vector<Param> params;
  std::vector<State> states;
  std::vector<registry::StateDesc> declared_states;  // as the plugin wrote them
  std::vector<HostInput> host_inputs;
  std::optional<Kv> donated_kv, taken_kv;
  std::vector<Aux> aux;
  std::vector<Update> updates;
  std::optional<QueryKey> query_key;
  std::vector<Record> records;
  // The least length from which on a rotation depends on the length of the sequence; 0 for none.
  std::int64_t length_dependent_from = 0;
  // All of these rotations change only there, and are the same for all longer sequences.
  bool rotation_changes_once = true;
  BlockParts has;
};

// The place of a block, with all properties that its graph depends on.
struct BlockUse {
  enum class Kind { layer, entry, exit, mtp, engram };
  Kind kind = Kind::layer;
  std::uint32_t block = 0;
  std::vector<registry::Setting> overrides;
  std::optional<std::int64_t> kv_donor;  // the layer whose keys and values it reads
  bool gives_kv = false;                 // others read its keys and values
  std::size_t num_results = 0;           // of an entry
  std::int64_t layer = -1;               // the layer after an Engram block
  bool carries = false;                  // a prediction's hidden state is carry 0
  friend bool operator==(const BlockUse&, const BlockUse&) = default;
};

}  // namespace lamina::decoder
