// Times the loops of limits_simd.cc on all threads of the pool.
#include "backends/cpu/threads/limits.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"
#include "formats/fast_products.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lamina::cpu {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Receives the results of timed loops, so that no compiler can remove the loops.
std::atomic<std::uint64_t> sink;

// Runs function(part) once for as many parts as the pool has threads.
template <typename Function>
void on_all_threads(const Function& function) {
  parallel_ranges(num_threads(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) function(static_cast<int>(part));
  });
}

constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Bytes that a thread reads at a time: see parallel_shares().
constexpr std::size_t kPiece = std::size_t{256} << 10;

double best_read_rate(bool huge_pages, double seconds) {
  const MemoryReader reader(huge_pages);
  double best = 0;
  const double end = now_seconds() + seconds;
  do {
    best = std::max(best, static_cast<double>(reader.bytes()) / reader.pass());
  } while (now_seconds() < end);
  return best;
}

#if defined(__x86_64__)
// Products of tiles that stay in registers: 16 x 16 sums in 32 bits, of rows and columns of 64
// bytes. Four sums of two and two operands, so that no product waits for the one before it.
template <DType dtype>
[[gnu::target("amx-tile,amx-bf16,amx-int8")]] double multiply_tiles(std::int64_t rounds,
                                                                    float* result) {
  struct Config {  // Intel's manual, volume 1, table 18-8
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  alignas(64) static constexpr Config config;
  alignas(64) static constexpr std::uint8_t zeros[1024] = {};
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, zeros, 64);
  _tile_loadd(5, zeros, 64);
  _tile_loadd(6, zeros, 64);
  _tile_loadd(7, zeros, 64);
  for (std::int64_t round = 0; round < rounds; ++round) {
    if constexpr (dtype == DType::bf16) {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    } else {
      _tile_dpbssd(0, 4, 6);
      _tile_dpbssd(1, 4, 7);
      _tile_dpbssd(2, 5, 6);
      _tile_dpbssd(3, 5, 7);
    }
  }
  alignas(64) float sums[256];
  _tile_stored(0, sums, 64);
  _tile_release();
  *result = sums[0];
  constexpr int kNumbersPerRow = dtype == DType::bf16 ? 32 : 64;
  return static_cast<double>(rounds) * 4 * 16 * 16 * kNumbersPerRow * 2;
}
#endif

FlopLoop flop_loop(DType dtype, const formats::BlockFormat* storage) {
  const LimitLoops& loops = isa_table<LimitLoops>();
  if (storage && dtype == DType::bf16 && formats::has_fast_products(*storage)) {
    if (loops.multiply_add_small_integers && formats::has_small_integers(*storage))
      return loops.multiply_add_small_integers;
    return flop_loop(DType::i8, nullptr);
  }
#if defined(__x86_64__)
  if (has_matrix_unit() && dtype == DType::bf16) return multiply_tiles<DType::bf16>;
  if (has_matrix_unit() && dtype == DType::i8) return multiply_tiles<DType::i8>;
#endif
  if (dtype == DType::bf16 && best_isa() == Isa::avx512_bf16) return loops.multiply_add_bf16;
  if (dtype == DType::i8 && loops.multiply_add_int8) return loops.multiply_add_int8;
  return loops.multiply_add;
}

}  // namespace

class MemoryReader::Pages {
 public:
  Pages(std::size_t num_bytes, bool huge_pages) : mapped_bytes_(num_bytes + kHugePage) {
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
  ~Pages() { munmap(mapped_, mapped_bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::size_t mapped_bytes_;
  void* mapped_;
  std::byte* data_;
};

MemoryReader::MemoryReader(bool huge_pages) {
  const auto last_cache = std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE));
  const std::size_t wanted =
      std::max(std::size_t{256} << 20, 4 * static_cast<std::size_t>(last_cache));
  bytes_ = wanted / kPiece * kPiece;
  pages_ = std::make_unique<Pages>(bytes_, huge_pages);
  parallel_ranges(static_cast<std::int64_t>(bytes_ / kPiece), 1,
                  [&](std::int64_t begin, std::int64_t end) {
                    std::memset(pages_->data() + static_cast<std::size_t>(begin) * kPiece, 1,
                                static_cast<std::size_t>(end - begin) * kPiece);
                  });
}

MemoryReader::~MemoryReader() = default;

std::size_t MemoryReader::bytes() const { return bytes_; }

double MemoryReader::pass() const {
  const ReadLoop read = isa_table<LimitLoops>().read;
  const double start = now_seconds();
  parallel_shares(static_cast<std::int64_t>(bytes_ / kPiece), 1, 1,
                  [&](std::int64_t begin, std::int64_t end) {
                    sink += read(pages_->data() + static_cast<std::size_t>(begin) * kPiece,
                                 static_cast<std::size_t>(end - begin) * kPiece);
                  });
  return now_seconds() - start;
}

double measure_read_bandwidth(double seconds) {
  return std::max(best_read_rate(true, seconds / 2), best_read_rate(false, seconds / 2));
}

double measure_peak_flops(DType dtype, double seconds) {
  return measure_peak_flops(dtype, nullptr, seconds);
}

double measure_peak_flops(DType dtype, const formats::BlockFormat* storage, double seconds) {
  const FlopLoop loop = flop_loop(dtype, storage);
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
