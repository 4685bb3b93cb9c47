#include "device/cpu.h"

#include "backends/cpu/backend.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/limits.h"
#include "backends/cpu/threads/memory.h"
#include "backends/cpu/threads/threads.h"
#include "core/cpu_mask.h"

namespace lamina::device {
namespace {

static_assert(kMaxThreads == cpu::kMaxThreads);

class CpuMemory final : public MemoryPasses {
 public:
  std::size_t bytes() const override { return reader_.bytes(); }
  double pass() const override { return reader_.pass(); }

 private:
  cpu::MemoryReader reader_;
};

}  // namespace

const Backend& CpuDevice::backend() const { return cpu::cpu_backend(); }
double CpuDevice::read_bandwidth() const { return cpu::measure_read_bandwidth(); }
double CpuDevice::peak_flops(DType dtype, const formats::BlockFormat* storage) const {
  return cpu::measure_peak_flops(dtype, storage);
}
std::unique_ptr<MemoryPasses> CpuDevice::memory() const { return std::make_unique<CpuMemory>(); }
std::string_view CpuDevice::isa() const { return cpu::name(cpu::best_isa()); }
void CpuDevice::set_threads(int count, bool pinned) const { cpu::set_threads(count, pinned); }
int CpuDevice::num_threads() const { return cpu::num_threads(); }
void CpuDevice::unpin_this_thread() const { lamina::unpin_this_thread(); }
std::uint64_t CpuDevice::available_memory() const { return cpu::available_memory_bytes(); }
std::uint64_t CpuDevice::resident_memory() const { return cpu::resident_memory_bytes(); }

void CpuDevice::parallel_ranges(std::int64_t count, std::int64_t grain,
                                const std::function<void(std::int64_t, std::int64_t)>& fn) const {
  cpu::parallel_ranges(count, grain, fn);
}

}  // namespace lamina::device
