// Parts of a tile of a linear scan. A thread has kLinearTokens tokens of a channel; its warp has
// the same tokens of neighbouring channels.
#pragma once

#include "backends/cuda/gpu/typed.h"
#include "backends/cuda/linear_scan/params.h"

namespace lamina::cuda {
namespace {

// The effect of consecutive tokens on the state of a channel: h becomes product h + sum, or sum if
// a document begins among them.
struct LinearPart {
  float product = 1, sum = 0;
  bool resets = false;

  LAMINA_GPU_FUNCTION float after(float before) const {
    return resets ? sum : gpu::fma(product, before, sum);
  }
};

// The parts of all warps of a block. Use: set(), sync(), begin_reading(), after().
struct LinearParts {
  gpu::Shared<float> products, sums;
  gpu::Shared<std::int32_t> resets;  // [kLinearMostWarps]: equal for all channels
  std::uint32_t resetting = 0;       // a bit per warp

  LAMINA_GPU_FUNCTION void set(const LinearPart& part) const {
    products[gpu::thread_index()] = part.product;
    sums[gpu::thread_index()] = part.sum;
    if (gpu::lane() == 0) resets[gpu::warp_index()] = part.resets ? 1 : 0;
  }
  LAMINA_GPU_FUNCTION void begin_reading() {
    std::int32_t mine = 0;
    if (gpu::lane() < gpu::num_warps()) mine = resets[gpu::lane()];
    resetting = gpu::ballot(mine != 0);
  }
  // Returns the state after the tokens of a warp.
  LAMINA_GPU_FUNCTION float after(int warp, float before) const {
    const int at = warp * gpu::kWarpSize + gpu::lane();
    return LinearPart{products[at], sums[at], (resetting >> warp & 1) != 0}.after(before);
  }
};

// The tokens of a thread.
struct LinearPlace {
  std::int64_t b, c;
  std::int64_t first, row;  // number of the first token in the row; of the row's first token
  int count;                // tokens of this thread

  LAMINA_GPU_FUNCTION std::int64_t at(std::int64_t channels) const {
    return (row + first) * channels + c;
  }
};

// Returns a bit for each token of the thread that begins a document after the first.
LAMINA_GPU_FUNCTION std::uint32_t documents(gpu::Address segments, const LinearPlace& place) {
  if (segments.value == 0) return 0;
  const gpu::Global<const std::int32_t> ids = gpu::Global<const std::int32_t>(segments) + place.row;
  std::uint32_t bits = 0;
  LAMINA_GPU_UNROLL
  for (int i = 0; i < kLinearTokens; ++i) {
    const std::int64_t t = place.first + i;
    if (i < place.count && t > 0 && ids[t] != ids[t - 1]) bits |= 1u << i;
  }
  return bits;
}

LAMINA_GPU_FUNCTION bool begins(std::uint32_t documents, int i) {
  return (documents >> i & 1) != 0;
}

}  // namespace
}  // namespace lamina::cuda
