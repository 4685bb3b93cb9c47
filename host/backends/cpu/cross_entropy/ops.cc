// The kernels of cross_entropy and cross_entropy_grad.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cpu/cross_entropy/cross_entropy.h"
#include "backends/cpu/gemm/products.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"
#include "core/float16.h"
#include "core/round_up.h"

namespace lamina::cpu {
namespace {

// The running sums of up to `max_rows` rows, at the start of a workspace.
class CrossEntropyState {
 public:
  explicit CrossEntropyState(std::int64_t max_rows)
      : stride_(aligned(static_cast<std::size_t>(max_rows) * 4)) {}

  std::size_t bytes() const { return 6 * stride_; }

  // Begins a block of rows. Rows with negative labels do not count: they are ignored, or with `all`
  // still get their sums. `total`: also computes the sum of logits.
  CrossEntropyRows start(std::byte* workspace, const std::int32_t* labels, std::int64_t num_rows,
                         bool all, bool total) const {
    auto floats = [&](int i) {
      return reinterpret_cast<float*>(workspace + static_cast<std::size_t>(i) * stride_);
    };
    auto* own = reinterpret_cast<std::int32_t*>(workspace);
    for (std::int64_t r = 0; r < num_rows; ++r)
      own[r] = labels[r] >= 0 ? labels[r] : all ? 0 : kIgnoredLabel;
    CrossEntropyRows rows{.labels = own,
                          .num_rows = num_rows,
                          .max = floats(1),
                          .sum = floats(2),
                          .target = floats(3),
                          .total = total ? floats(4) : nullptr};
    cross_entropy_begin(rows);
    return rows;
  }
  // Returns the memory for row_scale of a block.
  float* row_scale(std::byte* workspace) const {
    return reinterpret_cast<float*>(workspace + 5 * stride_);
  }

 private:
  std::size_t stride_;
};

// The op's first three results, summed in the order of the rows.
struct CrossEntropySums {
  double loss = 0, z_loss = 0, uniform_loss = 0;

  // Sets the loss and the log-sum-exp of each row in `token_loss` and `lse`, if not null.
  void add(const CrossEntropyRows& rows, const std::int32_t* labels, std::int64_t vocabulary,
           float* token_loss = nullptr, float* lse = nullptr) {
    for (std::int64_t r = 0; r < rows.num_rows; ++r) {
      const double row_lse =
          static_cast<double>(rows.max[r]) + std::log(static_cast<double>(rows.sum[r]));
      if (lse) lse[r] = static_cast<float>(row_lse);
      if (token_loss) token_loss[r] = 0;
      if (labels[r] < 0) continue;
      const double row_loss = row_lse - static_cast<double>(rows.target[r]);
      if (token_loss) token_loss[r] = static_cast<float>(row_loss);
      loss += row_loss;
      z_loss += row_lse * row_lse;
      if (rows.total)
        uniform_loss +=
            row_lse - static_cast<double>(rows.total[r]) / static_cast<double>(vocabulary);
    }
  }

  void store(std::span<void* const> out) const {
    const double values[] = {loss, z_loss, uniform_loss};
    for (std::size_t i = 0; i < 3; ++i)
      if (out[i]) *static_cast<float*>(out[i]) = static_cast<float>(values[i]);
  }
};

// Multiplies the logits of a tile by the op's logit_scale, and adds the bias of its columns, if
// any.
void scale_tile(const CrossEntropyTile& tile, std::int64_t num_rows, float scale,
                const float* bias) {
  if (scale == 1 && !bias) return;
  if (bias) bias += tile.first_column;
  auto* logits = static_cast<float*>(const_cast<void*>(tile.logits));
  parallel_ranges(num_rows, 1 + 8192 / (1 + tile.num_columns),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t r = begin; r < end; ++r)
                      for (std::int64_t c = 0; c < tile.num_columns; ++c)
                        logits[r * tile.row_stride + c] =
                            logits[r * tile.row_stride + c] * scale + (bias ? bias[c] : 0);
                  });
}

std::int64_t row_bytes(const Type& w) { return w.bytes() / std::max<std::int64_t>(1, w.dim(0)); }

Verdict supports(const NodeView& n, int bias) {
  if (n.has(bias) && n.type(bias).dtype != DType::f32)
    return Verdict::no("takes a bias in f32 only");
  return only_f32_and_bf16(n);
}

// Computes blocks of rows times tiles of the vocabulary. Each tile of logits is added to running
// sums at once (online softmax, Milakov & Gimelshein 2018).
namespace cross_entropy_op {

namespace in = operand::cross_entropy;

constexpr std::int64_t kTileRows = 512;
constexpr std::int64_t kTileColumns = 8192;

class CrossEntropyKernel final : public Kernel {
 public:
  explicit CrossEntropyKernel(const NodeView& n)
      : dtype_(n.type(0).dtype),
        rows_(n.type(0).dim(0)),
        width_(n.type(0).dim(1)),
        vocabulary_(n.type(1).dim(0)),
        head_row_bytes_(row_bytes(n.type(1))),
        soft_cap_(static_cast<float>(n.f("soft_cap"))),
        logit_scale_(static_cast<float>(n.f("logit_scale"))),
        state_(std::min(rows_, kTileRows)) {
    // Products for full and last tiles in both directions.
    for (std::size_t r : {0, 1})
      for (std::size_t c : {0, 1}) {
        const std::int64_t m = size_of(rows_, kTileRows, r),
                           v = size_of(vocabulary_, kTileColumns, c);
        if (m == 0 || v == 0) continue;
        logits_[r][c] = make_checked_gemm({.m = m,
                                           .n = v,
                                           .k = width_,
                                           .in = dtype_,
                                           .out = DType::f32,
                                           .ldc = tile_columns(),
                                           .bias = {},
                                           .b_stored = n.type(1).storage});
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
    auto* token_loss = static_cast<float*>(args.outputs[3]);
    auto* lse = static_cast<float*>(args.outputs[4]);
    CrossEntropySums sums;
    for (std::int64_t row = 0; row < rows_; row += kTileRows) {
      const std::int64_t m = std::min(kTileRows, rows_ - row);
      const CrossEntropyRows rows =
          state_.start(args.workspace, labels + row, m, /*all=*/true, args.outputs[2] != nullptr);
      for (std::int64_t column = 0; column < vocabulary_; column += kTileColumns) {
        const std::int64_t v = std::min(kTileColumns, vocabulary_ - column);
        const std::int64_t bytes = width_ * size_bytes(dtype_);
        logits_[m < kTileRows][v < kTileColumns]->run(
            at_byte(args.inputs[0], row * bytes), at_byte(args.inputs[1], column * head_row_bytes_),
            nullptr, tile_data, gemm_workspace);
        const CrossEntropyTile tile{.logits = tile_data,
                                    .dtype = DType::f32,
                                    .row_stride = tile_columns(),
                                    .first_column = column,
                                    .num_columns = v,
                                    .soft_cap = soft_cap_};
        scale_tile(tile, m, logit_scale_, static_cast<const float*>(args.inputs[in::kBias]));
        cross_entropy_add_tile(rows, tile);
      }
      sums.add(rows, labels + row, vocabulary_, token_loss ? token_loss + row : nullptr,
               lse ? lse + row : nullptr);
    }
    sums.store(args.outputs);
  }

 private:
  // Returns the size of a full tile (0 if there is none), or of the last, shorter one.
  static std::int64_t size_of(std::int64_t total, std::int64_t tile, std::size_t last) {
    if (last) return total % tile;
    return total >= tile ? tile : 0;
  }
  std::int64_t tile_columns() const { return std::min(vocabulary_, kTileColumns); }
  std::size_t tile_bytes() const {
    return aligned(static_cast<std::size_t>(std::min(rows_, kTileRows) * tile_columns() * 4));
  }

  DType dtype_;
  std::int64_t rows_, width_, vocabulary_, head_row_bytes_;
  float soft_cap_, logit_scale_;
  CrossEntropyState state_;
  std::array<std::array<std::unique_ptr<Gemm>, 2>, 2> logits_;
  std::size_t gemm_bytes_ = 0;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<CrossEntropyKernel>(n);
}

Verdict supports_bias(const NodeView& n) { return supports(n, in::kBias); }

constexpr KernelChoice kChoices[] = {{"tiles", supports_bias, make}};

}  // namespace cross_entropy_op

// Computes blocks of rows: one product for all logits of the block, their softmax and gradient in
// place, one product for dx and one that is added to dw. These are three products in all, and only
// the logits of one block are in memory.
namespace cross_entropy_grad_op {

namespace in = operand::cross_entropy_grad;

// Outputs.
constexpr std::size_t kDx = 3, kDw = 4, kDbias = 5;

// Returns the rows of a block: blocks of equal size, multiples of 16, as tall as the memory allows.
// Every block reads all of w twice and adds to all of dw, so logits may use twice the memory of dw,
// within bounds.
std::int64_t block_rows(std::int64_t rows, std::int64_t width, std::int64_t vocabulary) {
  constexpr std::int64_t kMinBytes = std::int64_t{128} << 20, kMaxBytes = kMinBytes * 4;
  const std::int64_t bytes = std::clamp(2 * vocabulary * width * 4, kMinBytes, kMaxBytes);
  const std::int64_t max_rows = std::max<std::int64_t>(16, bytes / (vocabulary * 4 + 1) / 16 * 16);
  const std::int64_t blocks = std::max<std::int64_t>(1, divide_up(rows, max_rows));
  return std::min(rows, round_up(divide_up(rows, blocks), 16));
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
        block_(block_rows(rows_, width_, vocabulary_)),
        logits_stride_(round_up(vocabulary_, kLineFloats)),
        gradient_stride_(dtype_ == DType::f32 ? logits_stride_ : 2 * logits_stride_),
        state_(block_) {
    if (rows_ == 0 || vocabulary_ == 0) return;
    make_products(0, block_, n.type(1).storage);
    if (rows_ % block_) make_products(1, rows_ % block_, n.type(1).storage);
  }

  std::size_t workspace_bytes() const override {
    return state_.bytes() + logits_bytes() + aligned(gemm_bytes_);
  }

  void run(const KernelArgs& args) override {
    const auto* labels = static_cast<const std::int32_t*>(args.inputs[2]);
    begin_sum(args);
    if (rows_ == 0 && args.outputs[kDbias] && args.inputs[in::kBias])
      parallel_zero(args.outputs[kDbias], vocabulary_ * 4);
    CrossEntropySums sums;
    for (std::int64_t row = 0; row < rows_ && vocabulary_ > 0; row += block_)
      run_block(args, row, labels + row, sums);
    sums.store(args.outputs);
  }

 private:
  // Must run before dx is written, which may be in the memory of acc.
  void begin_sum(const KernelArgs& args) const {
    void* dw = args.outputs[kDw];
    const std::int64_t bytes = vocabulary_ * width_ * 4;
    if (dw && args.inputs[in::kAcc])
      parallel_copy(dw, args.inputs[in::kAcc], bytes);  // nothing when in place
    else if (dw && rows_ == 0)
      parallel_zero(dw, bytes);
  }

  // The products of a block of m rows: [m, V] logits, dx, and dw, which is first written and then
  // added to.
  struct Products {
    std::unique_ptr<Gemm> logits, dx, dw, dw_added;
  };

  void make_products(std::size_t i, std::int64_t m, const formats::BlockFormat* stored) {
    Products& p = products_[i];
    p.logits = make_checked_gemm({.m = m,
                                  .n = vocabulary_,
                                  .k = width_,
                                  .in = dtype_,
                                  .out = DType::f32,
                                  .ldc = logits_stride_,
                                  .is_read_late = true,  // a block exceeds the caches
                                  .bias = {},
                                  .b_stored = stored});
    p.dx = make_checked_gemm({.m = m,
                              .n = width_,
                              .k = vocabulary_,
                              .in = dtype_,
                              .out = dtype_,
                              .b_transposed = false,
                              .lda = gradient_stride_,
                              .bias = {},
                              .b_stored = stored});
    GemmSpec dw{.m = vocabulary_,
                .n = width_,
                .k = m,
                .in = dtype_,
                .out = DType::f32,
                .a_transposed = true,
                .b_transposed = false,
                .lda = gradient_stride_,
                .is_read_late = block_ >= rows_};  // else the next block adds to it
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
    std::byte* dlogits = logits;  // each row at the place of its logits
    std::byte* gemm_workspace = logits + logits_bytes();

    p.logits->run(x, w, nullptr, logits, gemm_workspace);
    const CrossEntropyTile tile{.logits = logits,
                                .dtype = DType::f32,
                                .row_stride = logits_stride_,
                                .first_column = 0,
                                .num_columns = vocabulary_,
                                .soft_cap = soft_cap_};
    const auto* bias = static_cast<const float*>(args.inputs[in::kBias]);
    scale_tile(tile, m, logit_scale_, bias);
    const CrossEntropyRows rows =
        state_.start(args.workspace, labels, m, /*all=*/false, args.outputs[2] != nullptr);
    CrossEntropyGradient gradient = scales(args, row, m);
    gradient.dlogits = dlogits;
    if (args.outputs[kDx] || args.outputs[kDw] || args.outputs[kDbias])
      cross_entropy_with_gradient(rows, tile, gradient);
    else
      cross_entropy_add_tile(rows, tile);
    sums.add(rows, labels, vocabulary_);

    if (bias && args.outputs[kDbias])
      add_bias_gradient(dlogits, m, row == 0, static_cast<float*>(args.outputs[kDbias]));
    if (args.outputs[kDx])
      p.dx->run(dlogits, w, nullptr, at_byte(args.outputs[kDx], row * row_bytes), gemm_workspace);
    if (args.outputs[kDw])
      (row == 0 && !args.inputs[in::kAcc] ? p.dw : p.dw_added)
          ->run(dlogits, x, nullptr, args.outputs[kDw], gemm_workspace);
  }

  // Returns the scales of the losses of a block of m rows.
  CrossEntropyGradient scales(const KernelArgs& args, std::int64_t row, std::int64_t m) const {
    const auto number = [&](int input) {
      return args.inputs[input] ? *static_cast<const float*>(args.inputs[input]) : 0.0f;
    };
    float scale = number(in::kDloss);
    const float dz = number(in::kDzLoss), uniform = number(in::kDuniformLoss);
    CrossEntropyGradient out{.scale = 0,
                             .dlogits = nullptr,
                             .dtype = dtype_,
                             .row_stride = gradient_stride_,
                             .vocabulary = vocabulary_};
    if (const auto* of_rows = static_cast<const float*>(args.inputs[in::kDtokenLoss])) {
      float* row_scale = state_.row_scale(args.workspace);
      for (std::int64_t r = 0; r < m; ++r) row_scale[r] = scale + of_rows[row + r];
      out.row_scale = row_scale;
      scale = 1;
    }
    // The other losses are relative to this scale, so it must not be 0; a tiny one is lost in
    // rounding.
    if (scale == 0) scale = dz == 0 && uniform == 0 ? 0 : 1e-20f;
    out.scale = scale * logit_scale_;
    out.z_loss = scale == 0 ? 0 : dz / scale;
    out.uniform = scale == 0 ? 0 : uniform / scale;
    return out;
  }

  // Adds the sums of columns of dlogits, which include logit_scale; the bias is added after the
  // scaling.
  void add_bias_gradient(const std::byte* dlogits, std::int64_t m, bool first, float* out) const {
    constexpr std::int64_t kColumns = 256;
    parallel_tasks(divide_up(vocabulary_, kColumns), [&](std::int64_t task, int) {
      const std::int64_t begin = task * kColumns, count = std::min(kColumns, vocabulary_ - begin);
      double sums[kColumns] = {};
      for (std::int64_t r = 0; r < m; ++r) {
        const std::int64_t at = r * gradient_stride_ + begin;
        for (std::int64_t c = 0; c < count; ++c)
          sums[c] += dtype_ == DType::f32
                         ? reinterpret_cast<const float*>(dlogits)[at + c]
                         : to_float(reinterpret_cast<const bfloat16*>(dlogits)[at + c]);
      }
      for (std::int64_t c = 0; c < count; ++c) {
        const auto sum = static_cast<float>(sums[c] / static_cast<double>(logit_scale_));
        out[begin + c] = first ? sum : out[begin + c] + sum;
      }
    });
  }

  std::size_t logits_bytes() const {
    return aligned(static_cast<std::size_t>(block_ * logits_stride_ * 4));
  }

  // Rows of logits begin at cache lines, so that they can be stored past the caches.
  static constexpr std::int64_t kLineFloats = 16;

  DType dtype_;
  std::int64_t rows_, width_, vocabulary_;
  float soft_cap_, logit_scale_;
  std::int64_t block_;
  std::int64_t logits_stride_;
  std::int64_t gradient_stride_;  // in elements of dtype: the distance between rows of f32 logits
  CrossEntropyState state_;
  std::array<Products, 2> products_;  // for a full block, and for the last one
  std::size_t gemm_bytes_ = 0;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<CrossEntropyGradKernel>(n);
}

Verdict supports_bias(const NodeView& n) { return supports(n, in::kBias); }

constexpr KernelChoice kChoices[] = {{"blocks", supports_bias, make, in_place_of(in::kAcc)}};

}  // namespace cross_entropy_grad_op

constexpr OpKernels kOps[] = {
    {"cross_entropy", cross_entropy_op::kChoices},
    {"cross_entropy_grad", cross_entropy_grad_op::kChoices},
};

}  // namespace

KernelTable cross_entropy_kernels() { return kOps; }

}  // namespace lamina::cpu
