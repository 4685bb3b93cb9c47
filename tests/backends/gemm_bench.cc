// Prints the speed of the products of decoding, prefill and training, and its share of the measured
// limits; for lamina's tiled products also oneDNN's time divided by lamina's, measured in turn. Not
// a test. Usage: gemm_bench [decode|batch|prefill|train|stored|all] [threads]
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/onednn.h"
#include "backends/cpu/stored/stored_rows.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/limits.h"
#include "backends/cpu/threads/threads.h"
#include "formats/fast_products.h"

namespace lamina::cpu {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// 2 MiB pages, never given back: the program is short.
std::byte* allocate(std::size_t num_bytes, std::size_t fill_from = 0) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  num_bytes = (num_bytes + 2 * kHuge) / kHuge * kHuge;
  void* memory =
      mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(memory, num_bytes, MADV_HUGEPAGE);
  auto* bytes = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(memory) + kHuge - 1) / kHuge * kHuge);
  // The same bits are an ordinary value in bf16 and in f32.
  auto* words = reinterpret_cast<std::uint16_t*>(bytes);
  for (std::size_t i = fill_from; i < (num_bytes - kHuge) / 2; ++i)
    words[i] = static_cast<std::uint16_t>(0x3c00 | (i * 2654435761u >> 24));
  return bytes;
}

struct Limits {
  double read, bf16, f32, int8, int4;
};

// Weights come from memory, as in a model: every run takes the next of many copies.
class Weights {
 public:
  Weights() : memory_(allocate(kBytes)) {}
  const std::byte* next(std::size_t num_bytes) {
    if (at_ + num_bytes > kBytes) at_ = 0;
    const std::byte* copy = memory_ + at_;
    at_ += (num_bytes + 4095) / 4096 * 4096;
    return copy;
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{640} << 20;
  std::byte* memory_;
  std::size_t at_ = 0;
};

std::size_t bytes_of_weights(const GemmSpec& s) {
  return static_cast<std::size_t>(bytes_of_values(s.b_stored, s.in, s.n * s.k));
}

// The operands of a product and a kernel for it.
class Product {
 public:
  Product(const GemmSpec& spec, std::unique_ptr<Gemm> gemm, Weights& weights)
      : weights_(weights),
        weight_bytes_(bytes_of_weights(spec)),
        a_(bytes(spec.m * spec.k, spec.in)),
        c_(bytes(spec.m * spec.n, spec.out)),
        bias_(bytes(spec.n, DType::f32)),
        workspace_(gemm->workspace_bytes()),
        gemm_(std::move(gemm)) {}

  double seconds(int runs) {
    const double start = now_seconds();
    for (int i = 0; i < runs; ++i)
      gemm_->run(a_.data, weights_.next(weight_bytes_), bias_.data, c_.data, workspace_.data);
    return (now_seconds() - start) / runs;
  }
  std::string_view kernel() const { return gemm_->kernel(); }

 private:
  struct Memory {
    explicit Memory(std::size_t n) : size(n), data(allocate(n)) {}
    ~Memory() { munmap(data, size); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    std::size_t size;
    std::byte* data;
  };
  static std::size_t bytes(std::int64_t count, DType dtype) {
    return static_cast<std::size_t>(count * size_bytes(dtype));
  }

  Weights& weights_;
  std::size_t weight_bytes_;
  Memory a_, c_, bias_, workspace_;
  std::unique_ptr<Gemm> gemm_;
};

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

GemmSpec with_strides(GemmSpec s) {
  s.lda = s.a_transposed ? s.m : s.k;
  s.ldb = s.b_transposed ? s.k : s.n;
  s.ldc = s.n;
  return s;
}

void measure(const char* what, const GemmSpec& spec, Weights& weights, const Limits& limits) {
  std::string why;
  auto gemm = make_gemm(spec, &why);
  if (gemm == nullptr) {
    fmt::print("{}: {}\n", what, why);
    return;
  }
  std::unique_ptr<Gemm> peer;
  if (gemm->kernel().starts_with("tiles")) peer = make_onednn_gemm(with_strides(spec), &why);
  Product ours(spec, std::move(gemm), weights);
  std::optional<Product> onednn;
  if (peer) onednn.emplace(spec, std::move(peer), weights);
  const double flops = 2.0 * static_cast<double>(spec.m * spec.n) * static_cast<double>(spec.k);
  const auto weight_bytes = static_cast<double>(bytes_of_weights(spec));
  const double peak = spec.b_stored && formats::has_small_integers(*spec.b_stored) ? limits.int4
                      : spec.b_stored                                              ? limits.int8
                      : spec.in == DType::bf16                                     ? limits.bf16
                                                                                   : limits.f32;
  const int runs =
      std::max(1, static_cast<int>(0.05 / (flops / peak + weight_bytes / limits.read)));
  std::vector<double> seconds, ratios;
  for (int repeat = 0; repeat < 5; ++repeat) {
    seconds.push_back(ours.seconds(runs));
    if (onednn) ratios.push_back(onednn->seconds(runs) / seconds.back());
  }
  const double typical = median(seconds);
  fmt::print(
      "{:4} {:7} m {:5} n {:6} k {:5}  {:20} {:9.1f} us  {:6.1f} GB/s ({:3.0f} %)  "
      "{:6.1f} GFLOP/s ({:3.0f} %){}\n",
      what, spec.b_stored ? spec.b_stored->name : name(spec.in), spec.m, spec.n, spec.k,
      ours.kernel(), typical * 1e6, weight_bytes / typical / 1e9,
      100 * weight_bytes / typical / limits.read, flops / typical / 1e9,
      100 * flops / typical / peak,
      ratios.empty() ? "" : fmt::format("  onednn {:.2f}", median(ratios)));
}

constexpr std::int64_t kWeights[][2] = {{1024, 1024}, {3072, 1024},  {1024, 3072},
                                        {4096, 4096}, {4096, 14336}, {151936, 1024}};

void measure_rows(std::vector<std::int64_t> rows, DType in, Weights& weights,
                  const Limits& limits) {
  for (std::int64_t m : rows)
    for (const auto& [n, k] : kWeights)
      if (n < 100'000 || m <= 64)
        measure("y", {.m = m, .n = n, .k = k, .in = in, .out = in}, weights, limits);
}

// The four products of a GPT-2 124M layer for 1024 tokens: forward, gradient of x, gradient of W.
void measure_training(DType in, Weights& weights, const Limits& limits) {
  constexpr std::int64_t kLinears[][2] = {{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}};
  for (const auto& [n, k] : kLinears) {
    measure("y", {.m = 1024, .n = n, .k = k, .in = in, .out = in, .bias = DType::f32}, weights,
            limits);
    measure("dx", {.m = 1024, .n = k, .k = n, .in = in, .out = in, .b_transposed = false}, weights,
            limits);
    measure("dw",
            {.m = n,
             .n = k,
             .k = 1024,
             .in = in,
             .out = DType::f32,
             .a_transposed = true,
             .b_transposed = false,
             .accumulate = true},
            weights, limits);
  }
}

// Matrices in blocks of integers with few and many rows, and their shares of the peak of their
// integers.
void measure_stored(Weights& weights, const Limits& limits) {
  constexpr std::string_view kNames[] = {"INT8_32", "INT8_128", "INT4_32", "Q4_K"};
  for (const formats::BlockFormat& format : formats::block_formats()) {
    if (std::ranges::find(kNames, format.name) == std::end(kNames)) continue;
    for (const std::int64_t m : {1, 16, 128, 512})
      for (const auto& [n, k] : kWeights)
        if (n < 100'000)
          measure("y", {.m = m, .n = n, .k = k, .b_stored = &format}, weights, limits);
  }
}

void run(std::string_view part, int threads) {
  set_threads(threads);
  const Limits limits = {measure_read_bandwidth(), measure_peak_flops(DType::bf16),
                         measure_peak_flops(DType::f32), measure_peak_flops(DType::i8),
                         measure_peak_flops(DType::bf16, formats::find_block_format(2))};
  fmt::print(
      "{} threads, {}: read {:.1f} GB/s, bf16 {:.0f} GFLOP/s, f32 {:.0f} GFLOP/s, "
      "int8 {:.0f} GOP/s, int4 {:.0f} GOP/s\n",
      num_threads(), name(best_isa()), limits.read / 1e9, limits.bf16 / 1e9, limits.f32 / 1e9,
      limits.int8 / 1e9, limits.int4 / 1e9);
  Weights weights;
  const bool all = part == "all";
  if (all || part == "decode") {
    measure_rows({1, 2, 4, 8}, DType::bf16, weights, limits);
    measure_rows({1, 4}, DType::f32, weights, limits);
    for (std::int64_t m : {1, 4, 8, 9, 16})
      measure("y kn", {.m = m, .n = 3072, .k = 1024, .b_transposed = false}, weights, limits);
  }
  if (all || part == "batch") {
    measure_rows({16, 32, 64}, DType::bf16, weights, limits);
    measure_rows({16, 64}, DType::f32, weights, limits);
  }
  if (all || part == "prefill") {
    measure_rows({65, 128, 256, 512, 1024}, DType::bf16, weights, limits);
    measure_rows({65, 512}, DType::f32, weights, limits);
  }
  if (all || part == "stored") measure_stored(weights, limits);
  if (all || part == "train") {
    measure_training(DType::bf16, weights, limits);
    measure_training(DType::f32, weights, limits);
  }
}

}  // namespace
}  // namespace lamina::cpu

int main(int argc, char** argv) {
  lamina::cpu::run(argc > 1 ? argv[1] : "all", argc > 2 ? std::atoi(argv[2]) : 0);
  return 0;
}
