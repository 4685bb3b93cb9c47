// Products of any depth from our own tiles: division of k into blocks, and memory for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/tile_simd.h"
#include "backends/cpu/gemm/tile_unit.h"

namespace lamina::cpu {

// The division of a sum over k: about equal blocks, of whole pieces for a unit of tiles. One block
// of 0 for k = 0.
struct DepthBlocks {
  // Deep enough that sums are rarely stored, shallow enough that a panel stays in the caches.
  static constexpr std::int64_t kMaxDepth = 4096;

  explicit DepthBlocks(std::int64_t k, std::int64_t max_depth = kMaxDepth)
      : total(k),
        count(k > max_depth ? divide_up(k, max_depth) : 1),
        depth(round_up(divide_up(k, count), kUnitDepth)) {}
  std::int64_t first(std::int64_t block) const { return block * depth; }
  std::int64_t depth_of(std::int64_t block) const { return std::min(depth, total - first(block)); }

  std::int64_t total, count, depth;
};

// A product of up to max_m x max_n x max_k on the calling thread.
class TileMultiplier {
 public:
  TileMultiplier(DType in, std::int64_t max_m, std::int64_t max_n, std::int64_t max_k);
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  // Computes the product. Uses the operands, C and the options of `t`; sets its other members
  // itself. `scratch` is 64-byte aligned.
  void multiply(TileArguments t, std::byte* scratch) const;
  std::string_view kernel() const { return product_.name; }

 private:
  const TileProduct& product_;
  DType in_;
  std::size_t packed_bytes_, sums_bytes_, scratch_bytes_;
};

// Makes the product of a spec whose defaults are filled in, for the threads of the pool.
std::unique_ptr<Gemm> make_tiled_gemm(const GemmSpec& spec);

}  // namespace lamina::cpu
