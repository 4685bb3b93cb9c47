// adamw: one pass over parameters and moments, in place when the planner put the results there.
#include "backends/cpu/device/threads.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/optimizer/adamw_settings.h"

namespace lamina::cpu {
namespace {

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

// Element by element, so that any result may lie over any operand.
void run_loop(const Settings& s, const KernelArgs& args) {
  const AdamWElement step(s.adamw, in(args, 4));
  bfloat16* copy = copy_of(s, args);
  parallel_ranges(s.adamw.count, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const AdamWElement::State now =
          step({in(args, 0)[i], in(args, 2)[i], in(args, 3)[i]}, in(args, 1)[i]);
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
  if (!in_place) return run_loop(s, args);
  adamw_step(s.adamw.step(out(args, 0), in(args, 1), out(args, 1), out(args, 2), copy_of(s, args),
                          in(args, 4)));
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
