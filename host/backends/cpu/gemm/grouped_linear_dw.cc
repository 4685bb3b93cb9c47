// grouped_linear_dw: a product over the rows of each group, and the column sums of dy; in plain
// loops for f64 and f16.
#include <algorithm>

#include "backends/cpu/device/threads.h"
#include "backends/cpu/gemm/grouped.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

GroupedSpec spec_of(const NodeView& n) {
  const Type& dw = n.out_type();
  return {.rows = n.type(0).dim(0),
          .groups = dw.dim(0),
          .inputs = dw.dim(2),
          .outputs = dw.dim(1),
          .dtype = n.type(0).dtype,
          .bias = {}};
}

std::int64_t begin_of(const GroupedSpec& s, const std::int32_t* offsets, std::int64_t group) {
  return std::clamp<std::int64_t>(offsets[group], 0, s.rows);
}

// dbias[e] = the sum of the group's rows of dy, in order.
template <typename T>
void sum_rows(const GroupedSpec& s, const T* dy, const std::int32_t* offsets,
              typename Number<T>::Wide* dbias) {
  parallel_tasks(s.groups, [&](std::int64_t group) {
    auto* sums = dbias + group * s.outputs;
    std::fill(sums, sums + s.outputs, 0);
    for (std::int64_t r = begin_of(s, offsets, group); r < begin_of(s, offsets, group + 1); ++r)
      for (std::int64_t o = 0; o < s.outputs; ++o)
        sums[o] += Number<T>::load(dy[r * s.outputs + o]);
  });
}

class TileKernel final : public Kernel {
 public:
  explicit TileKernel(const NodeView& n) : spec_(spec_of(n)), product_(spec_) {}
  std::size_t workspace_bytes() const override { return product_.workspace_bytes(); }
  std::string detail() const override { return std::string(product_.kernel()); }
  void run(const KernelArgs& args) override {
    const auto* offsets = static_cast<const std::int32_t*>(args.inputs[2]);
    product_.run(args.inputs[0], args.inputs[1], offsets, static_cast<float*>(args.outputs[0]),
                 args.workspace);
    auto* dbias = static_cast<float*>(args.outputs[1]);
    if (dbias == nullptr) return;
    if (spec_.dtype == DType::bf16)
      sum_rows(spec_, static_cast<const bfloat16*>(args.inputs[1]), offsets, dbias);
    else
      sum_rows(spec_, static_cast<const float*>(args.inputs[1]), offsets, dbias);
  }

 private:
  GroupedSpec spec_;
  GroupedLinearDw product_;
};

std::unique_ptr<Kernel> make_tiles(const NodeView& n) { return std::make_unique<TileKernel>(n); }

template <typename T>
void multiply(const GroupedSpec& s, const T* x, const T* dy, const std::int32_t* offsets,
              typename Number<T>::Wide* dw) {
  parallel_tasks(s.groups * s.outputs, [&](std::int64_t task) {
    const std::int64_t group = task / s.outputs, o = task % s.outputs;
    for (std::int64_t i = 0; i < s.inputs; ++i) {
      double sum = 0;
      for (std::int64_t r = begin_of(s, offsets, group); r < begin_of(s, offsets, group + 1); ++r)
        sum += static_cast<double>(Number<T>::load(dy[r * s.outputs + o])) *
               static_cast<double>(Number<T>::load(x[r * s.inputs + i]));
      dw[task * s.inputs + i] = static_cast<typename Number<T>::Wide>(sum);
    }
  });
}

std::unique_ptr<Kernel> make_reference(const NodeView& n) {
  return make_kernel([s = spec_of(n)](const KernelArgs& args) {
    with_floating(s.dtype, [&](auto type) {
      using T = decltype(type);
      using Wide = typename Number<T>::Wide;
      const auto* dy = static_cast<const T*>(args.inputs[1]);
      const auto* offsets = static_cast<const std::int32_t*>(args.inputs[2]);
      multiply(s, static_cast<const T*>(args.inputs[0]), dy, offsets,
               static_cast<Wide*>(args.outputs[0]));
      if (args.outputs[1] != nullptr) sum_rows(s, dy, offsets, static_cast<Wide*>(args.outputs[1]));
    });
  });
}

constexpr KernelChoice kChoices[] = {
    {"gemm", only_f32_and_bf16, make_tiles},
    {"reference", always, make_reference},
};

}  // namespace

std::span<const KernelChoice> grouped_linear_dw_kernels() { return kChoices; }

}  // namespace lamina::cpu
