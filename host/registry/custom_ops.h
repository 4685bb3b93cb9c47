// The custom ops of a plugin (ext/custom_ops.h), in our types.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lamina/ext/custom_ops.h"
#include "lamina/ext/draft/custom_ops_gpu.h"
#include "ops/custom.h"
#include "registry/family.h"

namespace lamina::registry {

struct PluginOp {
  ops::CustomOp op;
  std::unique_ptr<const ops::CustomOp> gradient;  // of the backward kernel; null without one
  std::unique_ptr<const ops::CustomKernel> forward_kernel, backward_kernel;
  std::unique_ptr<const ops::CustomGpuKernel> forward_gpu_kernel, backward_gpu_kernel;
  bool backward_reads_outputs = false;  // a backward kernel reads the outputs
  lamina_custom_op_t source;            // with zeros for fields that an older plugin does not have
};

// Reads the custom ops of a plugin, by number from LAMINA_CUSTOM_OPS on; graphs point to the
// elements. `gpu`: their kernels for GPUs, or null; a draft, so the kernels of a plugin that was
// built for another minor are not read. The plugin's memory must live as long as the process.
// Throws abi::ContractError.
CustomOps read_custom_ops(const lamina_custom_ops_t& table,
                          std::shared_ptr<const PluginIdentity> plugin,
                          const lamina_custom_ops_gpu_t* gpu = nullptr);

// Reads a kernel of the plugin for `op`. `source` must outlive it. Throws abi::ContractError.
std::unique_ptr<const ops::CustomKernel> read_kernel(const lamina_kernel_t& source,
                                                     const std::string& op, bool is_backward,
                                                     std::shared_ptr<const PluginIdentity> plugin);

using GpuImages = std::vector<ops::GpuImage>;

// Reads the images of a plugin. Throws abi::ContractError.
std::shared_ptr<const GpuImages> read_gpu_images(const lamina_custom_ops_gpu_t& table);

// Reads a kernel for GPUs of `op`. Throws abi::ContractError.
std::unique_ptr<const ops::CustomGpuKernel> read_gpu_kernel(
    const lamina_gpu_kernel_t& source, const std::string& op, bool is_backward,
    std::shared_ptr<const GpuImages> images, std::shared_ptr<const PluginIdentity> plugin);

}  // namespace lamina::registry
