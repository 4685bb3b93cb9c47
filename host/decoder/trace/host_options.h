// What BlockOptions change in a block while it is traced, so that no plugin has a line of it.
// Private to decoder.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "decoder/roles/block_options.h"
#include "decoder/trace/attention_inputs.h"
#include "decoder/trace/feed_forward.h"
#include "decoder/trace/matrices.h"
#include "registry/trace.h"

namespace lamina::decoder {

// x times one mask for all tokens of a row (all streams of a token), so that channels are kept or
// dropped: what `draw` makes of ones.
Tensor drop_channels(Tensor x, const std::function<Tensor(Tensor ones)>& draw);

class HostOptions {
 public:
  // Zeroes elements of x at random; every call draws apart from the others.
  using Draw = std::function<Tensor(Tensor x, double rate)>;

  // Without `training` nothing drops out.
  HostOptions(const BlockOptions& options, bool training, Draw draw,
              Matrices::MakeParam make_param);
  HostOptions(const HostOptions&) = delete;
  HostOptions& operator=(const HostOptions&) = delete;

  void note_param(Tensor param, const registry::ParamDesc& desc);
  void note_product(Tensor y, const Matrices::Product& product);
  // What stands for x in x times `weight`: the last matrix of a feed-forward gets other activations
  // or fewer channels.
  Tensor linear_input(Tensor x, Tensor weight);
  // What stands for the inputs of another op.
  std::vector<Tensor> inputs(const Op& op, std::span<const Tensor> given);
  // Parameters that nothing reads any more, as far as the block has been traced.
  const std::set<std::string>& left_out() const { return matrices_.left_out(); }

  // The attributes of an op with those that the options give it. RefusedOption where a block has
  // what they say already, or something that they do not go with.
  registry::NamedAttrs attrs(const Op& op, std::span<const Tensor> inputs,
                             const registry::NamedAttrs& given);
  // Whether attention gets a mask of the chunks that it sees, made of its queries and keys. Refuses
  // what has a mask or chunks already, or no keys of its own.
  bool chooses_chunks(const Op& op, std::span<const Tensor> inputs,
                      const registry::NamedAttrs& attrs) const;
  // Tokens of a block if attention sees those of its block, too, and gets their numbers; else 0.
  // Refuses what has blocks already.
  std::int64_t block_tokens(const Op& op, std::span<const Tensor> inputs) const;
  // The decode state of an op with these attributes: windows are theirs, and where chunks are
  // chosen all keys stay.
  registry::StateDesc state(const Op& op, const registry::StateDesc& declared,
                            const registry::NamedAttrs& attrs) const;
  // Whether an op chooses experts by what a router computes, and they are to be random.
  bool chooses_experts(const Op& op, std::span<const Tensor> inputs);
  // So far.
  const BlockParts& has() const { return has_; }
  // What stands for `results` of an op: attention with dropout is made of smaller ops.
  std::vector<Tensor> results(std::vector<Tensor> results) const;

  // What stands for the results of a layer that `input` enters, [0] of them being what leaves it.
  std::vector<Tensor> of_layer(Tensor input, std::vector<Tensor> results) const;

 private:
  Tensor without_channels(Tensor x) const;
  registry::NamedAttrs of_kind(const registry::NamedAttrs& given) const;
  registry::NamedAttrs capped(const registry::NamedAttrs& given) const;
  registry::NamedAttrs partial(std::span<const Tensor> inputs,
                               const registry::NamedAttrs& given) const;
  registry::NamedAttrs stretched(const Op& op, std::span<const Tensor> inputs,
                                 const registry::NamedAttrs& given) const;

  BlockOptions options_;
  Draw draw_;
  Matrices matrices_;
  AttentionInputs attention_inputs_;
  FeedForward feed_forward_;
  std::vector<Tensor> routers_;  // matrices [E, D]
  BlockParts has_;
};

}  // namespace lamina::decoder
