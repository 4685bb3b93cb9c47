#include "backends/cuda/modules.h"

#include <algorithm>

#include "backends/cuda/described/resources.h"
#include "backends/cuda/launch.h"

namespace lamina::cuda {

std::size_t usual_dynamic_bytes(const DriverApi& api, FunctionHandle function) {
  int fixed = 0;
  check(api, api.function_attribute(&fixed, FunctionAttribute::shared_bytes, function),
        "reading the shared memory of a kernel");
  return kUsualSharedBytes - std::min(kUsualSharedBytes, static_cast<std::size_t>(fixed));
}

Modules::Modules(const DriverApi& api, std::span<const ModuleImage> images, bool begin_early)
    : api_(api), begin_early_(begin_early) {
  for (const ModuleImage& image : images) modules_.push_back({&image});
}

Modules::~Modules() {
  for (const Module& module : modules_)
    if (module.handle) api_.unload_module(module.handle);
}

// The tables of kernels say which module has a kernel. A kernel without a row may be in any.
FunctionHandle Modules::look_up(const std::string& name) {
  const KernelResources* const row = find_resources(name);
  std::vector<Module*> order;
  for (Module& module : modules_) order.push_back(&module);
  std::ranges::stable_partition(
      order, [&](const Module* module) { return row && row->module == module->image->name; });
  for (Module* module : order) {
    if (!module->handle)
      check(api_, api_.load_module(&module->handle, module->image->data), "loading kernels");
    FunctionHandle handle = nullptr;
    const DriverResult result = api_.get_function(&handle, module->handle, name.c_str());
    if (result == DriverResult::success) return handle;
    if (result != DriverResult::not_found) check(api_, result, "looking up a kernel");
  }
  return nullptr;
}

GpuFunction* Modules::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  auto found = functions_.find(name);
  if (found == functions_.end()) {
    std::unique_ptr<GpuFunction> function;
    if (FunctionHandle handle = look_up(name))
      function = std::make_unique<GpuFunction>(
          GpuFunction{.handle = handle,
                      .name = name,
                      .max_shared_bytes = usual_dynamic_bytes(api_, handle),
                      .may_begin_early = begin_early_});
    found = functions_.emplace(name, std::move(function)).first;
  }
  return found->second.get();
}

}  // namespace lamina::cuda
