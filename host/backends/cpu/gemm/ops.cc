// The kernels of linear, linear_group and matmul.
#include <algorithm>
#include <memory>
#include <vector>

#include "backends/cpu/gemm/gemv.h"
#include "backends/cpu/gemm/products.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/stored/integer_gemm.h"
#include "backends/cpu/threads/threads.h"
#include "ops/group_members.h"

namespace lamina::cpu {
namespace {

// One product: streams the weights for few rows, uses tiles for many. Other dtypes are lowered.
namespace linear_op {

namespace in = operand::linear;

const Type* bias_of(const NodeView& n) { return n.has(in::kBias) ? &n.type(in::kBias) : nullptr; }

Verdict supports(const NodeView& n) {
  return gemm_takes(n.type(0).dtype, n.type(0).dtype, bias_of(n));
}

class LinearKernel final : public Kernel {
 public:
  explicit LinearKernel(const NodeView& n)
      : gemm_(make_checked_gemm(linear_spec(n.type(0), n.type(1), bias_of(n)))) {}

  std::size_t workspace_bytes() const override { return gemm_->workspace_bytes(); }
  std::string detail() const override { return std::string(gemm_->kernel()); }
  void run(const KernelArgs& args) override {
    gemm_->run(args.inputs[in::kX], args.inputs[in::kW], args.inputs[in::kBias], args.outputs[0],
               args.workspace);
  }

 private:
  std::unique_ptr<Gemm> gemm_;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<LinearKernel>(n);
}

constexpr KernelChoice kChoices[] = {{"gemm", supports, make}};

}  // namespace linear_op

// For few rows streams all weights in one parallel region. For many rows, matrices in blocks of
// integers share the quantised rows; others are separate products.
namespace linear_group_op {

using ops::bias_type, ops::group_members, ops::GroupMember;

Verdict supports_gemm(const NodeView& n) {
  for (const GroupMember& m : group_members(n))
    if (Verdict v = gemm_takes(n.type(0).dtype, n.type(0).dtype, bias_type(n, m)); !v) return v;
  return Verdict::yes();
}

Verdict supports_stream(const NodeView& n) {
  std::int64_t max_rows = kMaxGemvRows;
  for (const GroupMember& m : group_members(n))
    max_rows = std::min(max_rows, max_rows_to_stream(n.type(0).dtype, n.type(m.weight).storage));
  if (num_rows(n.type(0)) > max_rows)
    return Verdict::no(
        fmt::format("streams weights for at most {} rows, got {}", max_rows, num_rows(n.type(0))));
  return supports_gemm(n);
}

// All matrices at once.
class GroupKernel final : public Kernel {
 public:
  GroupKernel(const NodeView& n, std::unique_ptr<GemvGroup> group)
      : members_(group_members(n)), operands_(members_.size()), group_(std::move(group)) {}

  std::size_t workspace_bytes() const override { return group_->workspace_bytes(); }
  std::string detail() const override { return std::string(group_->kernel()); }

  void run(const KernelArgs& args) override {
    for (std::size_t i = 0; i < members_.size(); ++i)
      operands_[i] = {.w = input_of(args, members_[i].weight),
                      .out = args.outputs[i],
                      .bias = input_of(args, members_[i].bias)};
    group_->run(args.inputs[0], operands_, args.workspace);
  }

 private:
  std::vector<GroupMember> members_;
  std::vector<GemvOperands> operands_;
  std::unique_ptr<GemvGroup> group_;
};

// One matrix after the other.
class GemmsKernel final : public Kernel {
 public:
  explicit GemmsKernel(const NodeView& n) : members_(group_members(n)) {
    for (const GroupMember& m : members_)
      gemms_.push_back(
          make_checked_gemm(linear_spec(n.type(0), n.type(m.weight), bias_type(n, m))));
  }

  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& gemm : gemms_) bytes = std::max(bytes, gemm->workspace_bytes());
    return bytes;
  }
  std::string detail() const override {
    return gemms_.empty() ? "" : std::string(gemms_.front()->kernel());
  }
  void run(const KernelArgs& args) override {
    for (std::size_t i = 0; i < members_.size(); ++i)
      gemms_[i]->run(args.inputs[0], input_of(args, members_[i].weight),
                     input_of(args, members_[i].bias), args.outputs[i], args.workspace);
  }

 private:
  std::vector<GroupMember> members_;
  std::vector<std::unique_ptr<Gemm>> gemms_;
};

std::unique_ptr<Kernel> make_stream(const NodeView& n, Context&) {
  GemvGroupSpec spec{.m = num_rows(n.type(0)),
                     .k = n.type(0).dim(-1),
                     .in = n.type(0).dtype,
                     .out = n.type(0).dtype};
  for (const GroupMember& m : group_members(n)) {
    GemvMatrix matrix{.n = n.type(m.weight).dim(0), .stored = n.type(m.weight).storage};
    if (const Type* bias = bias_type(n, m)) matrix.bias = bias->dtype;
    spec.matrices.push_back(matrix);
  }
  std::string why;
  auto group = make_gemv_group(spec, &why);
  if (!group) throw InternalError({"linear_group", "gemv refuses: " + why, {}});
  return std::make_unique<GroupKernel>(n, std::move(group));
}
std::unique_ptr<Kernel> make_gemms(const NodeView& n, Context&) {
  if (!supports_stream(n)) {
    std::vector<GemmSpec> specs;
    for (const GroupMember& m : group_members(n))
      specs.push_back(with_defaults(linear_spec(n.type(0), n.type(m.weight), bias_type(n, m))));
    if (auto group = make_integer_gemm_group(specs))
      return std::make_unique<GroupKernel>(n, std::move(group));
  }
  return std::make_unique<GemmsKernel>(n);
}

constexpr KernelChoice kChoices[] = {
    {.name = "stream", .supports = supports_stream, .make = make_stream, .writes_all = true},
    {.name = "gemm", .supports = supports_gemm, .make = make_gemms, .writes_all = true},
};

}  // namespace linear_group_op

// Batches of products; plain loops for f64 and f16.
namespace matmul_op {

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

// In bf16 only gradients of weights are wider than their operands, and only the end of the step
// reads them. In f32 they look like other products.
bool is_weight_gradient(const NodeView& n) {
  return size_bytes(n.out_type().dtype) > size_bytes(n.type(0).dtype);
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
                                 .accumulate = has_acc_,
                                 .is_read_late = is_weight_gradient(n),
                                 .bias = {},
                                 .b_stored = n.type(1).storage})) {}

  std::size_t workspace_bytes() const override { return gemm_->workspace_bytes(); }
  std::string detail() const override { return std::string(gemm_->kernel()); }

  void run(const KernelArgs& args) override {
    const Sizes& s = sizes_;
    if (has_acc_)  // no copy when in place
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

std::unique_ptr<Kernel> make_gemm_kernel(const NodeView& n, Context&) {
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

std::unique_ptr<Kernel> make_reference(const NodeView& n, Context&) {
  return make_kernel([s = Sizes(n), in = n.type(0).dtype,
                      out = n.out_type().dtype](const KernelArgs& args) {
    with_floating(in, [&](auto x) {
      with_floating(out, [&](auto y) {
        using In = decltype(x);
        using Out = decltype(y);
        multiply(s, static_cast<const In*>(args.inputs[0]), static_cast<const In*>(args.inputs[1]),
                 static_cast<const Out*>(args.inputs[operand::matmul::kAcc]),
                 static_cast<Out*>(args.outputs[0]));
      });
    });
  });
}

constexpr KernelChoice kChoices[] = {
    {"gemm", supports_gemm, make_gemm_kernel, in_place_of(2)},
    {"reference", reads_plain, make_reference, in_place_of(2)},
};

}  // namespace matmul_op

constexpr OpKernels kOps[] = {
    {"linear", linear_op::kChoices},
    {"linear_group", linear_group_op::kChoices},
    {"matmul", matmul_op::kChoices},
};

}  // namespace

KernelTable gemm_kernels() { return kOps; }

}  // namespace lamina::cpu
