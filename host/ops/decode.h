// What ops remember of earlier tokens while decoding, and which of their inputs the host adds.
//
// An op that mixes tokens has a DecodeForm in its file. Without decode state it sees the tokens of
// the call, document by document; with it also those that were read before. One build function
// describes a block for all phases, so what is different while decoding is here, not in plugins.
// See docs/decode_state.md.
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

// What a block remembers between decoded tokens (LAMINA_STATE_*).
enum class StateKind {
#define LAMINA_STATE_KIND(name, number, text, min_dims, max_dims) name = number,
#include "lamina/state_kinds.def"
};
std::string_view to_string(StateKind kind);

// A decode state as a block declares it.
struct StateDesc {
  std::string name;  // full and unique inside the block
  StateKind kind = StateKind::kv;
  std::vector<std::int64_t> dims;  // what they are depends on the kind
  std::vector<AxisId> axes;        // one per dim
  std::int64_t window = 0;         // tokens that are read; 0 = all
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
  count,      // i32[B]: tokens of this call that are not padding; 0 = the row is left alone
};

// Keys and values as attention has them: of this call, or the decode state that holds them.
struct KeysAndValues {
  Tensor k, v;
  bool ring = false;        // the state holds the latest tokens only,
  std::int64_t window = 0;  // enough for a window of so many; 0 = all
};

// A cache after this call's rows were written to it.
struct WrittenCache {
  Tensor update;  // the rows
  Tensor cache;   // [B, slots, ...]
  bool ring = false;
};

// What the trace of a block offers to these ops.
class DecodeContext {
 public:
  virtual ~DecodeContext() = default;
  virtual Graph& graph() = 0;
  // Of the phase: whether there is decode state, its tokens per row, the maximum that
  // one call writes, and whether rows hold several documents.
  virtual bool stateful() const = 0;
  virtual std::int64_t capacity() const = 0;
  virtual std::int64_t max_call_tokens() const = 0;
  virtual bool segments() const = 0;

  virtual Tensor host_input(HostInput input) = 0;
  // A tensor of decode state as it is before the call; `written` must be given to state_output().
  virtual Tensor state_input(const std::string& name, StateKind kind, const Type& type,
                             bool ring) = 0;
  virtual void state_output(Tensor state, Tensor written) = 0;
  // Keys and values of the layer that this one reads, if it reads another's.
  virtual const std::optional<KeysAndValues>& donor() const = 0;
  // Says what this layer's attention works on.
  virtual void donate(const KeysAndValues& kv) = 0;

  // Caches written so far, by name: ops that are given one state share it.
  std::vector<std::pair<std::string, WrittenCache>> caches;
};

// One use of an op in a block.
struct DecodeCall {
  const Op& op;
  std::vector<Tensor> inputs;  // one per input of the op (trailing ones may be left out)
  NamedAttrs attrs;            // those that the plugin gave
  const StateDesc* state;      // null where the plugin gave none
  DecodeContext& context;

  Tensor& in(int i) { return inputs[static_cast<std::size_t>(i)]; }
  const Tensor& in(int i) const { return inputs[static_cast<std::size_t>(i)]; }
  // The attribute, or its default.
  std::int64_t i(std::string_view attr) const;
  double f(std::string_view attr) const;

  [[noreturn]] void refuse(std::string what) const;  // throws PluginError, naming the op

  // The op itself with its inputs and attributes as they now are.
  std::vector<Tensor> add_node() const;
  // The op that goes on from a state: its inputs and attributes are those of the same names, its
  // input `state_input` (-1: none) is `tensor` and is written over by the output that has the
  // input's name and "_out".
  std::vector<Tensor> add_step(OpCode step, int state_input = -1, Tensor tensor = {});

  // The declared dtype of the state, or `usual`.
  DType state_dtype(DType usual) const { return state->dtype.value_or(usual); }
  // Slots of a state that has one per `stride` tokens, and the slot that the first of the call's
  // rows goes to: rows of earlier tokens are written when the last of their tokens comes.
  std::int64_t slots() const;
  Tensor first_slot();
  // Appends rows, one per slot, to the cache `part` of the state ("" = its only one). When just the
  // last `kept` tokens are read (0 = all) it is a ring with room for what the oldest query of a
  // call still sees.
  WrittenCache write_cache(std::string_view part, Tensor update, std::int64_t kept);
  // A state of a fixed size: [B, dims...].
  Tensor fixed_state(DType dtype, std::span<const std::int64_t> dims);
};

// An input that the host adds (LAMINA_HOST_INPUTS), where `when` (null = always) says so.
struct HostOperand {
  int input;
  HostInput value;
  bool decoding = false;  // while decoding; otherwise outside of it
  bool (*when)(const DecodeCall&) = nullptr;
};

struct OperandDims {
  int input;
  int num_dims;
};

// Which tokens an op reads of its state.
struct Reach {
  std::int64_t window = 0;  // the last so many, that of the query included; 0 = all
  std::int64_t chunk = 0;   // those of the query's own chunk of so many; 0 = of all chunks
  std::int64_t stride = 1;  // tokens per slot

  // The last so many are enough; 0 = all.
  std::int64_t tokens() const {
    return window > 0 && chunk > 0 ? std::min(window, chunk) : std::max(window, chunk);
  }
};

struct DecodeForm {
  // Why the op needs nothing of all this; the rest is then empty.
  std::string_view none = {};
  // The kind of state that it needs to decode; nothing when it only asks the host.
  std::optional<StateKind> state = {};
  // What stands for the op while decoding; null: the op itself, with the host's inputs.
  std::vector<Tensor> (*step)(DecodeCall&) = nullptr;
  // The dims that the state must have, from inputs and attributes; null: any.
  std::vector<std::int64_t> (*state_dims)(const DecodeCall&) = nullptr;
  // Dims that inputs must have before state_dims and step may look at them.
  std::span<const OperandDims> num_dims = {};
  // Whether this use remembers anything; null: always. (A convolution of one tap does not.)
  bool (*remembers)(const DecodeCall&) = nullptr;
  std::span<const HostOperand> host = {};
  // The op works on keys and values that another layer may read, or on those of another layer:
  // k and v are these inputs.
  struct SharedKv {
    int k, v;
  };
  std::optional<SharedKv> shared_kv = {};
  // Null: all tokens, one per slot.
  Reach (*reach)(const DecodeCall&) = nullptr;
};

// Forms of ops that need none.
inline constexpr DecodeForm kEachToken{.none = "treats each token by itself"};
inline constexpr DecodeForm kTrainingOnly{.none = "part of training only"};
inline constexpr DecodeForm kContinues{.none = "goes on from decode state already"};

// Null when the op treats each token by itself.
const DecodeForm* decode_form(const Op& op);

// Adds the op, or what stands for it while decoding. Throws PluginError when the plugin gives no
// state, or one of another kind or other dims than the op's, or one that keeps fewer tokens than
// the op reads.
// REQUIRES: the op has a form.
std::vector<Tensor> trace_op(DecodeCall call);

}  // namespace lamina::ops
