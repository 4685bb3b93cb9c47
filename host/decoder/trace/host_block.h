// What a block of the host's own is built with: as a plugin's block, it is one function for
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
  // One use of an op that mixes tokens (ops/decode.h), with what it remembers while decoding.
  virtual std::vector<Tensor> mix(OpCode op, std::vector<Tensor> inputs,
                                  const registry::NamedAttrs& attrs,
                                  const registry::StateDesc& state) = 0;
  virtual Tensor name(Tensor value, const std::string& tag) = 0;  // for rematerialisation
};

// Gives the carries, which it got.
using HostBlock =
    std::function<std::vector<Tensor>(HostBuild& build, const std::vector<Tensor>& carries)>;

}  // namespace lamina::decoder
