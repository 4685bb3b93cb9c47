// Distributes random numbers over threads, by whole groups.
#include "backends/cpu/random/random.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/random/random_simd.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

const RandomFunctions& functions() { return isa_table<RandomFunctions>(); }

constexpr std::int64_t kMinGroupsPerThread = 64;

}  // namespace

void random_bits(RandomStream s, std::int64_t first, std::int64_t n, std::uint32_t* bits) {
  std::uint32_t group_bits[kRandomGroup];
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t group = (first + i) / kRandomGroup, skip = (first + i) % kRandomGroup;
    const std::int64_t count = std::min(n - i, kRandomGroup - skip);
    functions().bits(s, group, 1, group_bits);
    std::copy_n(group_bits + skip, count, bits + i);
    i += count;
  }
}

void fill_uniform(RandomStream s, float low, float high, void* y, DType dtype, std::int64_t n) {
  LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
  const std::int64_t groups = divide_up(n, kRandomGroup);
  parallel_ranges(groups, kMinGroupsPerThread, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * kRandomGroup;
    functions().fill_uniform(s, high - low, low,
                             static_cast<std::byte*>(y) + first * size_bytes(dtype), dtype, begin,
                             std::min(n, end * kRandomGroup) - first);
  });
}

void dropout(const Dropout& d) {
  LAMINA_ASSERT(d.dtype == DType::f32 || d.dtype == DType::bf16);
  LAMINA_ASSERT(d.rate >= 0 && d.rate < 1);
  const auto threshold = static_cast<std::uint32_t>(
      std::lround(static_cast<double>(d.rate) * 4294967296.0) & 0xffffffff);
  const float scale = 1.0f / (1.0f - d.rate);
  const std::int64_t first_group = d.first / kRandomGroup;
  const std::int64_t groups = divide_up(d.first + d.n, kRandomGroup) - first_group;
  const std::int64_t bytes = size_bytes(d.dtype);
  parallel_ranges(
      d.n > 0 ? groups : 0, kMinGroupsPerThread, [&](std::int64_t begin, std::int64_t end) {
        // Numbers of these groups, within [d.first, d.first + d.n).
        const std::int64_t from = std::max(d.first, (first_group + begin) * kRandomGroup);
        const std::int64_t to = std::min(d.first + d.n, (first_group + end) * kRandomGroup);
        const std::int64_t offset = (from - d.first) * bytes;
        functions().dropout(d.stream, threshold, scale, static_cast<const std::byte*>(d.x) + offset,
                            static_cast<std::byte*>(d.y) + offset, d.dtype, from / kRandomGroup,
                            from % kRandomGroup, to - from);
      });
}

}  // namespace lamina::cpu
