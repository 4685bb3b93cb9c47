#include "backends/cuda/blas/open.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/cuda/driver/open.h"
#include "backends/cuda/driver/shared_library.h"
#include "backends/cuda/driver/watched_calls.h"
#include "core/error.h"

namespace lamina::cuda::blas {
namespace {

struct SystemBlas;

[[noreturn]] void refuse(std::string what) {
  throw DeviceError(ExitCode::memory, {"cuda",
                                       std::move(what),
                                       {"install cuBLAS of the driver's version of CUDA, or add "
                                        "its folder to LD_LIBRARY_PATH; or use --device cpu"}});
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

std::span<const char* const> files_for(int driver_version) {
  static constexpr const char* kFiles[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
  return std::span(kFiles).subspan(driver_version < 13000 ? 1 : 0);
}

const Api& system_api() {
  static const Api api = [] {
    Api out = open_api(files_for(version_of(open_driver())));
#define LAMINA_WATCH(member, name) watch<SystemBlas, &Api::member>(out.member, #name);
    LAMINA_CUBLASLT_FUNCTIONS(LAMINA_WATCH)
#undef LAMINA_WATCH
    return out;
  }();
  return api;
}

}  // namespace lamina::cuda::blas
