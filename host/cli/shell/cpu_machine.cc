#include "backends/cpu/backend.h"
#include "backends/cpu/device/isa.h"
#include "backends/cpu/device/limits.h"
#include "backends/cpu/device/memory.h"
#include "backends/cpu/device/threads.h"
#include "cli/shell/machine.h"

namespace lamina::cli {
namespace {

static_assert(kMaxThreads == cpu::kMaxThreads);

class CpuMemory final : public bench::MemoryPasses {
 public:
  std::size_t bytes() const override { return reader_.bytes(); }
  double pass() const override { return reader_.pass(); }

 private:
  cpu::MemoryReader reader_;
};

class Cpu final : public bench::Device {
 public:
  int num_threads() const override { return cpu::num_threads(); }
  std::string_view isa() const override { return cpu::name(cpu::best_isa()); }
  double read_bandwidth() const override { return cpu::measure_read_bandwidth(); }
  double peak_flops(DType dtype) const override { return cpu::measure_peak_flops(dtype); }
  std::unique_ptr<bench::MemoryPasses> memory() const override {
    return std::make_unique<CpuMemory>();
  }
  void parallel_ranges(std::int64_t count, std::int64_t grain,
                       const std::function<void(std::int64_t, std::int64_t)>& fn) const override {
    cpu::parallel_ranges(count, grain, fn);
  }
};

}  // namespace

const Machine& cpu_machine() {
  static const Cpu device;
  static const Machine machine{cpu::cpu_backend(),
                               device,
                               [](int count, bool pinned) { cpu::set_threads(count, pinned); },
                               cpu::unpin_this_thread,
                               cpu::available_memory_bytes,
                               cpu::resident_memory_bytes};
  return machine;
}

}  // namespace lamina::cli
