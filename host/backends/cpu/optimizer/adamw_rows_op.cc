// adamw_rows: one pass over the table, or over the rows of the list alone when lazy.
#include <algorithm>

#include "backends/cpu/device/threads.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/optimizer/adamw_settings.h"
#include "backends/cpu/optimizer/optimizer.h"

namespace lamina::cpu {
namespace {

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

constexpr std::size_t kStateInputs[] = {0, 3, 4, 6};  // p, m, v, copy: those of the results

// Element by element, so that any result may lie over any operand.
void run_loop(const Settings& s, const KernelArgs& args) {
  const AdamWElement step(s.adamw, static_cast<const float*>(args.inputs[5]));
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
        if (listed || !s.lazy) {
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

template <void (*run)(const Settings&, const KernelArgs&)>
std::unique_ptr<Kernel> make(const NodeView& n) {
  return make_kernel([s = Settings(n)](const KernelArgs& args) { run(s, args); });
}

constexpr KernelChoice kChoices[] = {
    {"vector", always, make<run_vector>, kOverState, true},
    {"reference", always, make<run_loop>, kOverState, true},
};

}  // namespace

std::span<const KernelChoice> adamw_rows_kernels() { return kChoices; }

}  // namespace lamina::cpu
