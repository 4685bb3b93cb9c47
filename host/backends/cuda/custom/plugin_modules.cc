#include "backends/cuda/custom/plugin_modules.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "core/error.h"
#include "core/printable.h"

namespace lamina::cuda {
namespace {

// True if the image is at fault, false if the GPU or its memory is.
bool is_of_image(DriverResult result) {
  switch (result) {
    case DriverResult::invalid_value:
    case DriverResult::invalid_image:
    case DriverResult::no_binary_for_gpu:
    case DriverResult::invalid_ptx:
    case DriverResult::unsupported_ptx_version:
    case DriverResult::not_found:
      return true;
    default:
      return false;
  }
}

// Returns the first lines of the compiler's log.
std::vector<std::string> lines_of(const std::string& log) {
  constexpr std::size_t kMostLines = 8;
  std::vector<std::string> out;
  std::istringstream lines(log);
  for (std::string line; out.size() < kMostLines && std::getline(lines, line);)
    if (!line.empty()) out.push_back(printable(line));
  return out;
}

}  // namespace

PluginModules::~PluginModules() {
  for (const auto& [image, module] : modules_)
    if (module.handle) context_.api().unload_module(module.handle);
}

ModuleHandle PluginModules::load(const ops::GpuImage& image, Rejection& rejection) const {
  const DriverApi& api = context_.api();
  std::array<char, 8192> log = {};
  std::array options = {LoadOption::error_log, LoadOption::error_log_bytes};
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  ModuleHandle out = nullptr;
  const DriverResult result = api.load_module_with_log(&out, image.data.data(), options.size(),
                                                       options.data(), values.data());
  if (result == DriverResult::success) return out;
  if (!is_of_image(result)) throw_driver_error(api, result, "loading the kernels of a plugin");
  rejection = {words_of(api, result), lines_of(log.data())};
  return nullptr;
}

std::unique_ptr<ImageFunction> PluginModules::look_up(ModuleHandle module,
                                                      const std::string& name) const {
  const DriverApi& api = context_.api();
  FunctionHandle handle = nullptr;
  const DriverResult found = api.get_function(&handle, module, name.c_str());
  if (found == DriverResult::not_found) return nullptr;
  check(api, found, "looking up a kernel");
  const auto attribute = [&](FunctionAttribute which) {
    int value = 0;
    check(api, api.function_attribute(&value, which, handle), "reading a limit of a kernel");
    return static_cast<std::size_t>(value);
  };
  auto out = std::make_unique<ImageFunction>();
  out->handle = handle;
  out->name = name;
  out->max_threads = attribute(FunctionAttribute::max_threads_per_block);
  out->static_shared_bytes = attribute(FunctionAttribute::shared_bytes);
  out->max_shared_bytes = usual_dynamic_bytes(api, handle);
  if (!api.parameter_place) return out;
  out->params_bytes = 0;
  for (std::size_t i = 0, offset = 0, bytes = 0;
       api.parameter_place(handle, i, &offset, &bytes) == DriverResult::success; ++i)
    out->params_bytes = offset + bytes;
  return out;
}

ImageFunction* PluginModules::find(const ops::GpuImage& image, const std::string& name,
                                   Rejection& rejection) {
  const std::lock_guard lock(mutex_);
  Module& module = modules_[&image];
  if (!module.handle) module.handle = load(image, rejection);
  if (!module.handle) return nullptr;
  auto found = module.functions.find(name);
  if (found == module.functions.end())
    found = module.functions.emplace(name, look_up(module.handle, name)).first;
  return found->second.get();
}

}  // namespace lamina::cuda
