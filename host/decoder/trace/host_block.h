// The interface that builds a block of the host itself: like a plugin's block, one function for
// training, prefill and decoding. Private to decoder.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "decoder/roles/model_graph.h"
#include "registry/trace.h"

namespace lamina::decoder {

class HostBuild {
 public:
  virtual ~HostBuild() = default;
  virtual Tensor param(const registry::ParamDesc& desc) = 0;
  virtual Tensor input(Input role) = 0;
  // Marks the op of `result` as one that mixes tokens and has `state` while decoding
  // (ops/decode.h). Returns `result`.
  virtual Tensor remember(Tensor result, const registry::StateDesc& state) = 0;
  virtual Tensor name(Tensor value, const std::string& tag) = 0;  // for rematerialisation
};

// Receives the carries and returns the new ones.
using HostBlock =
    std::function<std::vector<Tensor>(HostBuild& build, const std::vector<Tensor>& carries)>;

}  // namespace lamina::decoder
