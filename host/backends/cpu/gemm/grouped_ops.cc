// The kernels of grouped_linear, grouped_linear_dx and grouped_linear_dw.
#include <algorithm>
#include <cstdint>

#include "backends/cpu/gemm/grouped.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {
namespace {

// Returns the group of a row, or -1: offsets rise, group e has [offsets[e], offsets[e + 1]).
std::int64_t group_of(const std::int32_t* offsets, std::int64_t groups, std::int64_t row) {
  const std::int32_t* past = std::upper_bound(offsets, offsets + groups + 1, row);
  const std::int64_t group = past - offsets - 1;
  return group < groups ? group : -1;
}

// Streams the matrices of groups that have rows; in plain loops for f64 and f16.
namespace grouped_linear_op {

namespace in = operand::grouped_linear;

GroupedSpec spec_of(const NodeView& n) {
  const Type& w = n.type(1);
  GroupedSpec spec{.rows = n.type(0).dim(0),
                   .groups = w.dim(0),
                   .inputs = w.dim(2),
                   .outputs = w.dim(1),
                   .dtype = w.dtype};
  if (n.has(in::kBias)) spec.bias = n.type(in::kBias).dtype;
  spec.stored = w.storage;
  return spec;
}

class StreamKernel final : public Kernel {
 public:
  explicit StreamKernel(const NodeView& n) : product_(spec_of(n)) {}
  std::size_t workspace_bytes() const override { return product_.workspace_bytes(); }
  std::string detail() const override { return std::string(product_.kernel()); }
  void run(const KernelArgs& args) override {
    product_.run(args.inputs[0], args.inputs[1], static_cast<const std::int32_t*>(args.inputs[2]),
                 args.inputs[in::kBias], args.outputs[0], args.workspace);
  }

 private:
  GroupedLinear product_;
};

std::unique_ptr<Kernel> make_stream(const NodeView& n, Context&) {
  return std::make_unique<StreamKernel>(n);
}

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

std::unique_ptr<Kernel> make_reference(const NodeView& n, Context&) {
  return make_kernel([s = spec_of(n)](const KernelArgs& args) {
    with_floating(s.dtype, [&](auto x) {
      with_floating(s.bias.value_or(s.dtype), [&](auto b) {
        using T = decltype(x);
        using B = decltype(b);
        multiply(s, static_cast<const T*>(args.inputs[0]), static_cast<const T*>(args.inputs[1]),
                 static_cast<const std::int32_t*>(args.inputs[2]),
                 static_cast<const B*>(args.inputs[in::kBias]), static_cast<T*>(args.outputs[0]));
      });
    });
  });
}

constexpr KernelChoice kChoices[] = {
    {"stream", only_f32_and_bf16, make_stream},
    {"reference", reads_plain, make_reference},
};

}  // namespace grouped_linear_op

// One product per group that has rows; in plain loops for f64 and f16.
namespace grouped_linear_dx_op {

GroupedSpec spec_of(const NodeView& n) {
  const Type& w = n.type(1);
  return {.rows = n.type(0).dim(0),
          .groups = w.dim(0),
          .inputs = w.dim(2),
          .outputs = w.dim(1),
          .dtype = w.dtype,
          .bias = {},
          .stored = w.storage};
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

std::unique_ptr<Kernel> make_tiles(const NodeView& n, Context&) {
  return std::make_unique<TileKernel>(n);
}

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

std::unique_ptr<Kernel> make_reference(const NodeView& n, Context&) {
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
    {"reference", reads_plain, make_reference},
};

}  // namespace grouped_linear_dx_op

// One product over the rows of each group, and the column sums of dy; in plain loops for f64 and
// f16.
namespace grouped_linear_dw_op {

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

// Sets dbias[e] to the sum of the group's rows of dy, in order.
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

std::unique_ptr<Kernel> make_tiles(const NodeView& n, Context&) {
  return std::make_unique<TileKernel>(n);
}

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

std::unique_ptr<Kernel> make_reference(const NodeView& n, Context&) {
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

}  // namespace grouped_linear_dw_op

constexpr OpKernels kOps[] = {
    {"grouped_linear", grouped_linear_op::kChoices},
    {"grouped_linear_dx", grouped_linear_dx_op::kChoices},
    {"grouped_linear_dw", grouped_linear_dw_op::kChoices},
};

}  // namespace

KernelTable grouped_kernels() { return kOps; }

}  // namespace lamina::cpu
