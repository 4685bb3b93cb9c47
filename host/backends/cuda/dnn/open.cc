#include "backends/cuda/dnn/open.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "backends/cuda/driver/open.h"
#include "backends/cuda/driver/shared_library.h"
#include "backends/cuda/driver/watched_calls.h"

namespace lamina::cuda::dnn {
namespace {

struct SystemDnn;

Opened watched(Opened opened) {
  if (!opened.api) return opened;
  DnnApi& api = *new DnnApi(*opened.api);
#define LAMINA_WATCH(member, name) watch<SystemDnn, &DnnApi::member>(api.member, #name);
  LAMINA_CUDNN_FUNCTIONS(LAMINA_WATCH)
#undef LAMINA_WATCH
  opened.api = &api;
  return opened;
}

}  // namespace

std::string version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Opened open_api(std::span<const char* const> files, int driver_version) {
  const SharedLibrary library(files);
  if (!library)
    return {.api = nullptr,
            .why_not = fmt::format("cannot open cuDNN; expected {}, got '{}'",
                                   fmt::join(files, " or "), library.why_not())};
  auto api = std::make_unique<DnnApi>();
#define LAMINA_FIND(member, name)        \
  if (!library.find(#name, api->member)) \
    return {.api = nullptr, .why_not = fmt::format("{} has no function {}", library.file(), #name)};
  LAMINA_CUDNN_FUNCTIONS(LAMINA_FIND)
#undef LAMINA_FIND
  if (const std::size_t version = api->version(); version < kOldestVersion)
    return {.api = nullptr,
            .why_not = fmt::format("{} is cuDNN {}; expected {} or newer", library.file(),
                                   version_text(version), version_text(kOldestVersion))};
  const int built_for = static_cast<int>(api->cuda_version());
  if (built_for / 1000 > driver_version / 1000)
    return {.api = nullptr,
            .why_not = fmt::format("{} is for CUDA {}; the driver is for {}", library.file(),
                                   built_for / 1000, driver_version / 1000)};
  return {.api = api.release(), .why_not = {}};
}

const Opened& system_api() {
  static constexpr const char* kFiles[] = {"libcudnn.so.9"};
  static const Opened& opened = *new Opened(watched(open_api(kFiles, version_of(open_driver()))));
  return opened;
}

}  // namespace lamina::cuda::dnn
