// The kernels of the backend as the driver has them: modules, loaded when the first kernel of them
// is wanted, and functions by name.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/cuda/driver/api.h"

namespace lamina::cuda {

// The compiled kernels of one file: a fatbin. Stays until the process ends.
struct ModuleImage {
  std::string_view name;  // "attention_cudnn" for attention/cudnn.cu
  const void* data;
};

// Dynamic shared bytes that a launch may have without being asked for: static arrays count, too.
std::size_t usual_dynamic_bytes(const DriverApi& api, FunctionHandle function);

// A kernel, ready to launch.
struct GpuFunction {
  FunctionHandle handle;
  std::string name;
  std::size_t max_shared_bytes;  // that a launch may have now
  bool may_begin_early = false;  // it waits for earlier launches itself: kernels of lamina
};

// [any thread with the context current]
class Modules {
 public:
  // `begin_early`: the launches of these kernels may begin before earlier ones have ended.
  Modules(const DriverApi& api, std::span<const ModuleImage> images, bool begin_early);
  // REQUIRES: the context is current.
  ~Modules();
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  // Returns the kernel of that name, or null. The function stays as long as this object.
  GpuFunction* find(const std::string& name);

 private:
  struct Module {
    const ModuleImage* image;
    ModuleHandle handle = nullptr;
  };
  FunctionHandle look_up(const std::string& name);

  const DriverApi& api_;
  const bool begin_early_;
  std::mutex mutex_;
  std::vector<Module> modules_;
  std::unordered_map<std::string, std::unique_ptr<GpuFunction>> functions_;
};

}  // namespace lamina::cuda
