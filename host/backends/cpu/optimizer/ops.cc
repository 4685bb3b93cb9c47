// The kernels of adamw, adamw_rows, sum_of_squares and first_non_finite.
#include <algorithm>
#include <cmath>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/optimizer/optimizer.h"
#include "backends/cpu/threads/threads.h"
#include "runtime/kernel.h"

namespace lamina::cpu {
namespace {

// The attributes of a node, and its number of elements.
struct AdamWSettings {
  double beta1, beta2, eps, weight_decay;
  std::int64_t count;

  explicit AdamWSettings(const NodeView& n)
      : beta1(n.f("beta1")),
        beta2(n.f("beta2")),
        eps(n.f("eps")),
        weight_decay(n.f("weight_decay")),
        count(n.type(0).num_elements()) {}

  // Returns the arguments of a step. scalars: learning rate, gradient scale, 1 - beta1^t, 1 -
  // beta2^t, and may_change().
  AdamW step(float* p, const float* g, float* m, float* v, bfloat16* copy,
             const float* scalars) const {
    return {.p = p,
            .g = g,
            .m = m,
            .v = v,
            .p_bf16 = copy,
            .n = count,
            .lr = scalars[0],
            .beta1 = beta1,
            .beta2 = beta2,
            .eps = eps,
            .weight_decay = weight_decay,
            .grad_scale = scalars[1],
            .correction1 = scalars[2],
            .correction2 = scalars[3]};
  }
};

bool may_change(const void* scalars) { return static_cast<const float*>(scalars)[4] != 0; }

// The step of one element, in plain C++.
class AdamWElement {
 public:
  struct State {
    float p, m, v;
  };

  AdamWElement(const AdamWSettings& s, const float* scalars)
      : grad_scale_(scalars[1]),
        decay_(static_cast<float>(1 - scalars[0] * s.weight_decay)),
        step_size_(scalars[0] / scalars[2]),
        root_(std::sqrt(scalars[3])),
        beta1_(static_cast<float>(s.beta1)),
        beta2_(static_cast<float>(s.beta2)),
        rest1_(static_cast<float>(1 - s.beta1)),
        rest2_(static_cast<float>(1 - s.beta2)),
        eps_(static_cast<float>(s.eps)) {}

  State operator()(State s, float gradient) const {
    const float g = gradient * grad_scale_;
    const float m = beta1_ * s.m + rest1_ * g;
    const float v = beta2_ * s.v + rest2_ * g * g;
    return {s.p * decay_ - step_size_ * (m / (std::sqrt(v) / root_ + eps_)), m, v};
  }

 private:
  float grad_scale_, decay_, step_size_, root_, beta1_, beta2_, rest1_, rest2_, eps_;
};

template <typename Settings, void (*run)(const Settings&, const KernelArgs&)>
std::unique_ptr<Kernel> make_adamw(const NodeView& n, Context&) {
  return make_kernel([s = Settings(n)](const KernelArgs& args) { run(s, args); });
}

// One pass over parameters and moments, in place if the planner chose so.
namespace adamw_op {

struct Settings {
  AdamWSettings adamw;
  bool copy;

  explicit Settings(const NodeView& n) : adamw(n), copy(n.i("copy") != 0) {}
};

const float* in(const KernelArgs& args, std::size_t i) {
  return static_cast<const float*>(args.inputs[i]);
}
float* out(const KernelArgs& args, std::size_t i) { return static_cast<float*>(args.outputs[i]); }
bfloat16* copy_of(const Settings& s, const KernelArgs& args) {
  return s.copy ? static_cast<bfloat16*>(args.outputs[3]) : nullptr;
}

// Computes element by element, so that any result may overwrite any operand.
void run_loop(const Settings& s, const KernelArgs& args) {
  const AdamWElement step(s.adamw, in(args, 4));
  const bool changes = may_change(args.inputs[4]);
  bfloat16* copy = copy_of(s, args);
  parallel_ranges(s.adamw.count, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      AdamWElement::State now{in(args, 0)[i], in(args, 2)[i], in(args, 3)[i]};
      if (changes) now = step(now, in(args, 1)[i]);
      out(args, 0)[i] = now.p;
      out(args, 1)[i] = now.m;
      out(args, 2)[i] = now.v;
      if (copy) copy[i] = to_bfloat16(now.p);
    }
  });
}

void run_vector(const Settings& s, const KernelArgs& args) {
  const bool in_place = args.outputs[0] == args.inputs[0] && args.outputs[1] == args.inputs[2] &&
                        args.outputs[2] == args.inputs[3];
  if (!in_place || !may_change(args.inputs[4])) return run_loop(s, args);
  adamw_step(s.adamw.step(out(args, 0), in(args, 1), out(args, 1), out(args, 2), copy_of(s, args),
                          in(args, 4)));
}

constexpr std::uint32_t kOverState = in_place_of(0) | in_place_of(2) | in_place_of(3);

constexpr KernelChoice kChoices[] = {
    {"vector", always, make_adamw<Settings, run_vector>, kOverState, true},
    {"reference", always, make_adamw<Settings, run_loop>, kOverState, true},
};

}  // namespace adamw_op

// One pass over the table, or, if lazy, only over the rows of the list.
namespace adamw_rows_op {

struct Settings {
  AdamWSettings adamw;
  std::int64_t slots, width;
  bool lazy, copy;

  explicit Settings(const NodeView& n)
      : adamw(n),
        slots(n.type(1).dim(0)),
        width(n.type(0).dim(1)),
        lazy(n.i("lazy") != 0),
        copy(n.has(6)) {}
};

constexpr std::size_t kStateInputs[] = {0, 3, 4, 6};  // p, m, v, copy: inputs that become results

// Computes element by element, so that any result may overwrite any operand.
void run_loop(const Settings& s, const KernelArgs& args) {
  const AdamWElement step(s.adamw, static_cast<const float*>(args.inputs[5]));
  const bool changes = may_change(args.inputs[5]);
  const auto* ids = static_cast<const std::int32_t*>(args.inputs[1]);
  auto in = [&](std::size_t i) { return static_cast<const float*>(args.inputs[i]); };
  auto out = [&](std::size_t i) { return static_cast<float*>(args.outputs[i]); };
  const auto* copy = s.copy ? static_cast<const bfloat16*>(args.inputs[6]) : nullptr;
  auto* copy_out = s.copy ? static_cast<bfloat16*>(args.outputs[3]) : nullptr;
  const std::int64_t rows = s.width > 0 ? s.adamw.count / s.width : 0;
  parallel_ranges(rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int32_t* id = std::lower_bound(ids, ids + s.slots, row);
      const bool listed = id < ids + s.slots && *id == row;
      for (std::int64_t c = 0; c < s.width; ++c) {
        const std::int64_t i = row * s.width + c;
        AdamWElement::State now{in(0)[i], in(3)[i], in(4)[i]};
        bfloat16 rounded = copy ? copy[i] : bfloat16{};
        if (changes && (listed || !s.lazy)) {
          now = step(now, listed ? in(2)[(id - ids) * s.width + c] : 0.0f);
          rounded = to_bfloat16(now.p);
        }
        out(0)[i] = now.p;
        out(1)[i] = now.m;
        out(2)[i] = now.v;
        if (copy_out) copy_out[i] = rounded;
      }
    }
  });
}

void run_vector(const Settings& s, const KernelArgs& args) {
  if (!may_change(args.inputs[5])) return run_loop(s, args);
  for (std::size_t i = 0; i < args.outputs.size(); ++i)
    if (args.outputs[i] != args.inputs[kStateInputs[i]]) return run_loop(s, args);
  adamw_rows_step({.table = s.adamw.step(static_cast<float*>(args.outputs[0]),
                                         static_cast<const float*>(args.inputs[2]),
                                         static_cast<float*>(args.outputs[1]),
                                         static_cast<float*>(args.outputs[2]),
                                         s.copy ? static_cast<bfloat16*>(args.outputs[3]) : nullptr,
                                         static_cast<const float*>(args.inputs[5])),
                   .ids = static_cast<const std::int32_t*>(args.inputs[1]),
                   .slots = s.slots,
                   .width = s.width,
                   .lazy = s.lazy});
}

constexpr std::uint32_t kOverState =
    in_place_of(0) | in_place_of(3) | in_place_of(4) | in_place_of(6);

constexpr KernelChoice kChoices[] = {
    {"vector", always, make_adamw<Settings, run_vector>, kOverState, true},
    {"reference", always, make_adamw<Settings, run_loop>, kOverState, true},
};

}  // namespace adamw_rows_op

// F64 sums of fixed blocks.
namespace sum_of_squares_op {

Verdict supports(const NodeView& n) {
  if (n.type(0).dtype != DType::f32) return Verdict::no("takes f32, got " + to_string(n.type(0)));
  return Verdict::yes();
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return make_kernel([count = n.type(0).num_elements()](const KernelArgs& args) {
    *static_cast<double*>(args.outputs[0]) =
        sum_of_squares(static_cast<const float*>(args.inputs[0]), count);
  });
}

constexpr KernelChoice kChoices[] = {{"blocks", supports, make}};

}  // namespace sum_of_squares_op

// Reads x only if it has such an element.
namespace first_non_finite_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return make_kernel([count = n.type(0).num_elements()](const KernelArgs& args) {
    auto* y = static_cast<double*>(args.outputs[0]);
    y[0] = -1;
    y[1] = 0;
    if (std::isfinite(*static_cast<const double*>(args.inputs[1]))) return;
    const auto* x = static_cast<const float*>(args.inputs[0]);
    const float* bad = std::find_if_not(x, x + count, [](float v) { return std::isfinite(v); });
    if (bad == x + count) return;
    y[0] = static_cast<double>(bad - x);
    y[1] = *bad;
  });
}

constexpr KernelChoice kChoices[] = {{"scan", always, make}};

}  // namespace first_non_finite_op

constexpr OpKernels kOps[] = {
    {"adamw", adamw_op::kChoices},
    {"adamw_rows", adamw_rows_op::kChoices},
    {"sum_of_squares", sum_of_squares_op::kChoices},
    {"first_non_finite", first_non_finite_op::kChoices},
};

}  // namespace

KernelTable optimizer_kernels() { return kOps; }

}  // namespace lamina::cpu
