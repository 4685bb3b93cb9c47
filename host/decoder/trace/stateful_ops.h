// Ops that mix tokens: what each becomes in a graph. Without decode state it sees the tokens of the
// call, told apart by document; with it also those that were read before.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/roles/model_graph.h"
#include "decoder/roles/trace_phase.h"
#include "registry/trace.h"

namespace lamina::decoder {

// Keys and values as attention has them: of this call, or the decode state that holds them.
struct KeysAndValues {
  Tensor k, v;
  bool ring = false;        // the state holds the latest tokens only,
  std::int64_t window = 0;  // enough for a window of so many; 0 = all
};

// What the trace of a block offers to these ops.
class MixerContext {
 public:
  virtual ~MixerContext() = default;
  virtual const TracePhase& phase() const = 0;
  virtual Graph& graph() = 0;
  virtual Tensor host_input(Role role) = 0;
  // A tensor of decode state as it is before the call; `written` must be given to state_output().
  virtual Tensor state_input(const std::string& name, registry::StateKind kind, const Type& type,
                             bool ring) = 0;
  virtual void state_output(Tensor state, Tensor written) = 0;
  // Keys and values of the layer that this one reads, if it reads another's.
  virtual const std::optional<KeysAndValues>& donor() const = 0;
  // Says what this layer's attention works on.
  virtual void donate(const KeysAndValues& kv) = 0;
};

// One use of such an op.
struct MixerCall {
  const Op& op;
  std::vector<Tensor> inputs;        // one an input of the op; those of the host are null
  registry::NamedAttrs attrs;        // those that the plugin gives
  const registry::StateDesc* state;  // null where the plugin gives none
  MixerContext& context;
};

struct MixerOp {
  std::string_view name;
  std::optional<registry::StateKind> state;  // the kind that it needs to decode
  std::vector<Tensor> (*decode)(MixerCall& call);
  // The dims that the state must have, from the op's inputs and attributes.
  std::vector<std::int64_t> (*state_dims)(MixerCall& call) = nullptr;
  // How many dims its inputs have, by name: what the forms for decoding are made of.
  std::vector<std::pair<std::string_view, int>> num_dims = {};
};

// Null for ops that treat each token by itself.
const MixerOp* find_mixer(std::string_view op);

// Adds the op, or what stands for it while decoding. Throws PluginError when the plugin gives an
// input that is the host's, or no state, or one of another kind or other dims than the op's.
std::vector<Tensor> add_mixer(const MixerOp& mixer, MixerCall call);

}  // namespace lamina::decoder
