// matmul: batches of products; and in plain loops for f64 and f16.
#include <memory>

#include "backends/cpu/device/threads.h"
#include "backends/cpu/gemm/products.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

// The products of a matmul: `batch` of them, one after the other in memory.
struct Sizes {
  std::int64_t batch, m, n, k;
  bool transpose_a, transpose_b;

  explicit Sizes(const NodeView& v)
      : batch(product(v.out_type().shape, 0, v.out_type().ndim() - 2)),
        m(v.out_type().dim(-2)),
        n(v.out_type().dim(-1)),
        k(v.type(0).dim(v.i("transpose_a") ? -2 : -1)),
        transpose_a(v.i("transpose_a") != 0),
        transpose_b(v.i("transpose_b") != 0) {}
};

Verdict supports_gemm(const NodeView& n) {
  return gemm_takes(n.type(0).dtype, n.out_type().dtype, nullptr);
}

class GemmKernel final : public Kernel {
 public:
  explicit GemmKernel(const NodeView& n)
      : sizes_(n),
        in_bytes_(size_bytes(n.type(0).dtype)),
        out_bytes_(size_bytes(n.out_type().dtype)),
        has_acc_(n.has(2)),
        gemm_(make_checked_gemm({.m = sizes_.m,
                                 .n = sizes_.n,
                                 .k = sizes_.k,
                                 .in = n.type(0).dtype,
                                 .out = n.out_type().dtype,
                                 .a_transposed = sizes_.transpose_a,
                                 .b_transposed = sizes_.transpose_b,
                                 .accumulate = has_acc_})) {}

  std::size_t workspace_bytes() const override { return gemm_->workspace_bytes(); }
  std::string detail() const override { return std::string(gemm_->kernel()); }

  void run(const KernelArgs& args) override {
    const Sizes& s = sizes_;
    if (has_acc_)  // nothing when in place
      parallel_copy(args.outputs[0], args.inputs[2], s.batch * s.m * s.n * out_bytes_);
    for (std::int64_t b = 0; b < s.batch; ++b)
      gemm_->run(at_byte(args.inputs[0], b * s.m * s.k * in_bytes_),
                 at_byte(args.inputs[1], b * s.k * s.n * in_bytes_), nullptr,
                 at_byte(args.outputs[0], b * s.m * s.n * out_bytes_), args.workspace);
  }

 private:
  Sizes sizes_;
  std::int64_t in_bytes_, out_bytes_;
  bool has_acc_;
  std::unique_ptr<Gemm> gemm_;
};

std::unique_ptr<Kernel> make_gemm_kernel(const NodeView& n) {
  return std::make_unique<GemmKernel>(n);
}

template <typename In, typename Out>
void multiply(const Sizes& s, const In* a, const In* b, const Out* acc, Out* y) {
  parallel_tasks(s.batch * s.m, [&](std::int64_t task) {
    const std::int64_t batch = task / s.m, i = task % s.m;
    const In* ap = a + batch * s.m * s.k;
    const In* bp = b + batch * s.k * s.n;
    for (std::int64_t j = 0; j < s.n; ++j) {
      const std::int64_t at = task * s.n + j;
      double sum = acc ? Number<Out>::load(acc[at]) : 0;
      for (std::int64_t k = 0; k < s.k; ++k)
        sum +=
            static_cast<double>(Number<In>::load(ap[s.transpose_a ? k * s.m + i : i * s.k + k])) *
            static_cast<double>(Number<In>::load(bp[s.transpose_b ? j * s.k + k : k * s.n + j]));
      y[at] = Number<Out>::store(static_cast<typename Number<Out>::Wide>(sum));
    }
  });
}

std::unique_ptr<Kernel> make_reference(const NodeView& n) {
  return make_kernel([s = Sizes(n), in = n.type(0).dtype,
                      out = n.out_type().dtype](const KernelArgs& args) {
    const void* acc = args.inputs.size() > 2 ? args.inputs[2] : nullptr;
    with_floating(in, [&](auto x) {
      with_floating(out, [&](auto y) {
        using In = decltype(x);
        using Out = decltype(y);
        multiply(s, static_cast<const In*>(args.inputs[0]), static_cast<const In*>(args.inputs[1]),
                 static_cast<const Out*>(acc), static_cast<Out*>(args.outputs[0]));
      });
    });
  });
}

constexpr KernelChoice kChoices[] = {
    {"gemm", supports_gemm, make_gemm_kernel, in_place_of(2)},
    {"reference", always, make_reference, in_place_of(2)},
};

}  // namespace

std::span<const KernelChoice> matmul_kernels() { return kChoices; }

}  // namespace lamina::cpu
