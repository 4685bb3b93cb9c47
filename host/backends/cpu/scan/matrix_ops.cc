// The kernels of matrix_scan, matrix_scan_grad and matrix_scan_step. A task is a head of a row.
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/scan/matrix_scan.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"
#include "core/round_up.h"

namespace lamina::cpu {
namespace {

const MatrixScanFunctions& functions() { return isa_table<MatrixScanFunctions>(); }

// Scratch memory of one thread, in floats: whole cache lines.
std::int64_t lines(std::int64_t floats) { return round_up(floats, 16); }
std::size_t for_all_threads(std::int64_t floats) {
  return static_cast<std::size_t>(lines(floats) * num_threads()) * sizeof(float);
}

void check(const MatrixScan& p) {
  for (const KeyNumbers& x : {p.q, p.k, p.a, p.b})
    LAMINA_ASSERT(x.heads > 0 && p.heads % x.heads == 0);
  for (DType dtype : {p.q.dtype, p.k.dtype, p.v.dtype, p.g.dtype})
    LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
}

template <typename Params>
void for_heads(const Params& p, std::int64_t floats,
               void (*run)(const Params&, std::int64_t, std::int64_t, float*)) {
  const std::int64_t scratch = lines(floats);
  parallel_tasks(p.batch * p.heads, [&](std::int64_t task, int thread) {
    run(p, task / p.heads, task % p.heads, p.workspace + thread * scratch);
  });
}

}  // namespace

// A chunk of at most 4 tokens would spend most of its time on setting up products.
bool matrix_scan_is_recurrent(std::int64_t tokens) { return tokens <= 4; }

std::size_t matrix_scan_forward_workspace_bytes(const MatrixScan& p, bool with_state) {
  const MatrixScanSizes sizes(p);
  return for_all_threads(with_state && matrix_scan_is_recurrent(p.tokens) ? sizes.recurrent()
                                                                          : sizes.forward());
}
std::size_t matrix_scan_backward_workspace_bytes(const MatrixScan& p) {
  return for_all_threads(MatrixScanSizes(p).backward());
}

void matrix_scan_forward(const MatrixScanForward& p) {
  check(p);
  LAMINA_ASSERT((p.state == nullptr) == (p.start == nullptr || p.count == nullptr));
  const MatrixScanSizes sizes(p);
  if (p.state != nullptr && matrix_scan_is_recurrent(p.tokens))
    for_heads(p, sizes.recurrent(), functions().recurrent);
  else
    for_heads(p, sizes.forward(), functions().forward);
}

void matrix_scan_backward(const MatrixScanBackward& p) {
  check(p);
  for_heads(p, MatrixScanSizes(p).backward(), functions().backward);
}

namespace {

// The inputs that all three ops have, at the same places (host/ops/matrix_tokens.cc).
namespace in = operand::matrix_scan;

MatrixScan matrix_scan_of(const NodeView& n) {
  const Type& v = n.type(in::kV);
  const auto typed = [&](int i) { return ConstNumbers{nullptr, n.type(i).dtype}; };
  const auto keys = [&](int i) {
    return n.has(i) ? KeyNumbers{typed(i), n.type(i).dim(2)} : KeyNumbers{};
  };
  return {.batch = v.dim(0),
          .tokens = v.dim(1),
          .heads = v.dim(2),
          .key_width = n.type(in::kQ).dim(3),
          .value_width = v.dim(3),
          .scale = static_cast<float>(n.f("scale")),
          .decay_first = n.i("decay_first") != 0,
          .read_before = n.i("read_before") != 0,
          .per_channel = n.type(in::kG).ndim() == 4,
          .q = keys(in::kQ),
          .k = keys(in::kK),
          .a = keys(in::kA),
          .b = keys(in::kB),
          .v = typed(in::kV),
          .g = typed(in::kG),
          .rank_one = n.has(in::kA)};
}

void set_inputs(MatrixScan& p, const KernelArgs& args) {
  p.q.data = args.inputs[in::kQ];
  p.k.data = args.inputs[in::kK];
  p.v.data = args.inputs[in::kV];
  p.g.data = args.inputs[in::kG];
  p.a.data = args.inputs[in::kA];
  p.b.data = args.inputs[in::kB];
}

const std::int32_t* numbers(const KernelArgs& args, std::size_t input) {
  return static_cast<const std::int32_t*>(args.inputs[input]);
}

// Computes chunks of 16 tokens.
namespace matrix_scan_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  MatrixScanForward p;
  static_cast<MatrixScan&>(p) = matrix_scan_of(n);
  p.y.dtype = n.out_type().dtype;
  return make_kernel(
      [p](const KernelArgs& args) mutable {
        set_inputs(p, args);
        p.segments = numbers(args, in::kSegments);
        p.y.data = args.outputs[0];
        p.workspace = reinterpret_cast<float*>(args.workspace);
        matrix_scan_forward(p);
      },
      matrix_scan_forward_workspace_bytes(p, false));
}

constexpr KernelChoice kChoices[] = {{"chunks", only_f32_and_bf16, make}};

}  // namespace matrix_scan_op

// Recomputes the states before all chunks.
namespace matrix_scan_grad_op {

namespace grad = operand::matrix_scan_grad;

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  MatrixScanBackward p;
  static_cast<MatrixScan&>(p) = matrix_scan_of(n);
  p.dy.dtype = n.type(grad::kDy).dtype;
  const auto results = [](MatrixScanBackward& to) {
    return std::array{&to.dq, &to.dk, &to.dv, &to.dg, &to.da, &to.db};
  };
  for (int i = 0; Numbers * to : results(p)) to->dtype = n.out_type(i++).dtype;
  return make_kernel(
      [p, results](const KernelArgs& args) mutable {
        set_inputs(p, args);
        p.segments = numbers(args, grad::kSegments);
        p.dy.data = args.inputs[grad::kDy];
        for (std::size_t i = 0; Numbers * to : results(p)) to->data = args.outputs[i++];
        p.workspace = reinterpret_cast<float*>(args.workspace);
        matrix_scan_backward(p);
      },
      matrix_scan_backward_workspace_bytes(p));
}

constexpr KernelChoice kChoices[] = {
    {.name = "chunks", .supports = only_f32_and_bf16, .make = make, .writes_all = true}};

}  // namespace matrix_scan_grad_op

// Computes few tokens one by one with the state in place, many in chunks.
namespace matrix_scan_step_op {

namespace step = operand::matrix_scan_step;

class StepKernel final : public Kernel {
 public:
  explicit StepKernel(const NodeView& n) : state_bytes_(n.type(step::kState).bytes()) {
    static_cast<MatrixScan&>(p_) = matrix_scan_of(n);
    p_.y.dtype = n.out_type().dtype;
    workspace_bytes_ = matrix_scan_forward_workspace_bytes(p_, true);
  }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::string detail() const override {
    return matrix_scan_is_recurrent(p_.tokens) ? "token by token" : "in chunks";
  }
  void run(const KernelArgs& args) override {
    parallel_copy(args.outputs[1], args.inputs[step::kState], state_bytes_);  // nothing in place
    set_inputs(p_, args);
    p_.start = numbers(args, step::kStart);
    p_.count = numbers(args, step::kCount);
    p_.state = static_cast<float*>(args.outputs[1]);
    p_.y.data = args.outputs[0];
    p_.workspace = reinterpret_cast<float*>(args.workspace);
    matrix_scan_forward(p_);
  }

 private:
  MatrixScanForward p_;
  std::int64_t state_bytes_;
  std::size_t workspace_bytes_;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<StepKernel>(n);
}

constexpr KernelChoice kChoices[] = {{.name = "state",
                                      .supports = only_f32_and_bf16,
                                      .make = make,
                                      .in_place = in_place_of(step::kState),
                                      .writes_all = true}};

}  // namespace matrix_scan_step_op

constexpr OpKernels kOps[] = {
    {"matrix_scan", matrix_scan_op::kChoices},
    {"matrix_scan_grad", matrix_scan_grad_op::kChoices},
    {"matrix_scan_step", matrix_scan_step_op::kChoices},
};

}  // namespace

KernelTable matrix_scan_kernels() { return kOps; }

}  // namespace lamina::cpu
