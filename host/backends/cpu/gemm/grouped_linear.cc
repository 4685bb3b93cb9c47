// grouped_linear: the matrices of groups that have rows are streamed; in plain loops for f64 and
// f16.
#include "backends/cpu/device/threads.h"
#include "backends/cpu/gemm/group_ranges.h"
#include "backends/cpu/gemm/grouped.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

GroupedSpec spec_of(const NodeView& n) {
  const Type& w = n.type(1);
  GroupedSpec spec{.rows = n.type(0).dim(0),
                   .groups = w.dim(0),
                   .inputs = w.dim(2),
                   .outputs = w.dim(1),
                   .dtype = w.dtype};
  if (n.has(3)) spec.bias = n.type(3).dtype;
  return spec;
}

class StreamKernel final : public Kernel {
 public:
  explicit StreamKernel(const NodeView& n) : product_(spec_of(n)) {}
  std::size_t workspace_bytes() const override { return product_.workspace_bytes(); }
  std::string detail() const override { return std::string(product_.kernel()); }
  void run(const KernelArgs& args) override {
    product_.run(args.inputs[0], args.inputs[1], static_cast<const std::int32_t*>(args.inputs[2]),
                 args.inputs.size() > 3 ? args.inputs[3] : nullptr, args.outputs[0],
                 args.workspace);
  }

 private:
  GroupedLinear product_;
};

std::unique_ptr<Kernel> make_stream(const NodeView& n) { return std::make_unique<StreamKernel>(n); }

template <typename T, typename B>
void multiply(const GroupedSpec& s, const T* x, const T* w, const std::int32_t* offsets,
              const B* bias, T* y) {
  parallel_tasks(s.rows, [&](std::int64_t r) {
    const std::int64_t group = group_of(offsets, s.groups, r);
    for (std::int64_t o = 0; o < s.outputs; ++o) {
      double sum = 0;
      if (group >= 0) {
        const T* row = w + (group * s.outputs + o) * s.inputs;
        for (std::int64_t i = 0; i < s.inputs; ++i)
          sum += static_cast<double>(Number<T>::load(x[r * s.inputs + i])) *
                 static_cast<double>(Number<T>::load(row[i]));
        if (bias != nullptr)
          sum += static_cast<double>(Number<B>::load(bias[group * s.outputs + o]));
      }
      y[r * s.outputs + o] = Number<T>::store(static_cast<typename Number<T>::Wide>(sum));
    }
  });
}

std::unique_ptr<Kernel> make_reference(const NodeView& n) {
  return make_kernel([s = spec_of(n)](const KernelArgs& args) {
    with_floating(s.dtype, [&](auto x) {
      with_floating(s.bias.value_or(s.dtype), [&](auto b) {
        using T = decltype(x);
        using B = decltype(b);
        multiply(s, static_cast<const T*>(args.inputs[0]), static_cast<const T*>(args.inputs[1]),
                 static_cast<const std::int32_t*>(args.inputs[2]),
                 static_cast<const B*>(args.inputs.size() > 3 ? args.inputs[3] : nullptr),
                 static_cast<T*>(args.outputs[0]));
      });
    });
  });
}

constexpr KernelChoice kChoices[] = {
    {"stream", only_f32_and_bf16, make_stream},
    {"reference", always, make_reference},
};

}  // namespace

std::span<const KernelChoice> grouped_linear_kernels() { return kChoices; }

}  // namespace lamina::cpu
