// The kernels of cross_entropy and cross_entropy_grad.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "backends/cuda/cross_entropy/blocks.h"
#include "backends/cuda/cross_entropy/params.h"
#include "backends/cuda/gemm/products.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/stored/widen.h"
#include "core/round_up.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

Verdict supports(const NodeView& n, int bias) {
  if (n.has(bias) && n.type(bias).dtype != DType::f32)
    return Verdict::no("takes a bias in f32 only");
  if (n.type(1).dim(0) == 0 || n.type(1).dim(1) == 0)
    return Verdict::no("needs a vocabulary and a width, got w " + to_string(n.type(1)));
  return only_f32_and_bf16(n);
}

// Distance of rows of products, in numbers, so that each begins at a multiple of 64 bytes.
std::int64_t row_stride(std::int64_t columns) { return round_up(columns, std::int64_t{16}); }

// Threads for the columns of a row.
int row_threads(std::int64_t columns) {
  const std::int64_t threads =
      round_up(divide_up(columns, std::int64_t{kLossColumns}), std::int64_t{32});
  return static_cast<int>(std::min<std::int64_t>(threads, kLossThreads));
}

// The kernels and the workspace that both ops have: sums of up to `block` rows and of all rows,
// then their products.
class Losses {
 public:
  Losses(const NodeView& n, Context& context, std::int64_t block, std::int64_t columns)
      : tile_(function(context, "cross_entropy_tile")),
        sums_(function(context, "cross_entropy_sums")),
        block_(block),
        stride_(row_stride(columns)),
        vocabulary_(n.type(1).dim(0)),
        scale_(static_cast<float>(n.f("logit_scale"))),
        soft_cap_(static_cast<float>(n.f("soft_cap"))) {}

  std::int64_t stride() const { return stride_; }
  std::size_t bytes() const { return rows_bytes() + aligned(24) + products_bytes(); }
  std::byte* products(const KernelArgs& args) const {
    return args.workspace + rows_bytes() + aligned(24);
  }
  // For products: their workspace is behind the workspace of the losses.
  KernelArgs product_args(const KernelArgs& args) const {
    KernelArgs out = args;
    out.workspace += bytes();
    return out;
  }

  LogitsOfRows logits(const KernelArgs& args, std::int64_t row, std::int64_t num_rows,
                      std::int64_t column, std::int64_t num_columns, const void* bias) const {
    return {.products = address(products(args)),
            .bias = address(bias),
            .labels = labels(args, row),
            .rows = address(args.workspace),
            .num_rows = num_rows,
            .stride = stride_,
            .first_column = column,
            .num_columns = num_columns,
            .scale = scale_,
            .soft_cap = soft_cap_};
  }

  void add_tile(const KernelArgs& args, const LogitsOfRows& logits, bool all_rows) const {
    launch(
        args, tile_, {.blocks = logits.num_rows, .threads = row_threads(logits.num_columns)},
        LossTileParams{.logits = logits, .first = logits.first_column == 0, .all_rows = all_rows});
  }

  // `token_loss` and `lse` of all rows may be null.
  void finish_rows(const KernelArgs& args, std::int64_t row, std::int64_t num_rows,
                   void* token_loss = nullptr, void* lse = nullptr) const {
    const auto of_row = [&](void* numbers) {
      return address(numbers ? static_cast<float*>(numbers) + row : nullptr);
    };
    const LossSumsParams p{
        .labels = labels(args, row),
        .rows = address(args.workspace),
        .token_loss = of_row(token_loss),
        .lse = of_row(lse),
        .sums = address(args.workspace + rows_bytes()),
        .results = {address(args.outputs[0]), address(args.outputs[1]), address(args.outputs[2])},
        .num_rows = num_rows,
        .vocabulary = vocabulary_,
        .first = row == 0};
    launch(args, sums_, {.blocks = 1, .threads = kLossThreads}, p);
  }

  // The losses of no rows.
  static void clear(const KernelArgs& args) {
    for (std::size_t i = 0; i < 3; ++i)
      if (args.outputs[i]) fill_zeros(args, args.outputs[i], 4);
  }

 private:
  static gpu::Address labels(const KernelArgs& args, std::int64_t row) {
    return address(static_cast<const std::int32_t*>(args.inputs[2]) + row);
  }
  std::size_t rows_bytes() const {
    return aligned(static_cast<std::size_t>(block_) * sizeof(LossRow));
  }
  std::size_t products_bytes() const {
    return aligned(static_cast<std::size_t>(block_ * stride_) * 4);
  }

  Function tile_, sums_;
  std::int64_t block_, stride_, vocabulary_;
  float scale_, soft_cap_;
};

const std::byte* at_row(const void* base, std::int64_t row, std::int64_t row_bytes) {
  return static_cast<const std::byte*>(base) + row * row_bytes;
}
std::byte* at_row(void* base, std::int64_t row, std::int64_t row_bytes) {
  return static_cast<std::byte*>(base) + row * row_bytes;
}

// Computes blocks of rows times tiles of the vocabulary; each tile is added to running sums at
// once.
namespace cross_entropy_op {

namespace in = operand::cross_entropy;

// Tall enough that the products are bound by arithmetic, and small enough that the sums find a tile
// in the L2 cache: 32 MiB.
constexpr std::int64_t kTileRows = 1024;
constexpr std::int64_t kTileColumns = 8192;

class CrossEntropyKernel final : public Kernel {
 public:
  CrossEntropyKernel(const NodeView& n, Context& context)
      : rows_(n.type(0).dim(0)),
        vocabulary_(n.type(1).dim(0)),
        row_bytes_(n.type(0).dim(1) * size_bytes(n.type(0).dtype)),
        losses_(n, context, std::min(rows_, kTileRows), std::min(vocabulary_, kTileColumns)) {
    // For full and last tiles in both directions.
    for (std::size_t r : {0, 1})
      for (std::size_t c : {0, 1}) {
        const std::int64_t m = size_of(rows_, kTileRows, r),
                           v = size_of(vocabulary_, kTileColumns, c);
        if (m == 0 || v == 0) continue;
        products_[r][c].emplace(context, blas::ProductSpec{.m = m,
                                                           .n = v,
                                                           .k = n.type(0).dim(1),
                                                           .in = n.type(0).dtype,
                                                           .out = DType::f32,
                                                           .ldc = losses_.stride()});
        product_bytes_ = std::max(product_bytes_, products_[r][c]->workspace_bytes());
      }
  }

  std::size_t workspace_bytes() const override { return losses_.bytes() + product_bytes_; }

  void run(const KernelArgs& args) override {
    if (rows_ == 0) Losses::clear(args);
    for (std::int64_t row = 0; row < rows_; row += kTileRows) {
      const std::int64_t m = std::min(kTileRows, rows_ - row);
      for (std::int64_t column = 0; column < vocabulary_; column += kTileColumns)
        add_tile(args, row, m, column, std::min(kTileColumns, vocabulary_ - column));
      losses_.finish_rows(args, row, m, args.outputs[3], args.outputs[4]);
    }
  }

 private:
  // Returns the size of a full tile (0 if there is none), or of the last, shorter one.
  static std::int64_t size_of(std::int64_t total, std::int64_t tile, std::size_t last) {
    if (last) return total % tile;
    return total >= tile ? tile : 0;
  }

  void add_tile(const KernelArgs& args, std::int64_t row, std::int64_t m, std::int64_t column,
                std::int64_t v) const {
    const std::optional<LargeProduct>& product = products_[m < kTileRows][v < kTileColumns];
    product->run(losses_.product_args(args), at_row(args.inputs[0], row, row_bytes_),
                 at_row(args.inputs[1], column, row_bytes_), nullptr, nullptr,
                 losses_.products(args));
    losses_.add_tile(args, losses_.logits(args, row, m, column, v, args.inputs[in::kBias]),
                     /*all_rows=*/true);
  }

  std::int64_t rows_, vocabulary_, row_bytes_;
  Losses losses_;
  std::array<std::array<std::optional<LargeProduct>, 2>, 2> products_;
  std::size_t product_bytes_ = 0;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  return with_widened(n.type(1), 1, context, std::make_unique<CrossEntropyKernel>(n, context));
}

Verdict supports_bias(const NodeView& n) { return supports(n, in::kBias); }

constexpr KernelChoice kChoices[] = {{"tiles", supports_bias, make}};

}  // namespace cross_entropy_op

// Computes blocks of rows: one product for all logits of the block, their gradients in place, one
// product for dx and one that is added to dw. Only the logits of one block are in memory.
namespace cross_entropy_grad_op {

namespace in = operand::cross_entropy_grad;

// Outputs.
constexpr std::size_t kDx = 3, kDw = 4, kDbias = 5;

// Returns the rows of a block: blocks of equal size, as tall as their logits may be. Every block
// reads all of w twice and adds to all of dw, and dx needs many rows to keep all cores busy.
std::int64_t block_rows(std::int64_t rows, std::int64_t vocabulary) {
  const std::int64_t max_rows =
      std::max<std::int64_t>(16, most_logit_bytes / (row_stride(vocabulary) * 4) / 16 * 16);
  const std::int64_t blocks = std::max<std::int64_t>(1, divide_up(rows, max_rows));
  return std::min(rows, round_up(divide_up(rows, blocks), std::int64_t{16}));
}

// cuBLASLt is fast only where every dim is a multiple of 16 bytes of bf16, and many vocabularies
// are not: logits and dx are products with a copy of w that has more rows, of zeros, and the last
// rows of dw are a separate product.
constexpr std::int64_t kWhole = kLossColumns;

// dw[vocabulary, width] (+ acc) of m rows of gradients.
class HeadGradient {
 public:
  HeadGradient(Context& context, blas::ProductSpec spec) : spec_(spec) {
    make(context, whole_, whole_rows());
    make(context, rest_, spec.m % kWhole);
  }

  std::size_t workspace_bytes() const {
    return std::max(whole_ ? whole_->workspace_bytes() : 0, rest_ ? rest_->workspace_bytes() : 0);
  }
  void run(const KernelArgs& args, const void* gradients, const void* x, const void* acc,
           void* dw) const {
    if (whole_) whole_->run(args, gradients, x, nullptr, acc, dw);
    if (!rest_) return;
    const std::int64_t row = whole_rows(), row_bytes = spec_.n * size_bytes(spec_.out);
    rest_->run(args, at_row(gradients, row, size_bytes(spec_.in)), x, nullptr,
               acc ? at_row(acc, row, row_bytes) : nullptr, at_row(dw, row, row_bytes));
  }

 private:
  std::int64_t whole_rows() const { return spec_.m / kWhole * kWhole; }
  void make(Context& context, std::optional<LargeProduct>& product, std::int64_t rows) const {
    blas::ProductSpec spec = spec_;
    spec.m = rows;
    if (rows > 0) product.emplace(context, spec);
  }

  blas::ProductSpec spec_;
  std::optional<LargeProduct> whole_, rest_;
};

class CrossEntropyGradKernel final : public Kernel {
 public:
  CrossEntropyGradKernel(const NodeView& n, Context& context)
      : dtype_(n.type(0).dtype),
        rows_(n.type(0).dim(0)),
        width_(n.type(0).dim(1)),
        vocabulary_(n.type(1).dim(0)),
        wide_(round_up(vocabulary_, kWhole)),
        block_(block_rows(rows_, vocabulary_)),
        losses_(n, context, block_, vocabulary_),
        gradient_(function(context, "cross_entropy_gradient", dtype_)),
        bias_(function(context, "cross_entropy_bias", dtype_)) {
    if (rows_ == 0) return;
    make_products(context, products_[0], block_);
    if (rows_ % block_) make_products(context, products_[1], rows_ % block_);
    blas::ProductSpec first_dw = dw_spec(block_);
    first_dw.accumulate = n.has(in::kAcc);
    make_product(context, first_dw_, first_dw);
  }

  std::size_t workspace_bytes() const override {
    return losses_.bytes() + aligned(product_bytes_) + (is_padded() ? padded_bytes() : 0);
  }

  void run(const KernelArgs& args) override {
    if (rows_ == 0) return run_without_rows(args);
    const void* w = args.inputs[1];
    if (is_padded()) w = pad(args, w);
    for (std::int64_t row = 0; row < rows_; row += block_) run_block(args, w, row);
  }

 private:
  // The products of a block of m rows: [m, V] logits, dx, and dw, which is added to.
  struct Products {
    std::optional<LargeProduct> logits, dx;
    std::optional<HeadGradient> dw;
  };

  void make_products(Context& context, Products& p, std::int64_t m) {
    make_product(context, p.logits,
                 {.m = m,
                  .n = wide_,
                  .k = width_,
                  .in = dtype_,
                  .out = DType::f32,
                  .ldc = losses_.stride()});
    make_product(context, p.dx,
                 {.m = m,
                  .n = width_,
                  .k = wide_,
                  .in = dtype_,
                  .out = dtype_,
                  .b_transposed = false,
                  .lda = gradient_stride()});
    make_product(context, p.dw, dw_spec(m));
  }

  blas::ProductSpec dw_spec(std::int64_t m) const {
    return {.m = vocabulary_,
            .n = width_,
            .k = m,
            .in = dtype_,
            .out = DType::f32,
            .a_transposed = true,
            .b_transposed = false,
            .lda = gradient_stride(),
            .accumulate = true};
  }

  template <typename Product>
  void make_product(Context& context, std::optional<Product>& product,
                    const blas::ProductSpec& spec) {
    product.emplace(context, spec);
    product_bytes_ = std::max(product_bytes_, product->workspace_bytes());
  }

  // In numbers of the dtype: gradients are at the beginning of the rows of products.
  std::int64_t gradient_stride() const { return losses_.stride() * 4 / size_bytes(dtype_); }

  bool is_padded() const { return wide_ > vocabulary_; }
  std::size_t padded_bytes() const {
    return aligned(static_cast<std::size_t>(wide_ * width_ * size_bytes(dtype_)));
  }
  // Copies w and adds rows of zeros.
  const void* pad(const KernelArgs& args, const void* w) const {
    std::byte* to = args.workspace + losses_.bytes() + aligned(product_bytes_);
    const std::int64_t row_bytes = width_ * size_bytes(dtype_);
    copy_bytes(args, to, w, static_cast<std::size_t>(vocabulary_ * row_bytes));
    fill_zeros(args, at_row(to, vocabulary_, row_bytes),
               static_cast<std::size_t>((wide_ - vocabulary_) * row_bytes));
    return to;
  }

  void run_without_rows(const KernelArgs& args) const {
    Losses::clear(args);
    const auto bytes = static_cast<std::size_t>(vocabulary_ * width_ * 4);
    if (args.outputs[kDw] && args.inputs[in::kAcc])
      copy_bytes(args, args.outputs[kDw], args.inputs[in::kAcc], bytes);
    else if (args.outputs[kDw])
      fill_zeros(args, args.outputs[kDw], bytes);
    if (args.outputs[kDbias] && args.inputs[in::kBias])
      fill_zeros(args, args.outputs[kDbias], static_cast<std::size_t>(vocabulary_ * 4));
  }

  void run_block(const KernelArgs& args, const void* w, std::int64_t row) const {
    const std::int64_t m = std::min(block_, rows_ - row);
    const Products& p = products_[m < block_];
    const std::int64_t row_bytes = width_ * size_bytes(dtype_);
    const void* x = at_row(args.inputs[0], row, row_bytes);
    std::byte* products = losses_.products(args);
    const KernelArgs product_args = losses_.product_args(args);

    p.logits->run(product_args, x, w, nullptr, nullptr, products);
    const LogitsOfRows logits =
        losses_.logits(args, row, m, 0, vocabulary_, args.inputs[in::kBias]);
    const bool has_gradients = args.outputs[kDx] || args.outputs[kDw] || args.outputs[kDbias];
    if (has_gradients)
      launch_gradient(args, logits, row);
    else
      losses_.add_tile(args, logits, /*all_rows=*/false);
    losses_.finish_rows(args, row, m);
    if (!has_gradients) return;

    if (args.outputs[kDbias] && args.inputs[in::kBias]) launch_bias(args, logits, row);
    // Before dx, which may be in the memory of acc.
    void* dw = args.outputs[kDw];
    if (dw && row == 0) first_dw_->run(product_args, products, x, args.inputs[in::kAcc], dw);
    if (dw && row > 0) p.dw->run(product_args, products, x, dw, dw);
    if (args.outputs[kDx])
      p.dx->run(product_args, products, w, nullptr, nullptr,
                at_row(args.outputs[kDx], row, row_bytes));
  }

  void launch_gradient(const KernelArgs& args, const LogitsOfRows& logits, std::int64_t row) const {
    const auto* of_rows = static_cast<const float*>(args.inputs[in::kDtokenLoss]);
    launch(args, gradient_, {.blocks = logits.num_rows, .threads = row_threads(vocabulary_)},
           LossGradientParams{.logits = logits,
                              .dloss = address(args.inputs[in::kDloss]),
                              .dz_loss = address(args.inputs[in::kDzLoss]),
                              .duniform_loss = address(args.inputs[in::kDuniformLoss]),
                              .dtoken_loss = address(of_rows ? of_rows + row : nullptr)});
  }

  void launch_bias(const KernelArgs& args, const LogitsOfRows& logits, std::int64_t row) const {
    launch(args, bias_, {.blocks = grid_for(vocabulary_, 256), .threads = 256},
           LossBiasParams{.gradients = logits.products,
                          .dbias = address(args.outputs[kDbias]),
                          .num_rows = logits.num_rows,
                          .stride = gradient_stride(),
                          .vocabulary = vocabulary_,
                          .scale = logits.scale,
                          .first = row == 0});
  }

  DType dtype_;
  std::int64_t rows_, width_, vocabulary_;
  std::int64_t wide_;  // columns of products
  std::int64_t block_;
  Losses losses_;
  Function gradient_, bias_;
  std::array<Products, 2> products_;      // for a full block, and for the last one
  std::optional<HeadGradient> first_dw_;  // sets dw to the first block's, plus acc
  std::size_t product_bytes_ = 0;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  return with_widened(n.type(1), 1, context, std::make_unique<CrossEntropyGradKernel>(n, context));
}

Verdict supports_bias(const NodeView& n) {
  if (n.has(in::kBias) && n.f("logit_scale") == 0)
    return Verdict::no("divides the gradient of the bias by logit_scale, which is 0");
  return supports(n, in::kBias);
}

constexpr KernelChoice kChoices[] = {{"blocks", supports_bias, make, in_place_of(in::kAcc)}};

}  // namespace cross_entropy_grad_op

constexpr OpKernels kOps[] = {
    {"cross_entropy", cross_entropy_op::kChoices},
    {"cross_entropy_grad", cross_entropy_grad_op::kChoices},
};

}  // namespace

KernelTable cross_entropy_kernels() { return kOps; }

}  // namespace lamina::cuda
