#include "backends/cuda/dnn/use.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "backends/cuda/gpus_in_use.h"

namespace lamina::cuda::dnn {

Wanted wanted() {
  const char* const text = std::getenv("LAMINA_GPU_CUDNN");
  const std::string_view value = text ? text : "";
  if (value == "0") return Wanted::never;
  return value == "all" ? Wanted::all : Wanted::where_faster;
}

Verdict usable(bool backward) {
  for (const GpuInUse& gpu : gpus_in_use()) {
    const int major = gpu.capability / 10, minor = gpu.capability % 10;
    if (major < 9)
      return Verdict::no(
          fmt::format("needs a GPU of compute capability 9.0 or newer, got {}.{}", major, minor));
    if (backward && major != 9)
      return Verdict::no(fmt::format(
          "has a fixed order of sums on compute capability 9.x only, got {}.{}", major, minor));
    if (const Opened& opened = gpu.open_dnn(); !opened.api) return Verdict::no(opened.why_not);
  }
  return Verdict::yes();
}

}  // namespace lamina::cuda::dnn
