// Finds the result types of ops that mix tokens in a phase, and errors of their forms, on a
// separate graph, so that a mistake is reported with its line while the block is recorded. Private
// to decoder.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "decoder/trace/recording.h"
#include "ops/decode.h"

namespace lamina::decoder {

class FormProbe final : private ops::DecodeContext {
 public:
  explicit FormProbe(const BlockContext& context, const BlockGraph::Kv* donor);

  // Throws PluginError and UserError as trace_op() does.
  std::vector<Type> types(const Op& op, std::span<const Tensor> inputs,
                          const registry::NamedAttrs& attrs, const registry::StateDesc* state,
                          std::shared_ptr<const Origin> origin);
  // Returns the types of an op that draws.
  std::vector<Type> types_of_draw(const Op& op, std::span<const Tensor> inputs,
                                  const registry::NamedAttrs& attrs,
                                  std::shared_ptr<const Origin> origin);

  // Number of caches so far. Caches that a lowering writes do not exist after it.
  std::size_t num_caches() const { return caches.size(); }
  void forget_caches(std::size_t from) { caches.resize(from); }

 private:
  Graph& graph() override { return graph_; }
  bool stateful() const override { return context_.phase.stateful; }
  std::int64_t capacity() const override { return context_.phase.capacity; }
  std::int64_t max_call_tokens() const override { return context_.phase.max_call_tokens; }
  bool segments() const override { return context_.phase.segments; }
  Tensor host_input(ops::HostInput input) override;
  Tensor state_input(const std::string& name, registry::StateKind kind, const Type& type,
                     bool ring) override;
  void state_output(Tensor, Tensor) override {}
  const std::optional<ops::KeysAndValues>& donor() const override { return donor_; }
  void donate(const ops::KeysAndValues& kv) override;

  Tensor stand_in(Tensor recorded);
  std::vector<Tensor> stand_ins(std::span<const Tensor> recorded);

  BlockContext context_;
  Graph graph_;
  std::map<ValueId, Tensor> stand_ins_;  // by values of the recording
  std::map<ops::HostInput, Tensor> host_inputs_;
  std::set<std::string> states_;
  std::optional<ops::KeysAndValues> donor_;
  bool donates_ = false;
};

// Returns the host's input as a role of the block.
Input role_of(ops::HostInput input);

}  // namespace lamina::decoder
