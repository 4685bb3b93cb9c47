// cross_entropy: blocks of rows times tiles of the vocabulary; each tile of logits is made by a
// product and folded into running sums (online softmax, Milakov & Gimelshein 2018) at once.
#include "backends/cpu/cross_entropy/cross_entropy.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cpu/cross_entropy/cross_entropy_rows.h"
#include "backends/cpu/gemm/products.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kTileRows = 512;
constexpr std::int64_t kTileColumns = 8192;

class CrossEntropyKernel final : public Kernel {
 public:
  explicit CrossEntropyKernel(const NodeView& n)
      : dtype_(n.type(0).dtype),
        rows_(n.type(0).dim(0)),
        width_(n.type(0).dim(1)),
        vocabulary_(n.type(1).dim(0)),
        soft_cap_(static_cast<float>(n.f("soft_cap"))),
        logit_scale_(static_cast<float>(n.f("logit_scale"))),
        state_(std::min(rows_, kTileRows)) {
    // Full and last tiles each way.
    for (std::size_t r : {0, 1})
      for (std::size_t c : {0, 1}) {
        const std::int64_t m = size_of(rows_, kTileRows, r),
                           v = size_of(vocabulary_, kTileColumns, c);
        if (m == 0 || v == 0) continue;
        logits_[r][c] = make_checked_gemm(
            {.m = m, .n = v, .k = width_, .in = dtype_, .out = DType::f32, .ldc = tile_columns()});
        gemm_bytes_ = std::max(gemm_bytes_, logits_[r][c]->workspace_bytes());
      }
  }

  std::size_t workspace_bytes() const override {
    return state_.bytes() + tile_bytes() + aligned(gemm_bytes_);
  }

  void run(const KernelArgs& args) override {
    std::byte* tile_data = args.workspace + state_.bytes();
    std::byte* gemm_workspace = tile_data + tile_bytes();
    const auto* labels = static_cast<const std::int32_t*>(args.inputs[2]);
    auto* lse = static_cast<float*>(args.outputs[2]);
    CrossEntropySums sums;
    for (std::int64_t row = 0; row < rows_; row += kTileRows) {
      const std::int64_t m = std::min(kTileRows, rows_ - row);
      const CrossEntropyRows rows = state_.start(args.workspace, labels + row, m, /*all=*/true);
      for (std::int64_t column = 0; column < vocabulary_; column += kTileColumns) {
        const std::int64_t v = std::min(kTileColumns, vocabulary_ - column);
        const std::int64_t bytes = width_ * size_bytes(dtype_);
        logits_[m < kTileRows][v < kTileColumns]->run(at_byte(args.inputs[0], row * bytes),
                                                      at_byte(args.inputs[1], column * bytes),
                                                      nullptr, tile_data, gemm_workspace);
        const CrossEntropyTile tile{.logits = tile_data,
                                    .dtype = DType::f32,
                                    .row_stride = tile_columns(),
                                    .first_column = column,
                                    .num_columns = v,
                                    .soft_cap = soft_cap_};
        scale_tile(tile, m, logit_scale_);
        cross_entropy_add_tile(rows, tile);
      }
      sums.add(rows, labels + row, lse ? lse + row : nullptr);
    }
    sums.store(args.outputs[0], args.outputs[1]);
  }

 private:
  // Size of a full tile (0 when there is none), or of the last, shorter one.
  static std::int64_t size_of(std::int64_t total, std::int64_t tile, std::size_t last) {
    if (last) return total % tile;
    return total >= tile ? tile : 0;
  }
  std::int64_t tile_columns() const { return std::min(vocabulary_, kTileColumns); }
  std::size_t tile_bytes() const {
    return aligned(static_cast<std::size_t>(std::min(rows_, kTileRows) * tile_columns() * 4));
  }

  DType dtype_;
  std::int64_t rows_, width_, vocabulary_;
  float soft_cap_, logit_scale_;
  CrossEntropyState state_;
  std::array<std::array<std::unique_ptr<Gemm>, 2>, 2> logits_;
  std::size_t gemm_bytes_ = 0;
};

std::unique_ptr<Kernel> make(const NodeView& n) { return std::make_unique<CrossEntropyKernel>(n); }

constexpr KernelChoice kChoices[] = {{"tiles", only_f32_and_bf16, make}};

}  // namespace

std::span<const KernelChoice> cross_entropy_kernels() { return kChoices; }

}  // namespace lamina::cpu
