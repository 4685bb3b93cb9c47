#include "backends/cuda/nccl/open.h"

#include <fmt/format.h>

#include "backends/cuda/driver/shared_library.h"
#include "backends/cuda/driver/watched_calls.h"
#include "core/error.h"

namespace lamina::cuda::nccl {
namespace {

struct SystemNccl;

[[noreturn]] void refuse(std::string what) {
  throw DeviceError(ExitCode::memory,
                    {"cuda",
                     std::move(what),
                     {"install NCCL 2.14 or newer for the driver's version of CUDA, or add its "
                      "folder to LD_LIBRARY_PATH; or use one GPU"}});
}

template <typename Function>
void find(const SharedLibrary& library, const char* symbol, Function& function) {
  if (!library.find(symbol, function))
    refuse(fmt::format("{} has no function {}", library.file(), symbol));
}

}  // namespace

NcclApi open_api(const char* file) {
  const char* const files[] = {file};
  const SharedLibrary library(files);
  if (!library)
    refuse(fmt::format("cannot open NCCL, which exchanges tensors between GPUs: {}",
                       library.why_not()));
  NcclApi api = {};
  find(library, "ncclGetVersion", api.version);
  int version = 0;
  if (api.version(&version) != NcclResult::success || version < kOldestVersion)
    refuse(fmt::format("{} is NCCL {}.{}; expected 2.14 or newer", file,
                       version < 10000 ? version / 1000 : version / 10000,
                       version < 10000 ? version % 1000 / 100 : version % 10000 / 100));
#define LAMINA_NCCL(field, symbol, parameters) find(library, #symbol, api.field);
#include "backends/cuda/nccl/functions.def"
#undef LAMINA_NCCL
  find(library, "ncclGetErrorString", api.error_text);
  find(library, "ncclGetLastError", api.last_error);
  return api;
}

const NcclApi& system_api() {
  static const NcclApi api = [] {
    NcclApi out = open_api("libnccl.so.2");
#define LAMINA_NCCL(field, symbol, parameters) \
  watch<SystemNccl, &NcclApi::field>(out.field, #symbol);
#include "backends/cuda/nccl/functions.def"
#undef LAMINA_NCCL
    return out;
  }();
  return api;
}

}  // namespace lamina::cuda::nccl
