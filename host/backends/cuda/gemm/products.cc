#include "backends/cuda/gemm/products.h"

#include <algorithm>
#include <string>

#include "backends/cuda/access.h"
#include "backends/cuda/context.h"
#include "backends/cuda/gemm/bias_params.h"
#include "backends/cuda/queue.h"
#include "core/error.h"
#include "core/round_up.h"

namespace lamina::cuda {
namespace {

// Widened weights are read again at once: a part of them should be in L2 still.
constexpr std::int64_t kPanelBytes = 32 << 20;
constexpr std::int64_t kPanelStep = 128;  // rows: the width of cuBLASLt's tiles
const std::string kProduct = "cublasLtMatmul";

// Columns of a stored B are widened as a whole: their blocks are not along k.
std::int64_t rows_of_panel(const blas::ProductSpec& spec) {
  if (!spec.b_transposed) return spec.n;
  const std::int64_t rows = kPanelBytes / (spec.k * size_bytes(spec.in));
  return std::min(spec.n, std::max(rows / kPanelStep, std::int64_t{1}) * kPanelStep);
}

// Addresses on the GPU, which the host cannot dereference.
const void* after(const void* at, std::int64_t bytes) {
  return at ? static_cast<const std::byte*>(at) + bytes : nullptr;
}
void* after(void* at, std::int64_t bytes) { return static_cast<std::byte*>(at) + bytes; }

Address number(const void* at) { return reinterpret_cast<Address>(at); }

}  // namespace

LargeProduct::LargeProduct(Context& context, const blas::ProductSpec& spec,
                           const formats::BlockFormat* stored, std::optional<DType> bias)
    : spec_(spec), stored_(stored) {
  LAMINA_ASSERT(!stored || spec.batch == 1);
  if (spec.batch == 0 || spec.m == 0 || spec.n == 0) return;
  if (bias && *bias != spec.out) {
    LAMINA_ASSERT(spec.bias && *bias == DType::f32);
    round_bias_ = function(context, "linear_bias", spec.out);
  }
  if (spec.bias) bias_bytes_ = aligned(static_cast<std::size_t>(spec.n * size_bytes(spec.out)));
  blas::Library& library = static_cast<CudaContext&>(context).blas();
  if (spec_.ldc == 0) spec_.ldc = spec_.n;
  panel_rows_ = stored ? rows_of_panel(spec_) : spec_.n;
  blas::ProductSpec panel = spec_;
  panel.n = panel_rows_;
  product_ = std::make_unique<blas::PreparedProduct>(library, panel);
  if (!stored) return;
  if (spec.in == DType::f8_e4m3) {
    LAMINA_ASSERT(stored == formats::fp8_format(blas::kFp8ScaledValues));
    fp8_.emplace(context, Fp8Operand::Source::fp8_blocks, panel_rows_, spec.k);
    panel_bytes_ = fp8_->bytes();
  } else {
    widener_.emplace(context, *stored, spec.in);
    panel_bytes_ = aligned(static_cast<std::size_t>(panel_rows_ * spec.k * size_bytes(spec.in)));
  }
  panel.n = spec.n % panel_rows_;
  if (panel.n > 0) rest_ = std::make_unique<blas::PreparedProduct>(library, panel);
}

std::size_t LargeProduct::workspace_bytes() const {
  const auto bytes = [](const auto& product) { return product ? product->workspace_bytes() : 0; };
  return bias_bytes_ + panel_bytes_ + std::max(bytes(product_), bytes(rest_));
}

void LargeProduct::run(const KernelArgs& args, const void* a, const void* b, const void* bias,
                       const void* c, void* d, const void* a_scales) const {
  if (!product_) return;
  auto& queue = static_cast<CudaQueue&>(*args.queue);
  const std::int64_t out_bytes = size_bytes(spec_.out);
  std::byte* const workspace = args.workspace + bias_bytes_;
  if (round_bias_) {
    launch(args, round_bias_, {.blocks = grid_for(spec_.n, 256), .threads = 256},
           LinearBiasParams{address(bias), address(args.workspace), spec_.n});
    bias = args.workspace;
  } else if (bias && !begin_vectors({bias})) {
    copy_bytes(args, args.workspace, bias, static_cast<std::size_t>(spec_.n * out_bytes));
    bias = args.workspace;
  }
  for (std::int64_t row = 0; row < spec_.n; row += panel_rows_) {
    const std::int64_t rows = std::min(panel_rows_, spec_.n - row);
    const void* const part = stored_ ? after(b, stored_->bytes_of(row * spec_.k)) : b;
    if (widener_) widener_->run(args, part, rows * spec_.k, workspace);
    if (fp8_) fp8_->write(args, part, rows, workspace);
    const blas::PreparedProduct& product = rows == panel_rows_ ? *product_ : *rest_;
    product.run(queue.stream(), {.a = number(a),
                                 .b = number(stored_ ? workspace : b),
                                 .c = number(after(c, row * out_bytes)),
                                 .bias = number(after(bias, row * out_bytes)),
                                 .d = number(after(d, row * out_bytes)),
                                 .workspace = number(workspace) + panel_bytes_,
                                 .a_scales = number(a_scales),
                                 .b_scales = fp8_ ? number(fp8_->scales(workspace)) : 0});
    queue.note(kProduct);
  }
}

}  // namespace lamina::cuda
