#include "backends/cuda/dnn/open.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

namespace lamina::cuda::dnn {

std::string version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Opened open_api(std::span<const char* const> files) {
  void* library = nullptr;
  const char* opened = nullptr;
  for (const char* file : files) {
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    opened = file;
    if (library != nullptr) break;
  }
  if (library == nullptr) {
    const char* const error = dlerror();
    return {.api = nullptr,
            .why_not = fmt::format("cannot open cuDNN; expected {}, got '{}'",
                                   fmt::join(files, " or "), error ? error : "no file")};
  }
  auto api = std::make_unique<DnnApi>();
#define LAMINA_FIND(member, name)                                               \
  api->member = reinterpret_cast<decltype(api->member)>(dlsym(library, #name)); \
  if (api->member == nullptr)                                                   \
    return {.api = nullptr, .why_not = fmt::format("{} has no function {}", opened, #name)};
  LAMINA_CUDNN_FUNCTIONS(LAMINA_FIND)
#undef LAMINA_FIND
  if (const std::size_t version = api->version(); version < kOldestVersion)
    return {.api = nullptr,
            .why_not = fmt::format("{} is cuDNN {}; expected {} or newer", opened,
                                   version_text(version), version_text(kOldestVersion))};
  return {.api = api.release(), .why_not = {}};
}

const Opened& system_api() {
  static constexpr const char* kFiles[] = {"libcudnn.so.9"};
  static const Opened& opened = *new Opened(open_api(kFiles));
  return opened;
}

}  // namespace lamina::cuda::dnn
