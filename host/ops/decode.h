// Decode state of ops, and the inputs that the host supplies.
//
// An op that mixes tokens has a DecodeForm in its file. Without decode state it sees the tokens of
// the call, document by document; with decode state it also sees earlier ones. One build function
// describes a block for all phases, so everything specific to decoding is here, not in plugins. See
// docs/decode_state.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace lamina::ops {

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

// Keys and values for attention: of this call, or the decode state that contains them.
struct KeysAndValues {
  Tensor k, v;
  bool ring = false;        // the state contains only the latest tokens,
  std::int64_t window = 0;  // enough for a window of this size; 0 = all
};

// A cache after the rows of this call were written.
struct WrittenCache {
  Tensor update;  // the rows
  Tensor cache;   // [B, slots, ...]
  bool ring = false;
};

// Services of a block's trace for these ops.
class DecodeContext {
 public:
  virtual ~DecodeContext() = default;
  virtual Graph& graph() = 0;
  // Properties of the phase: whether there is decode state, its tokens per row, the maximum that
  // one call writes, and whether rows contain several documents.
  virtual bool stateful() const = 0;
  virtual std::int64_t capacity() const = 0;
  virtual std::int64_t max_call_tokens() const = 0;
  virtual bool segments() const = 0;

  virtual Tensor host_input(HostInput input) = 0;
  // Returns a tensor of decode state before the call; `written` must be passed to state_output().
  virtual Tensor state_input(const std::string& name, StateKind kind, const Type& type,
                             bool ring) = 0;
  virtual void state_output(Tensor state, Tensor written) = 0;
  // Returns the keys and values of the donor layer, if this layer has one.
  virtual const std::optional<KeysAndValues>& donor() const = 0;
  // Sets the keys and values that this layer's attention uses.
  virtual void donate(const KeysAndValues& kv) = 0;

  // Caches written so far, by name: ops with the same state share them.
  std::vector<std::pair<std::string, WrittenCache>> caches;
};

// One use of an op in a block.
struct DecodeCall {
  const Op& op;
  std::vector<Tensor> inputs;  // one per input of the op (trailing ones may be omitted)
  NamedAttrs attrs;            // given by the plugin
  const StateDesc* state;      // null if the plugin gave none
  DecodeContext& context;

  Tensor& in(int i) { return inputs[static_cast<std::size_t>(i)]; }
  const Tensor& in(int i) const { return inputs[static_cast<std::size_t>(i)]; }
  // Returns the attribute, or its default.
  std::int64_t i(std::string_view attr) const;
  double f(std::string_view attr) const;

  [[noreturn]] void refuse(std::string what) const;  // throws PluginError, naming the op

  // Adds the op with its current inputs and attributes.
  std::vector<Tensor> add_node() const;
  // Adds the op that continues from a state: its inputs and attributes are those with the same
  // names, and its input `state_input` (-1: none) is `tensor`, which is overwritten by the output
  // with that input's name and the suffix "_out".
  std::vector<Tensor> add_step(OpCode step, int state_input = -1, Tensor tensor = {});

  // Returns the declared dtype of the state, or `usual`.
  DType state_dtype(DType usual) const { return state->dtype.value_or(usual); }
  // Returns the slots of a state with one per `stride` tokens, and the slot of the first row of the
  // call: rows of earlier tokens are written when the last of their tokens arrives.
  std::int64_t slots() const;
  Tensor first_slot();
  // Appends rows, one per slot, to the cache `part` of the state ("" = its only one). If only the
  // last `kept` tokens are read (0 = all), it is a ring with room for all tokens that the oldest
  // query of a call still sees.
  WrittenCache write_cache(std::string_view part, Tensor update, std::int64_t kept);
  // Returns a state of a fixed size: [B, dims...].
  Tensor fixed_state(DType dtype, std::span<const std::int64_t> dims);
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

// Adds the op, or its replacement while decoding. Throws PluginError if the plugin gives no state,
// or one of another kind or with other dims than the op requires, or one that keeps fewer tokens
// than the op reads. REQUIRES: the op has a form.
std::vector<Tensor> trace_op(DecodeCall call);

}  // namespace lamina::ops
