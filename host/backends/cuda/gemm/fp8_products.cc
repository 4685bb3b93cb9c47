#include "backends/cuda/gemm/fp8_products.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "backends/cuda/gemm/fp8_operand.h"
#include "backends/cuda/gemm/products.h"
#include "backends/cuda/gpus_in_use.h"
#include "backends/cuda/kernel_support.h"
#include "core/log.h"
#include "core/round_up.h"
#include "formats/block_formats.h"

namespace lamina::cuda {
namespace {

// config/environment.cc refuses values other than 0 and 1.
bool is_wanted() {
  const char* const text = std::getenv("LAMINA_GPU_FP8");
  return text && std::string_view(text) == "1";
}

Verdict is_usable() {
  for (const GpuInUse& gpu : gpus_in_use()) {
    if (gpu.capability != 90)
      return Verdict::no(fmt::format("needs GPUs of compute capability 9.0, got {}.{}",
                                     gpu.capability / 10, gpu.capability % 10));
    if (const std::size_t version = gpu.open_blas().version(); version < blas::kScalesOf128Since)
      return Verdict::no(fmt::format("needs cuBLASLt 12.9 or newer, got {}.{}", version / 10000,
                                     version % 10000 / 100));
  }
  return Verdict::yes();
}

class Fp8Products final : public Kernel {
 public:
  Fp8Products(Context& context, std::vector<Fp8Product> products)
      : products_(std::move(products)),
        rows_(products_.at(0).spec.m),
        x_(context, Fp8Operand::Source::bf16_rows, rows_, products_[0].spec.k) {
    for (const Fp8Product& product : products_) {
      blas::ProductSpec spec = product.spec;
      spec.in = DType::f8_e4m3;
      spec.m = Fp8Operand::padded(rows_);
      if (spec.m != rows_)
        padded_bytes_ =
            std::max(padded_bytes_,
                     aligned(static_cast<std::size_t>(spec.m * spec.n * size_bytes(spec.out))));
      multiply_.emplace_back(context, spec, formats::fp8_format(blas::kFp8ScaledValues),
                             product.bias_type);
    }
  }

  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const LargeProduct& product : multiply_)
      bytes = std::max(bytes, product.workspace_bytes());
    return x_.bytes() + padded_bytes_ + bytes;
  }

  void run(const KernelArgs& args) override {
    x_.write(args, args.inputs[0], rows_, args.workspace);
    std::byte* const padded = args.workspace + x_.bytes();
    KernelArgs rest = args;
    rest.workspace = padded + padded_bytes_;
    for (std::size_t i = 0; i < products_.size(); ++i) {
      const Fp8Product& product = products_[i];
      const auto bytes =
          static_cast<std::size_t>(rows_ * product.spec.n * size_bytes(product.spec.out));
      void* const y = padded_bytes_ > 0 ? padded : args.outputs[i];
      const void* const addend = input_of(args, product.addend);
      if (addend) copy_bytes(args, y, addend, bytes);  // of any alignment
      multiply_[i].run(rest, args.workspace, input_of(args, product.w),
                       input_of(args, product.bias), addend ? y : nullptr, y,
                       x_.scales(args.workspace));
      copy_bytes(args, args.outputs[i], y, bytes);
    }
  }

 private:
  const std::vector<Fp8Product> products_;
  const std::int64_t rows_;
  const Fp8Operand x_;
  std::vector<LargeProduct> multiply_;
  std::size_t padded_bytes_ = 0;  // of a result with rows of padding; 0: there are none
};

}  // namespace

Verdict takes_fp8_products(const Type& x, const Type& w, const blas::ProductSpec& spec) {
  if (!is_wanted()) return Verdict::no("rounds activations to FP8, with LAMINA_GPU_FP8=1 only");
  if (x.dtype != DType::bf16)
    return Verdict::no(fmt::format("takes activations in bf16, got {}", name(x.dtype)));
  if (w.storage != formats::fp8_format(blas::kFp8ScaledValues))
    return Verdict::no("takes weights that are stored in FP8, got " + to_string(w));
  if (spec.batch != 1 || spec.a_transposed || !spec.b_transposed)
    return Verdict::no("multiplies rows with rows");
  if (spec.n == 0 || spec.n % blas::kFp8Multiple != 0)
    return Verdict::no(
        fmt::format("takes multiples of {} outputs, got {}", blas::kFp8Multiple, spec.n));
  return is_usable();
}

std::unique_ptr<Kernel> make_fp8_products(Context& context, std::vector<Fp8Product> products) {
  try {
    return std::make_unique<Fp8Products>(context, std::move(products));
  } catch (const blas::NoAlgorithm& error) {
    log::warning("{}; the product has operands in bf16 instead", error.text().what);
    return nullptr;
  }
}

}  // namespace lamina::cuda
