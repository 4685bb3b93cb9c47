// random and dropout: the numbers of the CPU's streams (backends/cpu/random/random.h), so that a
// mask does not depend on the device. Number i is word (i / 16) % 4 of the Philox block with
// counter 16 (i / 64) + i % 16. Bound by memory, then by the ten rounds for four numbers: a thread
// computes one block, and sixteen threads write neighbours.
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/random/params.h"
#include "core/split_mix.h"

namespace lamina::cuda {
namespace {

struct RandomKey {
  std::uint64_t seed, stream;
};

// Steps of one run, and runs, are far apart.
LAMINA_GPU_FUNCTION RandomKey key_of(const RandomParams& p) {
  const gpu::Global<const std::int64_t> seed(p.seed);
  const gpu::Global<const std::int32_t> layer(p.layer);
  const auto run = static_cast<std::uint64_t>(seed[0]), step = static_cast<std::uint64_t>(seed[1]);
  const auto number = static_cast<std::uint64_t>(layer ? layer[0] : 0) & 0xffffff;
  return {split_mix_bits(split_mix_bits(run) + step * kSplitMixStep),
          (static_cast<std::uint64_t>(p.stream) & 0xffffffff) << 24 | number};
}

struct PhiloxWords {
  std::uint32_t w[4];
};

// Philox4x32-10; Salmon et al. 2011.
LAMINA_GPU_FUNCTION PhiloxWords philox(const RandomKey& key, std::uint64_t block) {
  PhiloxWords c = {{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                    static_cast<std::uint32_t>(key.stream),
                    static_cast<std::uint32_t>(key.stream >> 32)}};
  auto k0 = static_cast<std::uint32_t>(key.seed), k1 = static_cast<std::uint32_t>(key.seed >> 32);
  LAMINA_GPU_UNROLL
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{c.w[0]} * 0xd2511f53u;
    const std::uint64_t p1 = std::uint64_t{c.w[2]} * 0xcd9e8d57u;
    c = {{static_cast<std::uint32_t>(p1 >> 32) ^ c.w[1] ^ k0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c.w[3] ^ k1, static_cast<std::uint32_t>(p0)}};
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return c;
}

// Calls visit(i, bits of number i) for the elements of this thread.
template <typename Visit>
LAMINA_GPU_FUNCTION void for_numbers(const RandomParams& p, const Visit& visit) {
  const RandomKey key = key_of(p);
  const std::int64_t blocks = (p.num_elements + 63) / 64 * 16;
  for (std::int64_t block = gpu::first_index(); block < blocks; block += gpu::num_indices()) {
    const PhiloxWords words = philox(key, static_cast<std::uint64_t>(block));
    const std::int64_t first = block / 16 * 64 + block % 16;
    LAMINA_GPU_UNROLL
    for (int k = 0; k < 4; ++k) {
      const std::int64_t i = first + 16 * k;
      if (i < p.num_elements) visit(i, words.w[k]);
    }
  }
}

// A dropped infinity is 0 as well, not NaN.
template <typename T>
LAMINA_GPU_FUNCTION void drop(const RandomParams& p) {
  using W = gpu::Wide<T>;
  const gpu::Global<const T> x(p.x);
  const gpu::Global<T> y(p.y);
  const W scale = static_cast<W>(p.scale);
  for_numbers(p, [&](std::int64_t i, std::uint32_t bits) {
    gpu::store(y, i, bits >= p.threshold ? gpu::load(x, i) * scale : W{0});
  });
}

}  // namespace

LAMINA_GPU_KERNEL(random_f32, RandomParams) {
  const gpu::Global<float> y(p.y);
  for_numbers(p, [&](std::int64_t i, std::uint32_t bits) {
    y[i] = static_cast<float>(bits >> 8) * 0x1p-24f;
  });
}
LAMINA_GPU_KERNEL(dropout_f32, RandomParams) { drop<float>(p); }
LAMINA_GPU_KERNEL(dropout_bf16, RandomParams) { drop<gpu::bfloat16>(p); }
LAMINA_GPU_KERNEL(dropout_f16, RandomParams) { drop<gpu::float16>(p); }
LAMINA_GPU_KERNEL(dropout_f64, RandomParams) { drop<double>(p); }

}  // namespace lamina::cuda
