// The ops that a plugin brings (ext/custom_ops.h), in values of ours.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lamina/ext/custom_ops.h"
#include "ops/custom.h"
#include "registry/family.h"

namespace lamina::registry {

struct CustomOp {
  ops::CustomOp op;
  std::unique_ptr<const ops::CustomOp> gradient;  // that of the backward kernel; null without one
  std::unique_ptr<const ops::CustomKernel> forward_kernel, backward_kernel;
  lamina_custom_op_t source;  // with zeros for what an older plugin lacks
};

// By number, from LAMINA_CUSTOM_OPS on; graphs point to their elements. Copies and checks what the
// plugin declares; what it points to lives as long as the process. Throws abi::ContractError.
CustomOps read_custom_ops(const lamina_custom_ops_t& table,
                          std::shared_ptr<const PluginIdentity> plugin);

// A kernel that the plugin has for `op`. `source` lives as long as it. Throws abi::ContractError.
std::unique_ptr<const ops::CustomKernel> read_kernel(const lamina_kernel_t& source,
                                                     const std::string& op, bool is_backward,
                                                     std::shared_ptr<const PluginIdentity> plugin);

}  // namespace lamina::registry
