// Prints the speed of attention and its share of the measured limits: prefill and training relative
// to the peak of products (half of them, if causal), decoding relative to memory read bandwidth.
// Not a test. Usage: attention_bench [products|decode|all] [threads] [part of a case's name]
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/threads/limits.h"
#include "backends/cpu/threads/threads.h"
#include "core/float16.h"
#include "formats/row_formats.h"

namespace lamina::cpu {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double best_seconds(const std::function<void()>& work) {
  double best = 1e9;
  const double start = now_seconds();
  for (int i = 0; i < 3 || now_seconds() - start < 0.6; ++i) {
    const double before = now_seconds();
    work();
    best = std::min(best, now_seconds() - before);
  }
  return best;
}

// 2 MiB pages, never freed: the program is short.
std::byte* allocate(std::size_t num_bytes) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  num_bytes = (num_bytes + kHuge) / kHuge * kHuge;
  void* memory =
      mmap(nullptr, num_bytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* bytes = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(memory) + kHuge - 1) / kHuge * kHuge);
  madvise(bytes, num_bytes, MADV_HUGEPAGE);
  return bytes;
}

// Numbers in [-1, 1), repeated after a while.
void* random_tensor(std::int64_t count, DType dtype) {
  constexpr std::int64_t kDifferent = 65537;
  const auto width = static_cast<std::size_t>(size_bytes(dtype));
  const std::size_t bytes = static_cast<std::size_t>(count) * width;
  std::byte* out = allocate(bytes);
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < std::min(count, kDifferent); ++i) {
    state = state * 1664525 + 1013904223;
    const float x = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
    if (dtype == DType::f32)
      reinterpret_cast<float*>(out)[i] = x;
    else
      reinterpret_cast<bfloat16*>(out)[i] = to_bfloat16(x);
  }
  for (std::size_t done = kDifferent * width; done < bytes; done *= 2)
    std::memcpy(out + done, out, std::min(done, bytes - done));
  return out;
}

struct Tensors {
  explicit Tensors(const AttentionSpec& s)
      : q{random_tensor(s.batch * s.q_tokens * s.heads * s.qk_dim, s.dtype),
          contiguous_strides(s.q_tokens, s.heads, s.qk_dim)},
        k{random_tensor(s.batch * s.kv_tokens * s.kv_heads * s.qk_dim, s.dtype),
          contiguous_strides(s.kv_tokens, s.kv_heads, s.qk_dim)},
        v{random_tensor(s.batch * s.kv_tokens * s.kv_heads * s.v_dim, s.dtype),
          contiguous_strides(s.kv_tokens, s.kv_heads, s.v_dim)},
        o{random_tensor(s.batch * s.q_tokens * s.heads * s.v_dim, s.dtype),
          contiguous_strides(s.q_tokens, s.heads, s.v_dim)},
        lse(static_cast<float*>(random_tensor(s.batch * s.heads * s.q_tokens, DType::f32))) {}
  AttentionInput q, k, v;
  AttentionOutput o;
  float* lse;
};

AttentionInput input(const AttentionOutput& x) { return {x.data, x.strides}; }

void measure_products(const char* what, const AttentionSpec& s, double peak) {
  const Tensors x(s), gradients(s);
  std::byte* workspace = allocate(
      std::max(attention_forward_workspace_bytes(s), attention_backward_workspace_bytes(s)));
  const AttentionForwardArgs args{
      .q = x.q, .k = x.k, .v = x.v, .masks = {}, .o = x.o, .lse = x.lse};
  const double forward = best_seconds([&] { attention_forward(s, args, workspace); });
  auto output = [](const AttentionInput& t) {
    return AttentionOutput{const_cast<void*>(t.data), t.strides};
  };
  const AttentionBackwardArgs back{.q = x.q,
                                   .k = x.k,
                                   .v = x.v,
                                   .o = input(x.o),
                                   .d_o = input(gradients.o),
                                   .lse = x.lse,
                                   .masks = {},
                                   .dq = output(gradients.q),
                                   .dk = output(gradients.k),
                                   .dv = output(gradients.v)};
  const double backward = best_seconds([&] { attention_backward(s, back, workspace); });
  const double pairs = static_cast<double>(s.batch * s.heads * s.q_tokens) *
                       static_cast<double>(s.kv_tokens) * (s.causal ? 0.5 : 1);
  const double qk = 2 * pairs * static_cast<double>(s.qk_dim);
  const double pv = 2 * pairs * static_cast<double>(s.v_dim);
  fmt::print(
      "{:34} {:5}  forward {:7.3f} ms {:6.1f} GF/s {:3.0f} %   backward {:7.3f} ms {:6.1f} "
      "GF/s {:3.0f} %\n",
      what, name(s.dtype), forward * 1e3, (qk + pv) / forward * 1e-9,
      (qk + pv) / forward / peak * 100, backward * 1e3, (3 * qk + 2 * pv) / backward * 1e-9,
      (3 * qk + 2 * pv) / backward / peak * 100);
}

// Bytes of the keys and values of a token.
std::int64_t token_bytes(const AttentionSpec& s) {
  const std::int64_t head = s.cached == CachedRows::plain
                                ? (s.qk_dim + s.v_dim) * size_bytes(s.dtype)
                                : s.qk_dim + s.v_dim + 2 * formats::kRowScaleBytes;
  return s.kv_heads * head;
}

// Random numbers with the scale 1.
AttentionInput random_rows(const AttentionSpec& s, std::int64_t dim) {
  const std::int64_t row = dim + formats::kRowScaleBytes;
  const std::int64_t count = s.batch * s.kv_tokens * s.kv_heads;
  auto* bytes = static_cast<std::byte*>(random_tensor(count * row / 2 + 1, DType::bf16));
  constexpr float kScale = 1;
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(bytes + i * row, &kScale, sizeof kScale);
  return {bytes, contiguous_strides(s.kv_tokens, s.kv_heads, row)};
}

// Several caches are used in turn, so that they are read from memory.
std::string_view numbers_of(const AttentionSpec& s) {
  return s.cached == CachedRows::int8   ? "int8"
         : s.cached == CachedRows::e4m3 ? "e4m3"
                                        : name(s.dtype);
}

void measure_decode(const std::string& what, AttentionSpec s, std::int64_t context,
                    double bandwidth) {
  const std::int64_t layer_bytes = s.batch * s.kv_tokens * token_bytes(s);
  const std::int64_t layers = std::max<std::int64_t>(2, (std::int64_t{384} << 20) / layer_bytes);
  std::vector<Tensors> caches;
  for (std::int64_t i = 0; i < layers; ++i) {
    caches.emplace_back(s);
    if (s.cached == CachedRows::plain) continue;
    caches.back().k = random_rows(s, s.qk_dim);
    caches.back().v = random_rows(s, s.v_dim);
  }
  std::byte* workspace = allocate(attention_cached_workspace_bytes(s));
  const std::vector<std::int32_t> starts(static_cast<std::size_t>(s.batch),
                                         static_cast<std::int32_t>(context - s.q_tokens));
  const double seconds =
      best_seconds([&] {
        for (const Tensors& x : caches)
          attention_cached(s, {.q = x.q, .k = x.k, .v = x.v, .masks = {}, .o = x.o},
                           {starts.data(), false}, workspace);
      }) /
      static_cast<double>(layers);
  const auto read = static_cast<double>(s.batch * context * token_bytes(s));
  fmt::print("{:34} {:5}  {:8.1f} us {:6.1f} GB/s {:3.0f} %\n", what, numbers_of(s), seconds * 1e6,
             read / seconds * 1e-9, read / seconds / bandwidth * 100);
}

AttentionSpec model(DType dtype, std::int64_t batch, std::int64_t tokens, std::int64_t heads,
                    std::int64_t kv_heads, std::int64_t dim) {
  return {.dtype = dtype,
          .batch = batch,
          .q_tokens = tokens,
          .kv_tokens = tokens,
          .heads = heads,
          .kv_heads = kv_heads,
          .qk_dim = dim,
          .v_dim = dim,
          .scale = 0.125};
}

void run_products() {
  const double bf16 = measure_peak_flops(DType::bf16), f32 = measure_peak_flops(DType::f32);
  fmt::print("{} threads: bf16 {:.0f} GF/s, f32 {:.0f} GF/s\n", num_threads(), bf16 * 1e-9,
             f32 * 1e-9);
  for (DType dtype : {DType::bf16, DType::f32}) {
    const double peak = dtype == DType::bf16 ? bf16 : f32;
    measure_products("4 x 256 tokens, 12 heads of 64", model(dtype, 4, 256, 12, 12, 64), peak);
    measure_products("4 x 1024 tokens, 12 heads of 64", model(dtype, 4, 1024, 12, 12, 64), peak);
    measure_products("512 tokens, 16/8 heads of 128", model(dtype, 1, 512, 16, 8, 128), peak);
    measure_products("2048 tokens, 16/8 heads of 128", model(dtype, 1, 2048, 16, 8, 128), peak);
  }
  AttentionSpec window = model(DType::bf16, 1, 4096, 16, 8, 128);
  window.window = 512;
  measure_products("4096 tokens, window 512 (of causal)", window, bf16);
}

// The bandwidth of a machine may change: each case has its own.
void run_decode(std::string_view wanted) {
  const auto measure = [&](const std::string& what, const AttentionSpec& s, std::int64_t context) {
    if (fmt::format("{} {}", what, numbers_of(s)).find(wanted) != std::string::npos)
      measure_decode(what, s, context, measure_read_bandwidth());
  };
  for (const CachedRows cached : {CachedRows::plain, CachedRows::int8, CachedRows::e4m3})
    for (std::int64_t context : {2048, 8192}) {
      AttentionSpec s = model(DType::bf16, 1, context, 16, 8, 128);
      s.q_tokens = 1;
      s.cached = cached;
      measure(fmt::format("decode at {}, 16/8 of 128", context), s, context);
      s.heads = s.kv_heads = 12;
      s.qk_dim = s.v_dim = 64;
      measure(fmt::format("decode at {}, 12/12 of 64", context), s, context);
      s.heads = 64;
      s.kv_heads = 8;
      measure(fmt::format("decode at {}, 64/8 of 64", context), s, context);
    }
  AttentionSpec s = model(DType::bf16, 1, 2048, 16, 8, 128);
  s.q_tokens = 4;
  measure("4 tokens at 2048, 16/8 of 128", s, 2048);
}

int run(std::string_view part, std::string_view wanted) {
  if (part != "all" && part != "decode" && part != "products") {
    fmt::print(stderr, "usage: attention_bench [all|decode|products] [threads] [name]\n");
    return 2;
  }
  if (part != "decode") run_products();
  if (part != "products") run_decode(wanted);
  return 0;
}

}  // namespace
}  // namespace lamina::cpu

int main(int argc, char** argv) {
  lamina::cpu::set_threads(argc > 2 ? std::atoi(argv[2]) : 0);
  return lamina::cpu::run(argc > 1 ? argv[1] : "all", argc > 3 ? argv[3] : "");
}
