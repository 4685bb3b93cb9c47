// top_k_mask: per query the k-th highest score by selection, then one walk that marks.
#include <algorithm>

#include "backends/cpu/attention/best_keys.h"
#include "backends/cpu/attention/inputs.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

class TopKMaskKernel final : public Kernel {
 public:
  explicit TopKMaskKernel(const NodeView& n)
      : batch_(n.type(0).dim(0)),
        tokens_(n.type(0).dim(1)),
        keys_(n.type(0).dim(2)),
        k_(n.i("k")),
        causal_(n.i("causal") != 0) {}

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(num_threads()) * row_bytes();
  }

  void run(const KernelArgs& args) override {
    const auto* scores = static_cast<const float*>(args.inputs[0]);
    const auto* segments = static_cast<const std::int32_t*>(optional_input(args, 1));
    const auto* starts = static_cast<const std::int32_t*>(optional_input(args, 2));
    auto* mask = static_cast<std::uint8_t*>(args.outputs[0]);
    parallel_tasks(batch_ * tokens_, [&](std::int64_t row, int thread) {
      const std::int64_t b = row / tokens_, t = row % tokens_;
      const std::int64_t before = starts ? starts[b] : 0;
      const std::int64_t last = before + (causal_ ? t : tokens_ - 1);
      auto* scratch =
          reinterpret_cast<float*>(args.workspace + static_cast<std::size_t>(thread) * row_bytes());
      mark_row(scores + row * keys_, segments ? segments + b * tokens_ : nullptr, t,
               std::min(last + 1, keys_), scratch, mask + row * keys_);
    });
  }

 private:
  std::size_t row_bytes() const { return aligned(static_cast<std::size_t>(keys_) * sizeof(float)); }

  // Keys [0, end) may be seen, as far as segments allow.
  void mark_row(const float* scores, const std::int32_t* segments, std::int64_t t, std::int64_t end,
                float* scratch, std::uint8_t* mask) const {
    auto seen = [&](std::int64_t s) {
      return !segments || (segments[s] == segments[t] && segments[t] != 0);
    };
    std::fill_n(mask, keys_, std::uint8_t{0});
    for_best_keys(scores, end, k_, scratch, seen, [&](std::int64_t s) { mask[s] = 1; });
  }

  std::int64_t batch_, tokens_, keys_, k_;
  bool causal_;
};

Verdict supports(const NodeView& n) {
  if (n.type(0).dtype != DType::f32)
    return Verdict::no("takes scores in f32, got " + to_string(n.type(0)));
  return Verdict::yes();
}

std::unique_ptr<Kernel> make(const NodeView& n) { return std::make_unique<TopKMaskKernel>(n); }

constexpr KernelChoice kChoices[] = {{"select", supports, make}};

}  // namespace

std::span<const KernelChoice> top_k_mask_kernels() { return kChoices; }

}  // namespace lamina::cpu
