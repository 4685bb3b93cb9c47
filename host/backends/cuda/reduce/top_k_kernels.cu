// The k largest elements of each row and their indices: NaNs first, then falling values, equal ones
// by rising index.
//
// An element becomes a key that is larger for an element that comes first; keys of a row differ, so
// their order is the only one. Bound by reading the row (router rows: by instructions).
// - Few elements of a short row: a warp keeps the row in registers and takes the largest key below
//   the last one, k times.
// - Long rows: a block finds the k-th key by a histogram of 8 bits per pass, mostly in four passes
//   over the row; it sorts the k keys in shared memory.
// - Everything else: a block sorts all keys in the workspace.
#include "backends/cuda/gpu/ordered_keys.h"
#include "backends/cuda/gpu/row_groups.h"
#include "backends/cuda/reduce/params.h"

namespace lamina::cuda {
namespace {

using gpu::Global;
using gpu::index_of;
using gpu::key_of;
using gpu::ordered;

template <typename T>
struct Row {
  Global<const T> x;
  Global<T> values;
  Global<std::int32_t> ids;

  LAMINA_GPU_FUNCTION Row(const TopKParams& p, std::int64_t row)
      : x(Global<const T>(p.x) + row * p.width),
        values(Global<T>(p.values) + row * p.k),
        ids(Global<std::int32_t>(p.ids) + row * p.k) {}
  LAMINA_GPU_FUNCTION void write(int place, int index) const {
    values[place] = x[index];
    ids[place] = index;
  }
};

// A warp per row; a lane keeps up to kKept keys.
template <typename T>
LAMINA_GPU_FUNCTION void in_registers(const TopKParams& p) {
  constexpr int kKept = 16;
  const std::int64_t row = gpu::first_index() / 32;
  if (row >= p.num_rows) return;
  const Row<T> r(p, row);
  std::uint64_t keys[kKept];
  LAMINA_GPU_UNROLL
  for (int c = 0; c < kKept; ++c) {
    const int i = c * 32 + gpu::lane();
    keys[c] = i < p.width ? key_of(gpu::load(r.x, i), i) : 0;
  }
  std::uint64_t last = ~std::uint64_t{0};  // above all keys
  for (int place = 0; place < p.k; ++place) {
    std::uint64_t best = 0;
    LAMINA_GPU_UNROLL
    for (int c = 0; c < kKept; ++c)
      if (keys[c] < last && keys[c] > best) best = keys[c];
    for (int mask = 16; mask > 0; mask /= 2) {
      const std::uint64_t other = gpu::shuffle_xor(best, mask);
      if (other > best) best = other;
    }
    last = best;
    if (gpu::lane() == 0) r.write(place, index_of(best));
  }
}

constexpr int kBlockThreads = 512;

// A block per row finds the keys of the k largest elements.
template <typename T>
LAMINA_GPU_FUNCTION void by_selection(const TopKParams& p) {
  LAMINA_GPU_SHARED(std::uint32_t, counts, 256);
  LAMINA_GPU_SHARED(std::uint32_t, warps, 8);
  LAMINA_GPU_SHARED(std::uint32_t, choice, 3);  // a digit, its count, and the keys above it
  const auto best = gpu::dynamic_shared<std::uint64_t>();  // [padded]
  const Row<T> r(p, gpu::block_index());
  const int thread = gpu::thread_index();
  std::uint64_t prefix = 0, mask = 0;
  auto missing = static_cast<std::uint32_t>(p.k);
  for (int shift = 56; shift >= 0; shift -= 8) {
    if (thread < 256) counts[thread] = 0;
    gpu::sync();
    for (int i = thread; i < p.width; i += kBlockThreads) {
      const std::uint64_t key = key_of(gpu::load(r.x, i), i);
      if ((key & mask) == prefix)
        gpu::atomic_add(counts, static_cast<int>(key >> shift & 255), std::uint32_t{1});
    }
    gpu::sync();
    // The digit of the k-th key: keys of larger digits are fewer than those missing.
    const std::uint32_t count = thread < 256 ? std::uint32_t{counts[thread]} : 0;
    std::uint32_t through = count;  // of this digit and larger ones in the warp
    for (int distance = 1; distance < 32; distance *= 2) {
      const std::uint32_t other = gpu::shuffle_down(through, distance);
      if (gpu::lane() + distance < 32) through += other;
    }
    if (thread < 256 && gpu::lane() == 0) warps[gpu::warp_index()] = through;
    gpu::sync();
    if (thread < 256) {
      for (int w = gpu::warp_index() + 1; w < 8; ++w) through += warps[w];
      if (through >= missing && through - count < missing) {
        choice[0] = static_cast<std::uint32_t>(thread);
        choice[1] = count;
        choice[2] = through - count;
      }
    }
    gpu::sync();
    prefix |= std::uint64_t{choice[0]} << shift;
    mask |= std::uint64_t{255} << shift;
    missing -= choice[2];
    if (choice[1] == missing) break;
  }
  // All keys from `prefix` on: p.k of them.
  for (int i = thread; i < p.padded; i += kBlockThreads) best[i] = 0;
  if (thread == 0) counts[0] = 0;
  gpu::sync();
  for (int i = thread; i < p.width; i += kBlockThreads) {
    const std::uint64_t key = key_of(gpu::load(r.x, i), i);
    if (key >= prefix) best[static_cast<int>(gpu::atomic_add(counts, 0, std::uint32_t{1}))] = key;
  }
  gpu::sort<std::uint64_t>(best, p.padded, gpu::Larger{});
  for (int i = thread; i < p.k; i += kBlockThreads) r.write(i, index_of(best[i]));
}

// A key of 16 bytes, for f64.
struct WideKey {
  std::uint64_t value;
  std::int64_t index;
};

// Blocks sort the keys of whole rows.
template <typename T>
LAMINA_GPU_FUNCTION void by_sorting(const TopKParams& p) {
  const Global<WideKey> keys =
      Global<WideKey>(p.keys) + static_cast<std::int64_t>(gpu::block_index()) * p.padded;
  for (std::int64_t row = gpu::block_index(); row < p.num_rows; row += gpu::num_blocks()) {
    const Row<T> r(p, row);
    gpu::sync();  // the keys of the last row have been read
    for (int i = gpu::thread_index(); i < p.padded; i += gpu::num_threads())
      keys[i] = i < p.width ? WideKey{ordered(gpu::load(r.x, i)), i} : WideKey{0, i};
    gpu::sort<WideKey>(keys, p.padded, [](const WideKey& a, const WideKey& b) {
      return a.value != b.value ? a.value > b.value : a.index < b.index;
    });
    for (int i = gpu::thread_index(); i < p.k; i += gpu::num_threads())
      r.write(i, static_cast<int>(WideKey(keys[i]).index));
  }
}

}  // namespace

#define LAMINA_TOP_K_KERNELS(dtype, T)                                                          \
  LAMINA_GPU_KERNEL_BOUNDS(top_k_registers_##dtype, TopKParams, 256, 1) { in_registers<T>(p); } \
  LAMINA_GPU_KERNEL_BOUNDS(top_k_selection_##dtype, TopKParams, kBlockThreads, 1) {             \
    by_selection<T>(p);                                                                         \
  }                                                                                             \
  LAMINA_GPU_KERNEL_BOUNDS(top_k_sort_##dtype, TopKParams, kBlockThreads, 1) { by_sorting<T>(p); }
LAMINA_TOP_K_KERNELS(f32, float)
LAMINA_TOP_K_KERNELS(bf16, gpu::bfloat16)
LAMINA_TOP_K_KERNELS(f16, gpu::float16)
#undef LAMINA_TOP_K_KERNELS
LAMINA_GPU_KERNEL_BOUNDS(top_k_sort_f64, TopKParams, kBlockThreads, 1) { by_sorting<double>(p); }

}  // namespace lamina::cuda
