// Runs of attention on the GPU, prepared from the sizes of a node: forms of the tiles, memory, and
// the order of the kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "backends/cuda/attention/params.h"
#include "backends/cuda/kernel_support.h"

namespace lamina::cuda {

// Dynamic shared bytes of a tile. Static arrays have the rest.
inline constexpr std::int64_t kStaticTileBytes = 11 << 10;
inline std::int64_t most_tile_bytes() { return most_shared_bytes() - kStaticTileBytes; }
// Likewise of plain tiles, which have smaller static arrays. More than one block with large tiles
// shall fit on a multiprocessor.
inline std::int64_t most_plain_bytes(int tile, DType dtype) {
  if (tile == 32) return std::min(std::int64_t{96} << 10, most_shared_bytes() - (4 << 10));
  return most_shared_bytes() - 256 * size_bytes(sum_dtype(dtype));
}

NumberKind number_kind(DType dtype);
// Sets the kind of an optional input; its address is set for each run.
SmallInput small_input(const NodeView& n, int input);

// The places of an op's optional inputs.
struct VisibilityInputs {
  int positions, key_positions, segments, key_segments, blocks, mask, start;  // -1: never
};
// Sets attributes of the visibility, of a node with causal, window and chunk.
VisibilityParams visibility_of(const NodeView& n, const VisibilityInputs& in);
void bind_visibility(const KernelArgs& args, const VisibilityInputs& in, VisibilityParams& seen);

// Sizes of q[B, T, N, H], k[B, S, K, H] and v[B, S, K, V].
AttentionSizes attention_sizes(const Type& q, const Type& k, std::int64_t value_width);
// Refuses sizes that kernels cannot count.
Verdict supports_sizes(const Type& q, const Type& k);
void divide_tiles(AttentionSizes& size, int tile_rows, int tile_keys);

// Finds tiles that can be skipped, for one division into tiles.
class TileMarks {
 public:
  TileMarks(Context& context, const AttentionSizes& size, bool by_ids, bool by_mask, bool by_head);
  std::size_t bytes() const { return bytes_; }
  // Launches the kernels and sets the addresses of their results in `seen`.
  void run(const KernelArgs& args, const AttentionSizes& size, VisibilityParams& seen,
           std::byte* memory) const;

 private:
  Function spans_ = nullptr, kept_ = nullptr;
  std::int64_t query_spans_bytes_ = 0, key_spans_bytes_ = 0;
  std::int64_t kept_blocks_ = 0;
  std::size_t bytes_ = 0;
  bool by_head_ = false;
};

// True if the node has an array that restricts keys by position, segment or block.
bool restricts_by_ids(const NodeView& n, const VisibilityInputs& in);

// The tile of a run without gradient, chosen by rows and widths.
struct TileForm {
  std::string kernel;  // empty: none fits
  int rows = 0, keys = 0, threads = 0, key_stride = 0, value_stride = 0;
  std::int64_t shared_bytes = 0;
};
// `shares`: values are parts of keys.
TileForm forward_form(DType dtype, const AttentionSizes& size, bool shares);

// attention or its statistics. The caller fills the params except for the division into tiles.
class AttentionRun {
 public:
  struct Options {
    bool by_ids = false, by_mask = false;
    bool over_state = false;  // few rows are divided into splits of keys
  };
  AttentionRun(Context& context, DType dtype, const AttentionParams& params,
               const Options& options);
  std::size_t workspace_bytes() const { return bytes_; }
  // `p` has the sizes of the constructor's params, and the addresses.
  void run(const KernelArgs& args, AttentionParams p, std::byte* workspace) const;

 private:
  void divide(AttentionParams& p) const;
  TileForm form_;
  AttentionSizes size_;
  TileMarks marks_;
  Function tile_, merge_ = nullptr;
  int splits_ = 1, keys_per_split_ = 0;
  std::size_t partial_bytes_ = 0, bytes_ = 0, wide_bytes_;
};

// Sizes of plain tiles: elements between rows.
constexpr int plain_stride(int width) { return (width + 3) / 4 * 4 + 4; }
constexpr int matrix_stride(int width) { return (width + 15) / 16 * 16 + 8; }
// True if rows of all widths can be copied in vectors of 16 bytes of 16-bit numbers.
bool copies_vectors(std::initializer_list<int> widths, std::initializer_list<gpu::Address> at);

}  // namespace lamina::cuda
