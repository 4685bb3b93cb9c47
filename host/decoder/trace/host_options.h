// What BlockOptions change in a block while it is traced, so that no plugin has a line of it.
// Private to decoder.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/error.h"
#include "decoder/roles/block_options.h"
#include "registry/trace.h"

namespace lamina::decoder {

// x times one mask for all tokens of a row (all streams of a token), so that channels are kept or
// dropped: what `draw` makes of ones.
Tensor drop_channels(Tensor x, const std::function<Tensor(Tensor ones)>& draw);

// A key of the host does not go with what the block is made of. Thrown while a plugin builds, which
// is not to blame: trace_block() makes it a UserError (exit 2).
struct RefusedOption {
  ErrorText text;
};

class HostOptions {
 public:
  // Zeroes elements of x at random; every call draws apart from the others.
  using Draw = std::function<Tensor(Tensor x, double rate)>;

  // Without `training` nothing drops out.
  HostOptions(const BlockOptions& options, bool training, Draw draw);

  void note_param(Tensor param, const registry::ParamDesc& desc);
  // What stands for x in x times `weight`: the last matrix of a feed-forward gets fewer channels.
  Tensor linear_input(Tensor x, Tensor weight) const;

  // The attributes of an op with those that the options give it. RefusedOption where a block has
  // what they say already, or something that they do not go with.
  registry::NamedAttrs attrs(const Op& op, std::span<const Tensor> inputs,
                             const registry::NamedAttrs& given);
  // Whether the block has attention, or rotary positions, so far.
  bool attends() const { return attends_; }
  bool rotates() const { return rotates_; }
  // What stands for `results` of an op: attention with dropout is made of smaller ops.
  std::vector<Tensor> results(std::vector<Tensor> results) const;

  // What stands for the results of a layer that `input` enters, [0] of them being what leaves it.
  std::vector<Tensor> of_layer(Tensor input, std::vector<Tensor> results) const;

 private:
  Tensor without_channels(Tensor x) const;
  registry::NamedAttrs capped(const registry::NamedAttrs& given) const;
  registry::NamedAttrs stretched(const Op& op, std::span<const Tensor> inputs,
                                 const registry::NamedAttrs& given) const;

  BlockOptions options_;
  Draw draw_;
  std::vector<ValueId> mlp_outputs_;  // matrices
  bool attends_ = false, rotates_ = false;
};

}  // namespace lamina::decoder
