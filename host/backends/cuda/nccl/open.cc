#include "backends/cuda/nccl/open.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "core/error.h"

namespace lamina::cuda::nccl {
namespace {

[[noreturn]] void refuse(std::string what) {
  throw DeviceError(ExitCode::memory,
                    {"cuda",
                     std::move(what),
                     {"install NCCL 2.14 or newer for the driver's version of CUDA, or add its "
                      "folder to LD_LIBRARY_PATH; or use one GPU"}});
}

template <typename Function>
void find(void* library, const char* file, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (!function) refuse(fmt::format("{} has no function {}", file, symbol));
}

}  // namespace

NcclApi open_api(const char* file) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* const error = dlerror();
    refuse(fmt::format("cannot open NCCL, which exchanges tensors between GPUs: {}",
                       error ? error : file));
  }
  NcclApi api = {};
  find(library, file, "ncclGetVersion", api.version);
  int version = 0;
  if (api.version(&version) != NcclResult::success || version < kOldestVersion)
    refuse(fmt::format("{} is NCCL {}.{}; expected 2.14 or newer", file,
                       version < 10000 ? version / 1000 : version / 10000,
                       version < 10000 ? version % 1000 / 100 : version % 10000 / 100));
#define LAMINA_NCCL(field, symbol, parameters) find(library, file, #symbol, api.field);
#include "backends/cuda/nccl/functions.def"
#undef LAMINA_NCCL
  find(library, file, "ncclGetErrorString", api.error_text);
  find(library, file, "ncclGetLastError", api.last_error);
  return api;
}

const NcclApi& system_api() {
  static const NcclApi api = open_api("libnccl.so.2");
  return api;
}

}  // namespace lamina::cuda::nccl
