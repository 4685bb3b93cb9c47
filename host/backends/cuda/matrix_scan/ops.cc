// matrix_scan, matrix_scan_grad and matrix_scan_step.
#include <array>

#include "backends/cuda/kernel_support.h"
#include "backends/cuda/matrix_scan/params.h"
#include "backends/cuda/matrix_scan/recurrence_launch.h"
#include "backends/cuda/typed.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

// The inputs that all three ops have, at the same places (host/ops/matrix_tokens.cc).
namespace in = operand::matrix_scan;
static_assert(in::kQ == 0);

MatrixScanParams scan_of(const NodeView& n) {
  const Type& v = n.type(in::kV);
  MatrixScanParams p{};
  Recurrence& r = p.tokens;
  r.batch = v.dim(0), r.tokens = v.dim(1), r.heads = v.dim(2);
  r.key_width = n.type(in::kQ).dim(3), r.value_width = v.dim(3);
  r.rank_one = n.has(in::kA) ? RankOne::any : RankOne::none;
  r.decay_first = n.i("decay_first") != 0, r.read_before = n.i("read_before") != 0;
  r.v = typed(v.dtype);
  const auto keys = [&](int i) {
    return n.has(i) ? MatrixKeyNumbers{typed(n.type(i).dtype), n.type(i).dim(2)}
                    : MatrixKeyNumbers{};
  };
  p.q = keys(in::kQ), p.k = keys(in::kK), p.a = keys(in::kA), p.b = keys(in::kB);
  p.g = typed(n.type(in::kG).dtype);
  p.per_channel = n.type(in::kG).ndim() == 4;
  p.scale = static_cast<float>(n.f("scale"));
  divide_into_blocks(r);
  return p;
}

void set_inputs(MatrixScanParams& p, const KernelArgs& args) {
  p.q.x.at = address(args.inputs[in::kQ]);
  p.k.x.at = address(args.inputs[in::kK]);
  p.tokens.v.at = address(args.inputs[in::kV]);
  p.g.at = address(args.inputs[in::kG]);
  p.a.x.at = address(args.inputs[in::kA]);
  p.b.x.at = address(args.inputs[in::kB]);
}

namespace matrix_scan_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Function tokens = function(context, "matrix_scan_tokens");
  const DType dtype = n.out_type().dtype;
  return make_kernel([p = scan_of(n), tokens, dtype](const KernelArgs& args) mutable {
    set_inputs(p, args);
    p.tokens.segments = address(args.inputs[in::kSegments]);
    p.tokens.y = typed(dtype, args.outputs[0]);
    launch(args, tokens, all_heads(p.tokens), p);
  });
}

constexpr KernelChoice kChoices[] = {{"tokens", recurrence_supports, make}};

}  // namespace matrix_scan_op

// In chunks, with the states at their edges.
namespace matrix_scan_grad_op {

namespace grad = operand::matrix_scan_grad;

std::int64_t gradient_shared_bytes(const NodeView& n) {
  const auto row = [](std::int64_t columns) { return columns | 1; };
  const std::int64_t keys = n.type(in::kQ).dim(3), chunk = kMatrixChunk, columns = kMatrixColumns;
  const std::int64_t rows = n.has(in::kA) ? 2 * chunk : chunk;
  return 4 * ((6 * rows + chunk) * row(keys) + 2 * rows * row(rows) + 3 * rows * row(columns) +
              2 * keys * row(columns) + keys);
}

Verdict supports_gradient(const NodeView& n) { return chunks_support(n, gradient_shared_bytes(n)); }

class GradKernel final : public Kernel {
 public:
  GradKernel(const NodeView& n, Context& context)
      : edges_(function(context, "matrix_scan_edges")),
        gradient_(function(context, "matrix_scan_gradient")),
        shared_bytes_(static_cast<std::size_t>(gradient_shared_bytes(n))) {
    p_.scan = scan_of(n);
    Recurrence& r = p_.scan.tokens;
    r.chunk = kMatrixChunk;
    r.num_chunks = divide_up(r.tokens, r.chunk);
    r.dy = typed(n.type(grad::kDy).dtype);
    for (int i = 0; gpu::TypedAddress * to : results()) *to = typed(n.out_type(i++).dtype);
    const std::int64_t heads = r.batch * r.heads, most = kMostSavedBytes / 2;
    const std::int64_t bytes = std::max<std::int64_t>(saved_bytes_per_head(r), 1);
    heads_per_pass_ = std::clamp<std::int64_t>(most / bytes, 1, std::max<std::int64_t>(heads, 1));
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(2 * heads_per_pass_ * saved_bytes_per_head(p_.scan.tokens));
  }

  void run(const KernelArgs& args) override {
    set_inputs(p_.scan, args);
    Recurrence& r = p_.scan.tokens;
    r.segments = address(args.inputs[grad::kSegments]);
    r.dy.at = address(args.inputs[grad::kDy]);
    r.states = address(args.workspace);
    r.flows = address(args.workspace + heads_per_pass_ * saved_bytes_per_head(r));
    for (std::size_t i = 0; gpu::TypedAddress * to : results()) to->at = address(args.outputs[i++]);
    const std::int64_t heads = r.tokens == 0 ? 0 : r.batch * r.heads;
    for (r.first_head = 0; r.first_head < heads; r.first_head += heads_per_pass_) {
      const std::int64_t now = std::min(heads_per_pass_, heads - r.first_head);
      launch(args, edges_, recurrence_shape(r, now, 2), p_.scan);
      launch(args, gradient_,
             {.blocks = now * r.num_chunks, .threads = 256, .shared_bytes = shared_bytes_}, p_);
    }
  }

 private:
  std::array<gpu::TypedAddress*, 6> results() {
    return {&p_.dq, &p_.dk, &p_.dv, &p_.dg, &p_.da, &p_.db};
  }

  MatrixScanGradParams p_{};
  const Function edges_, gradient_;
  const std::size_t shared_bytes_;
  std::int64_t heads_per_pass_ = 1;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  return std::make_unique<GradKernel>(n, context);
}

constexpr KernelChoice kChoices[] = {
    {.name = "chunks", .supports = supports_gradient, .make = make, .writes_all = true}};

}  // namespace matrix_scan_grad_op

namespace matrix_scan_step_op {

namespace step = operand::matrix_scan_step;

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Function tokens = function(context, "matrix_scan_tokens");
  const DType dtype = n.out_type().dtype;
  return make_kernel([p = scan_of(n), tokens, dtype](const KernelArgs& args) mutable {
    set_inputs(p, args);
    set_step(p.tokens, args, {step::kStart, step::kCount, step::kState}, dtype);
    launch(args, tokens, all_heads(p.tokens), p);
  });
}

constexpr KernelChoice kChoices[] = {{.name = "tokens",
                                      .supports = recurrence_supports,
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

}  // namespace lamina::cuda
