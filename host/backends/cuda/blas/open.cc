#include "backends/cuda/blas/open.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/cuda/driver/shared_library.h"
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
  const SharedLibrary library(files);
  if (!library)
    refuse(fmt::format("cannot open cuBLASLt; expected {}, got '{}'", fmt::join(files, " or "),
                       library.why_not()));
  Api api = {};
#define LAMINA_FIND(member, name)       \
  if (!library.find(#name, api.member)) \
    refuse(fmt::format("{} has no function {}", library.file(), #name));
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
