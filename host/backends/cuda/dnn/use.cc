#include "backends/cuda/dnn/use.h"

#include <fmt/format.h>

#include <cstdlib>
#include <list>
#include <mutex>
#include <string_view>

namespace lamina::cuda::dnn {

struct DnnGpu::All {
  std::mutex mutex;
  std::list<const Entry*> gpus;
  static All& instance() {
    static All& all = *new All;  // GPUs may be closed at exit
    return all;
  }
};

Wanted wanted() {
  const char* const text = std::getenv("LAMINA_GPU_CUDNN");
  const std::string_view value = text ? text : "";
  if (value == "0") return Wanted::never;
  return value == "all" ? Wanted::all : Wanted::where_faster;
}

DnnGpu::DnnGpu(int capability, OpenDnn open) : entry_{capability, open} {
  All& all = All::instance();
  const std::lock_guard lock(all.mutex);
  all.gpus.push_back(&entry_);
}
DnnGpu::~DnnGpu() {
  All& all = All::instance();
  const std::lock_guard lock(all.mutex);
  all.gpus.remove(&entry_);
}

Verdict usable(bool backward) {
  DnnGpu::All& all = DnnGpu::All::instance();
  const std::lock_guard lock(all.mutex);
  for (const DnnGpu::Entry* gpu : all.gpus) {
    const int major = gpu->capability / 10, minor = gpu->capability % 10;
    if (major < 9)
      return Verdict::no(
          fmt::format("needs a GPU of compute capability 9.0 or newer, got {}.{}", major, minor));
    if (backward && major != 9)
      return Verdict::no(fmt::format(
          "has a fixed order of sums on compute capability 9.x only, got {}.{}", major, minor));
    if (const Opened& opened = gpu->open(); !opened.api) return Verdict::no(opened.why_not);
  }
  return Verdict::yes();
}

}  // namespace lamina::cuda::dnn
