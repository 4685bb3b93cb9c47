// What BlockOptions make of dense feed-forwards: another list of activations. Private to decoder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "decoder/roles/block_options.h"
#include "decoder/trace/matrices.h"

namespace lamina::decoder {

class FeedForward {
 public:
  FeedForward(const BlockOptions& options, Matrices& matrices)
      : options_(options), matrices_(matrices) {}

  void note_param(Tensor param, const registry::ParamDesc& desc);
  // Whether `weight` is the last matrix of a feed-forward.
  bool is_last(Tensor weight) const;
  // What stands for x in x times `weight`. RefusedOption where x is made otherwise than by
  // activated products with matrices.
  Tensor hidden(Tensor x, Tensor weight);

 private:
  using Product = Matrices::Product;

  // The products that x is made of: gate and up, or one.
  std::vector<Tensor> branches(Tensor x) const;
  // Like `y`, of a matrix of its own, the `number`th more.
  Tensor another(Tensor y, std::size_t number);

  const BlockOptions& options_;
  Matrices& matrices_;
  std::vector<ValueId> last_;         // matrices
  std::map<ValueId, Tensor> hidden_;  // what stands for values
};

}  // namespace lamina::decoder
