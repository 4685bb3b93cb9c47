// Compares api.h with the header of NCCL; compiled only where it is installed.
#include <nccl.h>

#include "backends/cuda/driver/same_call.h"
#include "backends/cuda/nccl/api.h"

namespace lamina::cuda::nccl {
namespace {

#define LAMINA_NCCL(field, symbol, parameters) \
  static_assert(same_call<decltype(NcclApi::field), decltype(&::symbol)>, #symbol);
#include "backends/cuda/nccl/functions.def"
#undef LAMINA_NCCL
static_assert(same_call<decltype(NcclApi::error_text), decltype(&::ncclGetErrorString)>);
static_assert(same_call<decltype(NcclApi::last_error), decltype(&::ncclGetLastError)>);

static_assert(static_cast<int>(NcclResult::success) == ncclSuccess);
static_assert(static_cast<int>(NcclResult::unhandled_cuda_error) == ncclUnhandledCudaError);
static_assert(static_cast<int>(NcclResult::system_error) == ncclSystemError);
static_assert(static_cast<int>(NcclResult::internal_error) == ncclInternalError);
static_assert(static_cast<int>(NcclResult::invalid_argument) == ncclInvalidArgument);
static_assert(static_cast<int>(NcclResult::invalid_usage) == ncclInvalidUsage);
static_assert(static_cast<int>(NcclResult::remote_error) == ncclRemoteError);
static_assert(static_cast<int>(NcclResult::in_progress) == ncclInProgress);

static_assert(static_cast<int>(NcclType::uint8) == ncclUint8);
static_assert(static_cast<int>(NcclType::float32) == ncclFloat32);
static_assert(static_cast<int>(NcclReduction::sum) == ncclSum);

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(offsetof(Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
constexpr ncclConfig_t kInitial = NCCL_CONFIG_INITIALIZER;
static_assert(kConfigMagic == kInitial.magic);
static_assert(kOldestVersion == NCCL_VERSION(2, 14, 0));

}  // namespace
}  // namespace lamina::cuda::nccl
