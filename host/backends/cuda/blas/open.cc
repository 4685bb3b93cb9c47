#include "backends/cuda/blas/open.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"

namespace lamina::cuda::blas {
namespace {

[[noreturn]] void refuse(std::string what) {
  throw DeviceError(ExitCode::memory, {"cuda",
                                       std::move(what),
                                       {"install cuBLAS of CUDA 12 or 13, or add its folder to "
                                        "LD_LIBRARY_PATH; or use --device cpu"}});
}

}  // namespace

Api open_api(std::span<const char* const> files) {
  void* library = nullptr;
  const char* opened = nullptr;
  std::string last_error = "no file";
  for (const char* file : files) {
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    opened = file;
    if (library != nullptr) break;
    if (const char* error = dlerror()) last_error = error;
  }
  if (library == nullptr)
    refuse(fmt::format("cannot open cuBLASLt; expected {}, got '{}'", fmt::join(files, " or "),
                       last_error));
  Api api = {};
#define LAMINA_FIND(member, name)                                             \
  api.member = reinterpret_cast<decltype(api.member)>(dlsym(library, #name)); \
  if (api.member == nullptr) refuse(fmt::format("{} has no function {}", opened, #name));
  LAMINA_CUBLASLT_FUNCTIONS(LAMINA_FIND)
#undef LAMINA_FIND
  return api;
}

const Api& system_api() {
  static constexpr const char* kFiles[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
  static const Api api = open_api(kFiles);
  return api;
}

}  // namespace lamina::cuda::blas
