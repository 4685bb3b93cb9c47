// grouped_linear_dx: a product for each group that has rows; in plain loops for f64 and f16.
#include "backends/cpu/device/threads.h"
#include "backends/cpu/gemm/group_ranges.h"
#include "backends/cpu/gemm/grouped.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

GroupedSpec spec_of(const NodeView& n) {
  const Type& w = n.type(1);
  return {.rows = n.type(0).dim(0),
          .groups = w.dim(0),
          .inputs = w.dim(2),
          .outputs = w.dim(1),
          .dtype = w.dtype,
          .bias = {}};
}

class TileKernel final : public Kernel {
 public:
  explicit TileKernel(const NodeView& n) : product_(spec_of(n)) {}
  std::size_t workspace_bytes() const override { return product_.workspace_bytes(); }
  std::string detail() const override { return std::string(product_.kernel()); }
  void run(const KernelArgs& args) override {
    product_.run(args.inputs[0], args.inputs[1], static_cast<const std::int32_t*>(args.inputs[2]),
                 args.outputs[0], args.workspace);
  }

 private:
  GroupedLinearDx product_;
};

std::unique_ptr<Kernel> make_tiles(const NodeView& n) { return std::make_unique<TileKernel>(n); }

template <typename T>
void multiply(const GroupedSpec& s, const T* dy, const T* w, const std::int32_t* offsets, T* dx) {
  parallel_tasks(s.rows, [&](std::int64_t r) {
    const std::int64_t group = group_of(offsets, s.groups, r);
    for (std::int64_t i = 0; i < s.inputs; ++i) {
      double sum = 0;
      for (std::int64_t o = 0; group >= 0 && o < s.outputs; ++o)
        sum += static_cast<double>(Number<T>::load(dy[r * s.outputs + o])) *
               static_cast<double>(Number<T>::load(w[(group * s.outputs + o) * s.inputs + i]));
      dx[r * s.inputs + i] = Number<T>::store(static_cast<typename Number<T>::Wide>(sum));
    }
  });
}

std::unique_ptr<Kernel> make_reference(const NodeView& n) {
  return make_kernel([s = spec_of(n)](const KernelArgs& args) {
    with_floating(s.dtype, [&](auto x) {
      using T = decltype(x);
      multiply(s, static_cast<const T*>(args.inputs[0]), static_cast<const T*>(args.inputs[1]),
               static_cast<const std::int32_t*>(args.inputs[2]), static_cast<T*>(args.outputs[0]));
    });
  });
}

constexpr KernelChoice kChoices[] = {
    {"gemm", only_f32_and_bf16, make_tiles},
    {"reference", always, make_reference},
};

}  // namespace

std::span<const KernelChoice> grouped_linear_dx_kernels() { return kChoices; }

}  // namespace lamina::cpu
