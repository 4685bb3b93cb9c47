// Launches of kernels.
//
//   const GpuFunction& softmax = function(context, "softmax", x.dtype);
//   launch(args, softmax, {.blocks = grid_for(p.num_rows), .threads = 256}, p);
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "backends/cuda/gpu/address.h"
#include "backends/cuda/modules.h"
#include "core/dtype.h"
#include "runtime/kernel.h"

namespace lamina::cuda {

class CudaContext;

// Shared bytes, static arrays included, that every GPU grants without being asked.
inline constexpr std::size_t kUsualSharedBytes = 48 << 10;

// Shared bytes, static arrays included, that a block may have on compute capability 8.0. Kernels
// are made for at most as many, except kernels of warpgroups: 227 KiB, as on 9.0.
inline constexpr std::int64_t kMostSharedBytes = 163 << 10;
inline constexpr std::int64_t kMostWarpgroupSharedBytes = 227 << 10;
// Returns how many of them a block may have on every GPU that is open: 99 KiB on 8.6 and 8.9.
// Kernels choose their tiles by it, so that replicas on unequal cards run the same ones. [any
// thread]
std::int64_t most_shared_bytes();

// True if every GPU that is open multiplies by warpgroups: compute capability 9.0, no other.
// [any thread]
bool have_warpgroup_products();

// A kernel of a backend; copied freely, valid as long as the backend.
using Function = GpuFunction*;

// Returns the kernel `name`, or `name`_<dtype>: "softmax_bf16". Throws InternalError if there is no
// such kernel: `supports` must refuse what no kernel takes.
Function function(Context& context, const std::string& name);
Function function(Context& context, std::string_view name, DType dtype);

struct LaunchShape {
  std::int64_t blocks = 1;
  int threads = 256;
  std::size_t shared_bytes = 0;  // dynamic
  std::int64_t blocks_y = 1, blocks_z = 1;
};

// The most blocks of a grid in each dimension, on every GPU.
inline constexpr std::array<std::int64_t, 3> kMostGridBlocks = {0x7fffffff, 65535, 65535};

// Blocks for `count` pieces of work, `per_block` each; kernels loop where there are more. The
// number does not depend on the GPU, so that results do not.
inline constexpr std::int64_t kMostBlocks = 8192;
inline std::int64_t grid_for(std::int64_t count, std::int64_t per_block = 1) {
  return std::min((count + per_block - 1) / per_block, kMostBlocks);
}

// Allows launches of the kernel with up to `bytes` of dynamic shared memory. The driver refuses
// more than kUsualSharedBytes without it.
void allow_shared_bytes(const CudaContext& context, Function function, std::size_t bytes);

// Puts the kernel on args.queue. A shape with 0 blocks launches nothing. With LAMINA_GPU_OVERLAP=1
// a kernel of lamina may begin before the ones before it have ended, and waits for them itself
// (gpu/device.h).
void launch_bytes(const KernelArgs& args, Function function, const LaunchShape& shape,
                  const void* params, std::size_t bytes);
template <typename Params>
void launch(const KernelArgs& args, Function function, const LaunchShape& shape,
            const Params& params) {
  static_assert(std::is_trivially_copyable_v<Params>);
  launch_bytes(args, function, shape, &params, sizeof(params));
}

// Launches a kernel whose blocks have a tile each in the second dimension, p.first_tile +
// block_index_y(): once, or several times if there are more tiles than a grid may have.
template <typename Params>
void launch_tiles(const KernelArgs& args, Function function, LaunchShape shape, Params p) {
  const std::int64_t tiles = shape.blocks_y;
  for (p.first_tile = 0; p.first_tile < tiles; p.first_tile += kMostGridBlocks[1]) {
    shape.blocks_y = std::min(tiles - p.first_tile, kMostGridBlocks[1]);
    launch(args, function, shape, p);
  }
}

// Sets memory of the GPU to zeros, on args.queue.
void fill_zeros(const KernelArgs& args, void* to, std::size_t bytes);
// Copies within the memory of the GPU, on args.queue; equal places copy nothing.
void copy_bytes(const KernelArgs& args, void* to, const void* from, std::size_t bytes);

// Addresses of operands, as kernels take them.
inline gpu::Address address(const void* memory) {
  return {reinterpret_cast<std::uintptr_t>(memory)};
}

}  // namespace lamina::cuda
