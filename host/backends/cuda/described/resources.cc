#include "backends/cuda/described/resources.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/round_up.h"

namespace lamina::cuda {
namespace {

constexpr KernelResources kResources[] = {
#define LAMINA_GPU_RESOURCES(kernel, module, registers_90, registers_80, stack, spills, shared, \
                             reason)                                                            \
  {#kernel, #module, registers_90, registers_80, stack, spills, shared, reason},
#include "backends/cuda/attention/resources.def"
#include "backends/cuda/conv/resources.def"
#include "backends/cuda/cross_entropy/resources.def"
#include "backends/cuda/delta_rule/resources.def"
#include "backends/cuda/elementwise/resources.def"
#include "backends/cuda/embedding/resources.def"
#include "backends/cuda/experts/resources.def"
#include "backends/cuda/gemm/resources.def"
#include "backends/cuda/layout/resources.def"
#include "backends/cuda/limits/resources.def"
#include "backends/cuda/linear_scan/resources.def"
#include "backends/cuda/matrix_scan/resources.def"
#include "backends/cuda/ngram/resources.def"
#include "backends/cuda/norm/resources.def"
#include "backends/cuda/optimizer/resources.def"
#include "backends/cuda/random/resources.def"
#include "backends/cuda/reduce/resources.def"
#include "backends/cuda/rope/resources.def"
#include "backends/cuda/sampling/resources.def"
#include "backends/cuda/sinkhorn/resources.def"
#include "backends/cuda/softmax/resources.def"
#include "backends/cuda/stored/resources.def"
#include "backends/cuda/window/resources.def"
#undef LAMINA_GPU_RESOURCES
};

constexpr std::int64_t kWarp = 32;
// A multiprocessor has four parts, each with its own registers; a warp stays in one of them.
constexpr std::int64_t kParts = 4, kRegistersOfAPart = 16 << 10;
constexpr std::int64_t kRegistersOfAPiece = 256, kSharedOfAPiece = 128, kReservedShared = 1 << 10;

struct Multiprocessor {
  int capability, most_warps, most_blocks, shared_bytes;
};
constexpr Multiprocessor kMultiprocessors[] = {
    {80, 64, 32, 164 << 10},
    {86, 48, 16, 100 << 10},
    {89, 48, 24, 100 << 10},
    {90, 64, 32, 228 << 10},
};

}  // namespace

std::span<const KernelResources> kernel_resources() { return kResources; }

const KernelResources* find_resources(std::string_view kernel) {
  const auto found = std::ranges::find(kResources, kernel, &KernelResources::kernel);
  return found == std::end(kResources) ? nullptr : &*found;
}

Occupancy occupancy(const Card& card, const KernelResources& kernel, int threads,
                    std::int64_t dynamic_shared_bytes) {
  const auto sm = std::ranges::find(kMultiprocessors, card.capability, &Multiprocessor::capability);
  LAMINA_ASSERT(sm != std::end(kMultiprocessors) && threads > 0);
  const std::int64_t warps = divide_up(threads, kWarp);
  const int registers = card.capability >= 90 ? kernel.registers_90 : kernel.registers_80;
  const std::int64_t of_a_warp = round_up(std::max(registers, 1) * kWarp, kRegistersOfAPiece);
  const std::int64_t shared =
      round_up(kernel.shared_bytes + dynamic_shared_bytes, kSharedOfAPiece) + kReservedShared;
  struct Limit {
    std::int64_t blocks;
    const char* name;
  };
  const Limit limits[] = {{sm->most_warps / warps, "threads"},
                          {kRegistersOfAPart / of_a_warp * kParts / warps, "registers"},
                          {sm->shared_bytes / shared, "shared memory"},
                          {sm->most_blocks, "blocks"}};
  const Limit& least = *std::ranges::min_element(limits, {}, &Limit::blocks);
  return {static_cast<int>(least.blocks), static_cast<int>(least.blocks * warps), sm->most_warps,
          least.name};
}

}  // namespace lamina::cuda
