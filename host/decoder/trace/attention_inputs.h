// What BlockOptions make of queries, keys and values between their matrices and attention, by a
// second look at the ops that lead there. Private to decoder.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/roles/block_options.h"
#include "decoder/trace/matrices.h"
#include "registry/trace.h"

namespace lamina::decoder {

class AttentionInputs {
 public:
  AttentionInputs(const BlockOptions& options, Matrices& matrices)
      : options_(options), matrices_(matrices) {}

  // The inputs of an op, with what stands for queries, keys and values where it reads some. Null
  // ones stay: a layer may have another's keys. RefusedOption where a block has nothing that an
  // option is about.
  std::vector<Tensor> of(const Op& op, std::span<const Tensor> inputs);

 private:
  enum class What { query, key, value };
  // The ops that lead from a matrix to attention.
  struct Chain {
    Tensor base;  // what the matrix gives
    std::vector<NodeId> nodes;
    const Matrices::Product* matrix = nullptr;  // null: none of the block gives it
  };

  Chain chain_of(Tensor x) const;
  Tensor remade(What what, Tensor x);
  Tensor shared(Tensor k, Tensor v);
  // `chain`, which gave `was`, once more from `base` on.
  Tensor replay(What what, Tensor was, const Chain& chain, Tensor base);
  Tensor normed(What what, const Chain& chain, Tensor x);
  std::optional<Tensor> changed_norm(What what, const Chain& chain, const Node& node, Tensor x);
  // The input of attention with queries q; `own` is what the block has, or null.
  Tensor sinks(Tensor q, Tensor own);
  Tensor norm_weight(What what, const Chain& chain, Tensor x);
  std::optional<bool> wanted(What what) const;
  std::optional<bool> weighted(What what) const;

  const BlockOptions& options_;
  Matrices& matrices_;
  std::map<std::array<ValueId, 2>, Tensor> made_;  // of what was there, and of keys shared
};

}  // namespace lamina::decoder
