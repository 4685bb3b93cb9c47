#include "backends/cuda/gpus_in_use.h"

#include <algorithm>
#include <mutex>

namespace lamina::cuda {
namespace {

struct List {
  std::mutex mutex;
  std::vector<const GpuInUse*> gpus;
  static List& instance() {
    static List& list = *new List;  // GPUs may be closed at exit
    return list;
  }
};

}  // namespace

std::vector<GpuInUse> gpus_in_use() {
  List& list = List::instance();
  const std::lock_guard lock(list.mutex);
  std::vector<GpuInUse> out;
  for (const GpuInUse* gpu : list.gpus) out.push_back(*gpu);
  return out;
}

GpuInUseEntry::GpuInUseEntry(GpuInUse gpu) : gpu_(std::move(gpu)) {
  List& list = List::instance();
  const std::lock_guard lock(list.mutex);
  list.gpus.push_back(&gpu_);
}
GpuInUseEntry::~GpuInUseEntry() {
  List& list = List::instance();
  const std::lock_guard lock(list.mutex);
  std::erase(list.gpus, &gpu_);
}

}  // namespace lamina::cuda
