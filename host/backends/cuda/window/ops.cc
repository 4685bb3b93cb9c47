// The kernels of extend_window, window_ends, window_pool and window_pool_grad.
#include <algorithm>

#include "backends/cuda/kernel_support.h"
#include "backends/cuda/units.h"
#include "backends/cuda/window/params.h"
#include "core/round_up.h"

namespace lamina::cuda {
namespace {

// Copies token rows; the window may be changed in place, so it comes last.
namespace extend_window_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& x = n.type(1);
  const std::int64_t row_bytes = product(x.shape, 2, x.ndim()) * size_bytes(x.dtype);
  const UnitKernels extend(context, "extend_window"), advance(context, "extend_window_advance");
  ExtendWindowParams p{};
  p.batch = x.dim(0);
  p.kept = n.type(0).dim(1);
  p.tokens = x.dim(1);
  return make_kernel([=](const KernelArgs& args) mutable {
    p.window = address(args.inputs[0]);
    p.x = address(args.inputs[1]);
    p.start = address(args.inputs[2]);
    p.count = address(args.inputs[3]);
    p.window_out = address(args.outputs[0]);
    p.extended = address(args.outputs[1]);
    const std::int64_t unit =
        UnitKernels::unit_of({row_bytes}, {p.window, p.x, p.window_out, p.extended});
    p.row_units = row_bytes / unit;
    const std::int64_t row = p.batch * p.row_units;
    if (args.outputs[1])
      launch(args, extend.of(unit), shape_for_units(row * (p.kept + p.tokens)), p);
    if (args.outputs[0] && p.kept > 0) launch(args, advance.of(unit), shape_for_units(row), p);
  });
}

constexpr KernelChoice kChoices[] = {{"copy", always, make}};

}  // namespace extend_window_op

// A block walks over the positions of a row.
namespace window_ends_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Function find = function(context, "window_ends");
  WindowEndsParams p{};
  p.tokens = n.type(0).dim(1);
  p.ratio = n.i("ratio");
  p.windows = divide_up(p.tokens, p.ratio);
  return make_kernel([=, batch = n.type(0).dim(0)](const KernelArgs& args) mutable {
    p.positions = address(args.inputs[0]);
    p.ends = address(args.outputs[0]);
    p.starts = address(args.outputs[1]);
    launch(args, find, {.blocks = batch, .threads = 256}, p);
  });
}

constexpr KernelChoice kChoices[] = {{"blocks", always, make}};

}  // namespace window_ends_op

BiasType bias_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return BiasType::f32;
    case DType::bf16:
      return BiasType::bf16;
    case DType::f16:
      return BiasType::f16;
    default:
      return BiasType::f64;
  }
}

WindowPoolParams pool_params(const NodeView& n) {
  WindowPoolParams p{};
  p.batch = n.type(0).dim(0);
  p.tokens = n.type(0).dim(1);
  p.channels = n.type(0).dim(2);
  p.windows = n.type(3).dim(1);
  p.overlap = n.i("overlap") != 0;
  p.width = p.overlap ? p.channels / 2 : p.channels;
  p.ratio = n.i("ratio");
  p.bias_type = bias_type(n.type(2).dtype);
  return p;
}

void set_inputs(WindowPoolParams& p, const KernelArgs& args) {
  p.values = address(args.inputs[0]);
  p.gates = address(args.inputs[1]);
  p.bias = address(args.inputs[2]);
  p.ends = address(args.inputs[3]);
  p.starts = address(args.inputs[4]);
}

// A thread pools a channel of a window, in f32 (f64 for f64).
namespace window_pool_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Function pool = function(context, "window_pool", n.type(0).dtype);
  return make_kernel([pool, p = pool_params(n)](const KernelArgs& args) mutable {
    set_inputs(p, args);
    p.y = address(args.outputs[0]);
    launch(args, pool, {.blocks = grid_for(p.batch * p.windows * p.width, 128), .threads = 128}, p);
  });
}

constexpr KernelChoice kChoices[] = {{"channels", always, make}};

}  // namespace window_pool_op

// Recomputes the sums of each window. Then a thread adds the gradients of a token's channel over
// the windows that contain it, and another kernel adds the bias's gradients over all windows.
namespace window_pool_grad_op {

constexpr std::int64_t kMostParts = 64;

class WindowPoolGradKernel final : public Kernel {
 public:
  WindowPoolGradKernel(const NodeView& n, Context& context)
      : rising_(function(context, "window_rising")),
        sums_(function(context, "window_pool_sums", n.type(0).dtype)),
        gradient_(function(context, "window_pool_grad", n.type(0).dtype)),
        bias_sums_(function(context, "window_bias_sums", n.type(0).dtype)),
        bias_total_(function(context, "window_bias_total", n.type(0).dtype)),
        wide_bytes_(static_cast<std::size_t>(size_bytes(sum_dtype(n.type(0).dtype)))) {
    p_.pool = pool_params(n);
    p_.dbias_is_f64 = n.out_type(2).dtype == DType::f64;
    const std::int64_t windows = p_.pool.batch * p_.pool.windows;
    p_.part = std::max<std::int64_t>(1, divide_up(windows, kMostParts));
    p_.num_parts = divide_up(windows, p_.part);
  }

  std::size_t workspace_bytes() const override {
    return 3 * pooled_bytes() + aligned(bias_elements() * wide_bytes_ * parts()) +
           aligned(static_cast<std::size_t>(p_.pool.batch) * 4);
  }

  void run(const KernelArgs& args) override {
    const WindowPoolGradParams p = params(args);
    const WindowPoolParams& pool = p.pool;
    const std::int64_t elements = pool.batch * pool.tokens * pool.channels;
    launch(args, rising_, {.blocks = pool.batch, .threads = 256}, p);
    launch(args, sums_,
           {.blocks = grid_for(pool.batch * pool.windows * pool.width, 128), .threads = 128}, p);
    if (args.outputs[0] || args.outputs[1])
      launch(args, gradient_, {.blocks = grid_for(elements, 128), .threads = 128}, p);
    if (!args.outputs[2]) return;
    const LaunchShape bias{.blocks = grid_for(static_cast<std::int64_t>(bias_elements()), 128),
                           .threads = 128};
    launch(args, bias_sums_,
           {.blocks = bias.blocks, .threads = bias.threads, .blocks_y = p.num_parts}, p);
    launch(args, bias_total_, bias, p);
  }

 private:
  std::size_t pooled_bytes() const {
    return aligned(static_cast<std::size_t>(p_.pool.batch * p_.pool.windows * p_.pool.width) *
                   wide_bytes_);
  }
  std::size_t bias_elements() const {
    return static_cast<std::size_t>(p_.pool.ratio * p_.pool.channels);
  }
  std::size_t parts() const { return static_cast<std::size_t>(p_.num_parts); }

  WindowPoolGradParams params(const KernelArgs& args) const {
    WindowPoolGradParams p = p_;
    set_inputs(p.pool, args);
    p.dy = address(args.inputs[5]);
    p.dvalues = address(args.outputs[0]);
    p.dgates = address(args.outputs[1]);
    p.dbias = address(args.outputs[2]);
    std::byte* part = args.workspace;
    p.top = address(part);
    p.scale = address(part += pooled_bytes());
    p.mean = address(part += pooled_bytes());
    p.partial_dbias = address(part += pooled_bytes());
    p.rising = address(part + aligned(bias_elements() * wide_bytes_ * parts()));
    return p;
  }

  Function rising_, sums_, gradient_, bias_sums_, bias_total_;
  std::size_t wide_bytes_;
  WindowPoolGradParams p_{};
};

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  return std::make_unique<WindowPoolGradKernel>(n, context);
}

constexpr KernelChoice kChoices[] = {{"windows", always, make}};

}  // namespace window_pool_grad_op

constexpr OpKernels kOps[] = {
    {"extend_window", extend_window_op::kChoices},
    {"window_ends", window_ends_op::kChoices},
    {"window_pool", window_pool_op::kChoices},
    {"window_pool_grad", window_pool_grad_op::kChoices},
};

}  // namespace

KernelTable window_kernels() { return kOps; }

}  // namespace lamina::cuda
