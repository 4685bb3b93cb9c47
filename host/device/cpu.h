// The CPU as a device.
#pragma once

#include "device/device.h"

namespace lamina::device {

class CpuDevice : public Device {
 public:
  std::string_view name() const override { return "cpu"; }
  const Backend& backend() const override;
  double read_bandwidth() const override;
  double peak_flops(DType dtype, const formats::BlockFormat* storage = nullptr) const override;
  std::unique_ptr<MemoryPasses> memory() const override;
  std::string_view isa() const override;
  void set_threads(int count, bool pinned) const override;
  int num_threads() const override;
  void unpin_this_thread() const override;
  void parallel_ranges(std::int64_t count, std::int64_t grain,
                       const std::function<void(std::int64_t, std::int64_t)>& fn) const override;
  std::uint64_t available_memory() const override;
  std::uint64_t resident_memory() const override;
};

}  // namespace lamina::device
