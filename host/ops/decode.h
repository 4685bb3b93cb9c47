// Builds the forms of ops while decoding (ops/decode_form.h): one use of an op in a block, and the
// services of the block's trace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/decode_form.h"

namespace lamina::ops {

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
  // Returns the storage of rows of keys or values that may be kept in fewer bits; null: none.
  virtual const formats::BlockFormat* row_storage(std::int64_t /*width*/) const { return nullptr; }

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
  // query of a call still sees. Keys and values have the storage of the context, unless the state
  // forbids it or has another dtype than the rows.
  WrittenCache write_cache(std::string_view part, Tensor update, std::int64_t kept);
  // Returns the type of a cache of rows: their type, the declared dtype, the storage.
  Type cache_type(const Type& update, std::int64_t slots) const;
  // Returns a state of a fixed size: [B, dims...].
  Tensor fixed_state(DType dtype, std::span<const std::int64_t> dims);
};

// Adds the op, or its replacement while decoding. Throws PluginError if the plugin gives no state,
// or one of another kind or with other dims than the op requires, or one that keeps fewer tokens
// than the op reads. REQUIRES: the op has a form.
std::vector<Tensor> trace_op(DecodeCall call);

}  // namespace lamina::ops
