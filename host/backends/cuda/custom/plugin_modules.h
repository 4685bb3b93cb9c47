// Loads the GPU kernels of plugins into the driver, on one GPU.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/cuda/context.h"
#include "ops/custom.h"

namespace lamina::cuda {

// A kernel of a plugin.
struct ImageFunction : GpuFunction {
  std::size_t max_threads, static_shared_bytes;
  std::optional<std::size_t> params_bytes;  // known with a driver for CUDA 12.4 or newer
};

// [any thread with the context current]
class PluginModules {
 public:
  explicit PluginModules(const CudaContext& context) : context_(context) {}
  // REQUIRES: the context is current.
  ~PluginModules();
  PluginModules(const PluginModules&) = delete;
  PluginModules& operator=(const PluginModules&) = delete;

  // The reason why the driver does not load an image.
  struct Rejection {
    std::string what;              // empty: it is loaded
    std::vector<std::string> log;  // written by its compiler
  };

  // Loads the image at the first call. The function lives as long as this object; null if the image
  // has no function of that name, or is rejected. Throws DeviceError if memory is missing or the
  // GPU is lost.
  ImageFunction* find(const ops::GpuImage& image, const std::string& name, Rejection& rejection);

 private:
  struct Module {
    ModuleHandle handle = nullptr;
    std::unordered_map<std::string, std::unique_ptr<ImageFunction>> functions;
  };
  ModuleHandle load(const ops::GpuImage& image, Rejection& rejection) const;
  std::unique_ptr<ImageFunction> look_up(ModuleHandle module, const std::string& name) const;

  const CudaContext& context_;
  std::mutex mutex_;
  std::unordered_map<const ops::GpuImage*, Module> modules_;
};

}  // namespace lamina::cuda
