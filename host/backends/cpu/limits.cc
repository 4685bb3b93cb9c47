// Times the loops of limits_loops.h on all threads of the pool.
#include "backends/cpu/limits.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "backends/cpu/isa.h"
#include "backends/cpu/limits_loops.h"
#include "backends/cpu/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Results of timed loops end here, so that no compiler can drop the loops.
std::atomic<std::uint64_t> sink;

// Runs function(thread) once on every thread of the pool.
template <typename Function>
void on_all_threads(const Function& function) {
  parallel_tasks(num_threads(), [&](std::int64_t, int thread) { function(thread); });
}

constexpr std::size_t kHugePage = std::size_t{2} << 20;

class Buffer {
 public:
  Buffer(std::size_t num_bytes, bool huge_pages) : mapped_bytes_(num_bytes + kHugePage) {
    mapped_ =
        mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED)
      throw DeviceError(ExitCode::memory,
                        {"bench",
                         fmt::format("no memory for a buffer of {} MiB", num_bytes >> 20),
                         {"end other programs, or raise the memory limit"}});
    madvise(mapped_, mapped_bytes_, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    const auto address = reinterpret_cast<std::uintptr_t>(mapped_);
    data_ = static_cast<std::byte*>(mapped_) + (kHugePage - address % kHugePage) % kHugePage;
  }
  ~Buffer() { munmap(mapped_, mapped_bytes_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::size_t mapped_bytes_;
  void* mapped_;
  std::byte* data_;
};

ReadLoop read_loop() {
  switch (best_isa()) {
    case Isa::avx512_bf16:
    case Isa::avx512:
      return read_memory_avx512;
    case Isa::avx2:
      return read_memory_avx2;
    case Isa::portable:
      break;
  }
  return read_memory_portable;
}

double best_read_rate(bool huge_pages, double seconds) {
  const auto last_cache = std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE));
  const auto threads = static_cast<std::size_t>(num_threads());
  const std::size_t wanted =
      std::max(std::size_t{256} << 20, 4 * static_cast<std::size_t>(last_cache));
  const std::size_t part = wanted / threads / 4096 * 4096;
  const Buffer buffer(part * threads, huge_pages);
  on_all_threads([&](int thread) {
    std::memset(buffer.data() + part * static_cast<std::size_t>(thread), 1, part);
  });
  const ReadLoop read = read_loop();
  double best = 0;
  const double end = now_seconds() + seconds;
  do {
    const double start = now_seconds();
    on_all_threads([&](int thread) {
      sink += read(buffer.data() + part * static_cast<std::size_t>(thread), part);
    });
    best = std::max(best, static_cast<double>(part * threads) / (now_seconds() - start));
  } while (now_seconds() < end);
  return best;
}

FlopLoop flop_loop(DType dtype) {
  switch (best_isa()) {
    case Isa::avx512_bf16:
      return dtype == DType::bf16 ? multiply_add_bf16_avx512 : multiply_add_avx512;
    case Isa::avx512:
      return multiply_add_avx512;
    case Isa::avx2:
      return multiply_add_avx2;
    case Isa::portable:
      break;
  }
  return multiply_add_portable;
}

}  // namespace

double measure_read_bandwidth(double seconds) {
  return std::max(best_read_rate(true, seconds / 2), best_read_rate(false, seconds / 2));
}

double measure_peak_flops(DType dtype, double seconds) {
  const FlopLoop loop = flop_loop(dtype);
  constexpr std::int64_t kRounds = 400'000;  // some milliseconds
  double best = 0;
  const double end = now_seconds() + seconds;
  do {
    std::atomic<double> operations{0};
    const double start = now_seconds();
    on_all_threads([&](int) {
      float value = 0.0f;
      operations.fetch_add(loop(kRounds, &value));
      sink += static_cast<std::uint64_t>(value);
    });
    best = std::max(best, operations.load() / (now_seconds() - start));
  } while (now_seconds() < end);
  return best;
}

}  // namespace lamina::cpu
