#include "backends/cuda/kernel_library.h"

#include <dlfcn.h>

#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/program_path.h"

namespace lamina::cuda {
namespace {

constexpr const char* kHowToBuild = "build the preset cuda, which needs nvcc, or use --device cpu";

const KernelLibrary& find_library() {
  const std::string path =
      (program_path().parent_path().parent_path() / "lib/lamina/lamina_cuda.so").string();
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw DeviceError(
        ExitCode::memory,
        {"cuda", fmt::format("cannot open the kernels: {}", dlerror()), {kHowToBuild}});
  const auto* found = static_cast<const KernelLibrary*>(dlsym(library, "lamina_cuda_kernels"));
  if (!found || std::strcmp(found->version, LAMINA_VERSION) != 0)
    throw DeviceError(ExitCode::memory,
                      {"cuda",
                       fmt::format("{} is of version {}; expected {}, like this program", path,
                                   found ? found->version : "unknown", LAMINA_VERSION),
                       {kHowToBuild}});
  return *found;
}

}  // namespace

std::span<const ModuleImage> open_kernel_library(const DriverApi& api) {
  static const KernelLibrary& library = find_library();
  static const std::vector<ModuleImage> images = [] {
    std::vector<ModuleImage> out;
    for (const KernelLibrary::Image& image : std::span(library.images, library.num_images))
      out.push_back({image.name, image.data});
    return out;
  }();
  int version = 0;
  check(api, api.get_version(&version), "reading the driver's version");
  if (version < library.driver_version)
    throw DeviceError(
        ExitCode::memory,
        {"cuda",
         fmt::format("the driver is for CUDA {}.{}; the kernels of this build need {}.{} or newer",
                     version / 1000, version % 1000 / 10, library.driver_version / 1000,
                     library.driver_version % 1000 / 10),
         {"install a newer driver, build with an older toolkit, or use --device cpu"}});
  return images;
}

}  // namespace lamina::cuda
