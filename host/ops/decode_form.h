// The form of an op while decoding: its decode state, and the inputs that the host supplies.
//
// An op that mixes tokens has a DecodeForm in its file. Without decode state it sees the tokens of
// the call, document by document; with decode state it also sees earlier ones. One build function
// describes a block for all phases, so everything specific to decoding is here, not in plugins. See
// docs/decode_state.md. ops/decode.h has the functions that build the forms.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/op.h"

namespace lamina::ops {

struct DecodeCall;

// Kinds of state of a block between decoded tokens (LAMINA_STATE_*).
enum class StateKind {
#define LAMINA_STATE_KIND(name, number, text, min_dims, max_dims) name = number,
#include "lamina/state_kinds.def"
};
std::string_view to_string(StateKind kind);

// A decode state as a block declares it.
struct StateDesc {
  std::string name;  // full and unique inside the block
  StateKind kind = StateKind::kv;
  std::vector<std::int64_t> dims;  // their meaning depends on the kind
  std::vector<AxisId> axes;        // one per dim
  std::int64_t window = 0;         // number of latest tokens that are read; 0 = all
  std::int64_t chunk = 0;
  std::int64_t stride = 1;  // tokens per slot
  std::optional<DType> dtype;
  bool quantize = true;  // may be kept in fewer bits
  friend bool operator==(const StateDesc&, const StateDesc&) = default;
};

using NamedAttrs = std::vector<std::pair<std::string_view, AttrValue>>;

// Inputs that only the host knows.
enum class HostInput {
  positions,  // i32[B, T], from 0 in each document
  segments,   // i32[B, T], from 1; 0 = padding
  start,      // i32[B]: tokens in the decode state before this call
  count,      // i32[B]: tokens of this call that are not padding; 0 = the row is not changed
};

// An input that the host adds (LAMINA_HOST_INPUTS) if `when` is null or returns true.
struct HostOperand {
  int input;
  HostInput value;
  bool decoding = false;  // only while decoding; else only otherwise
  bool (*when)(const DecodeCall&) = nullptr;
};

struct OperandDims {
  int input;
  int num_dims;
};

// The tokens that an op reads of its state.
struct Reach {
  std::int64_t window = 0;  // number of latest tokens, including the query's; 0 = all
  std::int64_t chunk = 0;   // chunk size: only tokens of the query's chunk; 0 = no chunks
  std::int64_t stride = 1;  // tokens per slot

  // Returns how many of the latest tokens are sufficient; 0 = all.
  std::int64_t tokens() const {
    return window > 0 && chunk > 0 ? std::min(window, chunk) : std::max(window, chunk);
  }
};

struct DecodeForm {
  // The reason if the op needs no form; the rest is then empty.
  std::string_view none = {};
  // The kind of state that it needs to decode; absent if it only needs inputs from the host.
  std::optional<StateKind> state = {};
  // Builds the replacement of the op while decoding; null: the op itself, with the host's inputs.
  std::vector<Tensor> (*step)(DecodeCall&) = nullptr;
  // Returns the dims that the state must have, from inputs and attributes; null: any.
  std::vector<std::int64_t> (*state_dims)(const DecodeCall&) = nullptr;
  // Numbers of dims that inputs must have before state_dims and step are called.
  std::span<const OperandDims> num_dims = {};
  // Returns whether this use has state; null: always. (A convolution with one tap has none.)
  bool (*remembers)(const DecodeCall&) = nullptr;
  std::span<const HostOperand> host = {};
  // Inputs k and v of an op whose keys and values another layer may read, or which reads
  // another layer's.
  struct SharedKv {
    int k, v;
  };
  std::optional<SharedKv> shared_kv = {};
  // Null: all tokens, one per slot.
  Reach (*reach)(const DecodeCall&) = nullptr;
};

// Forms of ops without state.
inline constexpr DecodeForm kEachToken{.none = "treats each token separately"};
inline constexpr DecodeForm kTrainingOnly{.none = "part of training only"};
inline constexpr DecodeForm kContinues{.none = "continues from decode state"};

// Returns null if the op treats each token separately.
const DecodeForm* decode_form(const Op& op);

}  // namespace lamina::ops
