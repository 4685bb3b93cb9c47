#include "device/workers.h"

namespace lamina::device {

Workers workers(const Device& device) {
  return [&device](std::int64_t count, const std::function<void(std::int64_t)>& work) {
    device.parallel_ranges(count, 1, [&work](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) work(i);
    });
  };
}

}  // namespace lamina::device
