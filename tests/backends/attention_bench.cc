// Prints the speed of attention and its share of the measured limits: prefill and training relative
// to the peak of products (half of them, if causal), decoding relative to memory read bandwidth.
// Not a test. Usage: attention_bench [threads]
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/threads/limits.h"
#include "backends/cpu/threads/threads.h"
#include "core/float16.h"

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

// Numbers in [-1, 1).
void* random_tensor(std::int64_t count, DType dtype) {
  std::byte* bytes =
      allocate(static_cast<std::size_t>(count) * static_cast<std::size_t>(size_bytes(dtype)));
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    const float x = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
    if (dtype == DType::f32)
      reinterpret_cast<float*>(bytes)[i] = x;
    else
      reinterpret_cast<bfloat16*>(bytes)[i] = to_bfloat16(x);
  }
  return bytes;
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

// Several caches are used in turn, so that they are read from memory.
void measure_decode(const char* what, AttentionSpec s, std::int64_t context, double bandwidth) {
  const std::int64_t layer_bytes = s.batch * s.kv_tokens * s.kv_heads * (s.qk_dim + s.v_dim) * 2;
  const std::int64_t layers = std::max<std::int64_t>(2, (std::int64_t{384} << 20) / layer_bytes);
  std::vector<Tensors> caches;
  for (std::int64_t i = 0; i < layers; ++i) caches.emplace_back(s);
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
  const double read =
      static_cast<double>(s.batch * context * s.kv_heads * (s.qk_dim + s.v_dim) * 2);
  fmt::print("{:34} {:5}  {:8.1f} us {:6.1f} GB/s {:3.0f} %\n", what, name(s.dtype), seconds * 1e6,
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

int run() {
  const double bf16 = measure_peak_flops(DType::bf16), f32 = measure_peak_flops(DType::f32);
  const double read = measure_read_bandwidth();
  fmt::print("{} threads: bf16 {:.0f} GF/s, f32 {:.0f} GF/s, read {:.1f} GB/s\n", num_threads(),
             bf16 * 1e-9, f32 * 1e-9, read * 1e-9);
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
  for (std::int64_t context : {512, 2048, 8192}) {
    AttentionSpec s = model(DType::bf16, 1, context, 16, 8, 128);
    s.q_tokens = 1;
    measure_decode(fmt::format("decode at {}, 16/8 of 128", context).c_str(), s, context, read);
    s.heads = s.kv_heads = 12;
    s.qk_dim = s.v_dim = 64;
    measure_decode(fmt::format("decode at {}, 12/12 of 64", context).c_str(), s, context, read);
    s.heads = 64;
    s.kv_heads = 8;
    measure_decode(fmt::format("decode at {}, 64/8 of 64", context).c_str(), s, context, read);
  }
  AttentionSpec s = model(DType::bf16, 1, 2048, 16, 8, 128);
  s.q_tokens = 4;
  measure_decode("4 tokens at 2048, 16/8 of 128", s, 2048, read);
  return 0;
}

}  // namespace
}  // namespace lamina::cpu

int main(int argc, char** argv) {
  lamina::cpu::set_threads(argc > 1 ? std::atoi(argv[1]) : 0);
  return lamina::cpu::run();
}
