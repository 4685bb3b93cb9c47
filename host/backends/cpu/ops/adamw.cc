// adamw: one pass over parameters and moments, in place when the planner put the results there.
#include <cmath>

#include "backends/cpu/ops/kernel_support.h"
#include "backends/cpu/ops/kernels.h"
#include "backends/cpu/optimizer.h"
#include "backends/cpu/threads.h"

namespace lamina::cpu {
namespace {

// The op's attributes, and the scalars of one run.
struct Settings {
  double beta1, beta2, eps, weight_decay;
  std::int64_t count;
  bool copy;

  explicit Settings(const NodeView& n)
      : beta1(n.f("beta1")),
        beta2(n.f("beta2")),
        eps(n.f("eps")),
        weight_decay(n.f("weight_decay")),
        count(n.type(0).num_elements()),
        copy(n.i("copy") != 0) {}
};

struct Scalars {
  float lr, grad_scale, correction1, correction2;
};

Scalars scalars_of(const KernelArgs& args) {
  const auto* s = static_cast<const float*>(args.inputs[4]);
  return {s[0], s[1], s[2], s[3]};
}

const float* in(const KernelArgs& args, std::size_t i) {
  return static_cast<const float*>(args.inputs[i]);
}
float* out(const KernelArgs& args, std::size_t i) { return static_cast<float*>(args.outputs[i]); }

// Element by element, so that any result may lie over any operand.
void run_loop(const Settings& s, const KernelArgs& args) {
  const Scalars now = scalars_of(args);
  auto* copy = s.copy ? static_cast<bfloat16*>(args.outputs[3]) : nullptr;
  const float decay = static_cast<float>(1 - now.lr * s.weight_decay);
  const float step_size = now.lr / now.correction1, root = std::sqrt(now.correction2);
  const auto beta1 = static_cast<float>(s.beta1), beta2 = static_cast<float>(s.beta2);
  const auto rest1 = static_cast<float>(1 - s.beta1), rest2 = static_cast<float>(1 - s.beta2);
  const auto eps = static_cast<float>(s.eps);
  parallel_ranges(s.count, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float g = in(args, 1)[i] * now.grad_scale;
      const float m = beta1 * in(args, 2)[i] + rest1 * g;
      const float v = beta2 * in(args, 3)[i] + rest2 * g * g;
      const float p = in(args, 0)[i] * decay - step_size * (m / (std::sqrt(v) / root + eps));
      out(args, 0)[i] = p;
      out(args, 1)[i] = m;
      out(args, 2)[i] = v;
      if (copy) copy[i] = to_bfloat16(p);
    }
  });
}

void run_vector(const Settings& s, const KernelArgs& args) {
  const bool in_place = args.outputs[0] == args.inputs[0] && args.outputs[1] == args.inputs[2] &&
                        args.outputs[2] == args.inputs[3];
  if (!in_place) return run_loop(s, args);
  const Scalars now = scalars_of(args);
  adamw_step({.p = out(args, 0),
              .g = in(args, 1),
              .m = out(args, 1),
              .v = out(args, 2),
              .p_bf16 = s.copy ? static_cast<bfloat16*>(args.outputs[3]) : nullptr,
              .n = s.count,
              .lr = now.lr,
              .beta1 = s.beta1,
              .beta2 = s.beta2,
              .eps = s.eps,
              .weight_decay = s.weight_decay,
              .step = 0,
              .grad_scale = now.grad_scale,
              .correction1 = now.correction1,
              .correction2 = now.correction2});
}

constexpr std::uint32_t kOverState = in_place_of(0) | in_place_of(2) | in_place_of(3);

template <void (*run)(const Settings&, const KernelArgs&)>
std::unique_ptr<Kernel> make(const NodeView& n) {
  return make_kernel([s = Settings(n)](const KernelArgs& args) { run(s, args); });
}

constexpr KernelChoice kChoices[] = {
    {"vector", always, make<run_vector>, kOverState, true},
    {"reference", always, make<run_loop>, kOverState, true},
};

}  // namespace

std::span<const KernelChoice> adamw_kernels() { return kChoices; }

}  // namespace lamina::cpu
