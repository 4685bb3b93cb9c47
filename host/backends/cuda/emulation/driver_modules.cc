// The fake driver: modules and functions. Its own images have the kernels of the program.
// PTX of plugins is read for its target, its kernels and their parameters; a kernel runs as it was
// compiled for the host under the same name. Cubins are rejected.
#include <algorithm>
#include <cstring>

#include "backends/cuda/described/resources.h"
#include "backends/cuda/emulation/driver_state.h"
#include "backends/cuda/emulation/grid.h"
#include "core/error.h"

namespace lamina::cuda::emulation {
namespace {

void write_log(unsigned num_options, const LoadOption* options, void* const* values,
               const std::string& text) {
  char* log = nullptr;
  std::size_t bytes = 0;
  for (unsigned i = 0; i < num_options; ++i) {
    if (options[i] == LoadOption::error_log) log = static_cast<char*>(values[i]);
    if (options[i] == LoadOption::error_log_bytes)
      bytes = reinterpret_cast<std::uintptr_t>(values[i]);
  }
  if (log && bytes > 0) log[text.copy(log, bytes - 1)] = '\0';
}

bool is_module(ModuleHandle module) {
  DriverState& driver = DriverState::instance();
  const std::lock_guard lock(driver.mutex);
  if (current_gpu < 0) return false;
  for (const auto& [image, own] : driver.gpu(current_gpu).modules)
    if (own.get() == module) return true;
  return driver.modules.contains(module) && module->gpu == current_gpu;
}

// True if a struct of this size can hold these parameters, with padding after them.
bool has_size(const std::vector<PtxParameter>& parameters, std::size_t bytes) {
  const std::size_t used = params_bytes(parameters);
  return used <= bytes && bytes - used < alignof(std::max_align_t);
}

// Returns the kernel of a module, or null if the module has none of that name.
const gpu::EmulatedKernel* kernel_of(const DriverModule& module, const char* name) {
  if (module.image) {
    const gpu::EmulatedKernel* const kernel = find_kernel(name);
    return kernel && module_of(*kernel) == module.image->name ? kernel : nullptr;
  }
  const auto parameters = module.ptx.parameters.find(name);
  if (parameters == module.ptx.parameters.end()) return nullptr;
  const gpu::EmulatedKernel* const kernel = find_kernel(name);
  if (!kernel || !has_size(parameters->second, kernel->params_bytes))
    throw InternalError(
        {"emulated GPU",
         fmt::format("the kernel '{}' of a plugin is {}", name,
                     kernel ? "compiled for the host with parameters of another size"
                            : "not compiled for the host"),
         {}});
  return kernel;
}

}  // namespace

namespace calls {

DriverResult load_module(ModuleHandle* module, const void* image) {
  return load_module_with_log(module, image, 0, nullptr, nullptr);
}
DriverResult load_module_with_log(ModuleHandle* module, const void* image, unsigned num_options,
                                  LoadOption* options, void** values) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (const DriverResult result = refuse_in_capture(); result != DriverResult::success)
    return result;
  DriverState& driver = DriverState::instance();
  const auto own = std::ranges::find(images(), image, &ModuleImage::data);
  if (own != images().end()) {
    ++counts().loads;
    const std::lock_guard lock(driver.mutex);
    std::unique_ptr<DriverModule>& made = driver.gpu(current_gpu).modules[&*own];
    if (!made) made = std::make_unique<DriverModule>(current_gpu, &*own);
    *module = made.get();
    return DriverResult::success;
  }
  const std::string_view text(static_cast<const char*>(image));
  if (text.starts_with("\x7f"
                       "ELF"))
    return DriverResult::no_binary_for_gpu;
  auto made = std::make_unique<DriverModule>(current_gpu);
  std::string log;
  bool good = read_ptx(text, made->ptx, log);
  if (good && made->ptx.capability > capability()) {
    log =
        "ptxas fatal   : SM version specified by .target is higher than default SM version assumed";
    good = false;
  }
  write_log(num_options, options, values, log);
  if (!good) return DriverResult::invalid_ptx;
  *module = made.get();
  const std::lock_guard lock(driver.mutex);
  driver.modules.emplace(*module, std::move(made));
  return DriverResult::success;
}
DriverResult unload_module(ModuleHandle module) {
  if (!is_module(module)) return DriverResult::invalid_handle;
  DriverState& driver = DriverState::instance();
  if (!module->image) {  // all contexts of the GPU share its own modules
    const std::lock_guard lock(driver.mutex);
    std::erase_if(driver.functions,
                  [&](const auto& function) { return function.first.second == module; });
    driver.modules.erase(module);
  }
  return state();
}
DriverResult get_function(FunctionHandle* function, ModuleHandle module, const char* name) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (!is_module(module)) return DriverResult::invalid_handle;
  const gpu::EmulatedKernel* const kernel = kernel_of(*module, name);
  if (!kernel) return DriverResult::not_found;
  DriverState& driver = DriverState::instance();
  const std::lock_guard lock(driver.mutex);
  std::unique_ptr<DriverFunction>& mine = driver.functions[{kernel, module}];
  if (!mine) {
    mine = std::make_unique<DriverFunction>(DriverFunction{kernel, current_gpu});
    if (module->image) {
      mine->parameters.push_back({0, kernel->params_bytes});
      if (const KernelResources* needs = find_resources(name))
        mine->static_shared_bytes = needs->shared_bytes;
      mine->max_shared_bytes -= mine->static_shared_bytes;
    } else
      mine->parameters = module->ptx.parameters.at(name);
  }
  return *function = mine.get(), DriverResult::success;
}

DriverResult set_function_attribute(FunctionHandle function, FunctionAttribute attribute,
                                    int value) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (attribute != FunctionAttribute::max_dynamic_shared_bytes || value < 0 ||
      value + function->static_shared_bytes > shared_bytes_of_block())
    return DriverResult::invalid_value;
  return function->max_shared_bytes = value, DriverResult::success;
}
// The compiler's report has the size of static arrays, except for kernels of plugins.
DriverResult function_attribute(int* value, FunctionAttribute attribute, FunctionHandle function) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  switch (attribute) {
    case FunctionAttribute::max_threads_per_block:
      return *value = function->kernel->max_threads, DriverResult::success;
    case FunctionAttribute::shared_bytes:
      return *value = static_cast<int>(function->static_shared_bytes), DriverResult::success;
    case FunctionAttribute::max_dynamic_shared_bytes:
      return *value = static_cast<int>(function->max_shared_bytes), DriverResult::success;
  }
  return DriverResult::invalid_value;
}
// Parameters of the program's kernels are one struct.
DriverResult parameter_place(FunctionHandle function, std::size_t index, std::size_t* offset,
                             std::size_t* bytes) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (index >= function->parameters.size()) return DriverResult::invalid_value;
  *offset = function->parameters[index].offset, *bytes = function->parameters[index].bytes;
  return DriverResult::success;
}

}  // namespace calls
}  // namespace lamina::cuda::emulation
