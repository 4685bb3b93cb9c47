// cross_entropy_grad: block by block of rows, one product for all logits of the block, their
// softmax and gradient where they lie, one product for dx and one added to dw: three in all, and
// never the logits of more than one block.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cpu/cross_entropy/cross_entropy.h"
#include "backends/cpu/cross_entropy/cross_entropy_rows.h"
#include "backends/cpu/gemm/products.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

// Logits and their gradients of one block of rows. Half of this costs the products a fifth of their
// speed at 50k columns: every block streams all of w and dw.
constexpr std::int64_t kMaxBlockBytes = std::int64_t{128} << 20;

// Blocks of equal size, multiples of 16, as tall as the bound allows.
std::int64_t block_rows(std::int64_t rows, std::int64_t row_bytes) {
  const std::int64_t most = std::max<std::int64_t>(16, kMaxBlockBytes / (row_bytes + 1) / 16 * 16);
  const std::int64_t blocks = std::max<std::int64_t>(1, (rows + most - 1) / most);
  return std::min(rows, ((rows + blocks - 1) / blocks + 15) / 16 * 16);
}

class CrossEntropyGradKernel final : public Kernel {
 public:
  explicit CrossEntropyGradKernel(const NodeView& n)
      : dtype_(n.type(0).dtype),
        rows_(n.type(0).dim(0)),
        width_(n.type(0).dim(1)),
        vocabulary_(n.type(1).dim(0)),
        soft_cap_(static_cast<float>(n.f("soft_cap"))),
        logit_scale_(static_cast<float>(n.f("logit_scale"))),
        block_(block_rows(rows_, vocabulary_ * (dtype_ == DType::f32 ? 4 : 6))),
        state_(block_) {
    if (rows_ == 0 || vocabulary_ == 0) return;
    make_products(0, block_);
    if (rows_ % block_) make_products(1, rows_ % block_);
  }

  std::size_t workspace_bytes() const override {
    return state_.bytes() + logits_bytes() + gradient_bytes() + aligned(gemm_bytes_);
  }

  void run(const KernelArgs& args) override {
    const auto* labels = static_cast<const std::int32_t*>(args.inputs[2]);
    if (rows_ == 0 && args.outputs[3]) parallel_zero(args.outputs[3], vocabulary_ * width_ * 4);
    CrossEntropySums sums;
    for (std::int64_t row = 0; row < rows_ && vocabulary_ > 0; row += block_)
      run_block(args, row, labels + row, sums);
    sums.store(args.outputs[0], args.outputs[1]);
  }

 private:
  // The products of a block of m rows: [m, V] logits, dx, and dw, written first and then added to.
  struct Products {
    std::unique_ptr<Gemm> logits, dx, dw, dw_added;
  };

  void make_products(std::size_t i, std::int64_t m) {
    Products& p = products_[i];
    p.logits =
        make_checked_gemm({.m = m, .n = vocabulary_, .k = width_, .in = dtype_, .out = DType::f32});
    p.dx = make_checked_gemm({.m = m,
                              .n = width_,
                              .k = vocabulary_,
                              .in = dtype_,
                              .out = dtype_,
                              .b_transposed = false});
    GemmSpec dw{.m = vocabulary_,
                .n = width_,
                .k = m,
                .in = dtype_,
                .out = DType::f32,
                .a_transposed = true,
                .b_transposed = false};
    p.dw = make_checked_gemm(dw);
    dw.accumulate = true;
    p.dw_added = make_checked_gemm(dw);
    for (const auto* gemm : {&p.logits, &p.dx, &p.dw, &p.dw_added})
      gemm_bytes_ = std::max(gemm_bytes_, (*gemm)->workspace_bytes());
  }

  void run_block(const KernelArgs& args, std::int64_t row, const std::int32_t* labels,
                 CrossEntropySums& sums) {
    const std::int64_t m = std::min(block_, rows_ - row);
    const Products& p = products_[m < block_];
    const std::int64_t row_bytes = width_ * size_bytes(dtype_);
    const void* x = at_byte(args.inputs[0], row * row_bytes);
    const void* w = args.inputs[1];
    std::byte* logits = args.workspace + state_.bytes();
    std::byte* dlogits = dtype_ == DType::f32 ? logits : logits + logits_bytes();
    std::byte* gemm_workspace = logits + logits_bytes() + gradient_bytes();

    p.logits->run(x, w, nullptr, logits, gemm_workspace);
    const CrossEntropyTile tile{.logits = logits,
                                .dtype = DType::f32,
                                .row_stride = vocabulary_,
                                .first_column = 0,
                                .num_columns = vocabulary_,
                                .soft_cap = soft_cap_};
    scale_tile(tile, m, logit_scale_);
    const CrossEntropyRows rows = state_.start(args.workspace, labels, m, /*all=*/false);
    cross_entropy_add_tile(rows, tile);
    sums.add(rows, labels, nullptr);
    if (!args.outputs[2] && !args.outputs[3]) return;

    float scale = *static_cast<const float*>(args.inputs[3]);
    const float dz = *static_cast<const float*>(args.inputs[4]);
    // z_loss is relative to the loss: without a loss, to one that is lost in rounding.
    if (scale == 0) scale = dz == 0 ? 0 : 1e-20f;
    cross_entropy_gradient(rows, tile,
                           {.scale = scale * logit_scale_,
                            .z_loss = scale == 0 ? 0 : dz / scale,
                            .dlogits = dlogits,
                            .dtype = dtype_,
                            .row_stride = vocabulary_});
    if (args.outputs[2])
      p.dx->run(dlogits, w, nullptr, at_byte(args.outputs[2], row * row_bytes), gemm_workspace);
    if (args.outputs[3])
      (row == 0 ? p.dw : p.dw_added)->run(dlogits, x, nullptr, args.outputs[3], gemm_workspace);
  }

  std::size_t logits_bytes() const {
    return aligned(static_cast<std::size_t>(block_ * vocabulary_ * 4));
  }
  std::size_t gradient_bytes() const {
    return dtype_ == DType::f32 ? 0 : aligned(static_cast<std::size_t>(block_ * vocabulary_ * 2));
  }

  DType dtype_;
  std::int64_t rows_, width_, vocabulary_;
  float soft_cap_, logit_scale_;
  std::int64_t block_;
  CrossEntropyState state_;
  std::array<Products, 2> products_;  // of a full block, and of the last
  std::size_t gemm_bytes_ = 0;
};

std::unique_ptr<Kernel> make(const NodeView& n) {
  return std::make_unique<CrossEntropyGradKernel>(n);
}

constexpr KernelChoice kChoices[] = {{"blocks", only_f32_and_bf16, make}};

}  // namespace

std::span<const KernelChoice> cross_entropy_grad_kernels() { return kChoices; }

}  // namespace lamina::cpu
