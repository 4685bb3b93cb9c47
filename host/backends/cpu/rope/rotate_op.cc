// rotate: heads turned by the table, one pass.
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/rope/rope.h"

namespace lamina::cpu {
namespace {

Verdict supports(const NodeView& n) {
  if (n.type(0).dtype == DType::f16) return Verdict::no("takes f32, bf16 and f64, got f16");
  return Verdict::yes();
}

std::unique_ptr<Kernel> make(const NodeView& n) {
  const Type& x = n.type(0);
  const std::int64_t tokens = x.dim(0) * x.dim(1), heads = x.dim(2), width = x.dim(3);
  const std::int64_t half = n.type(1).dim(3);
  RopeApply p{.dtype = x.dtype,
              .num_tokens = tokens,
              .num_heads = heads,
              .head_dim = width,
              .rotary_dim = 2 * half,
              .pairs = n.i("interleaved") ? RopePairs::interleaved : RopePairs::half_split,
              .inverse = n.i("inverse") != 0,
              .x = nullptr,
              .x_strides = {heads * width, width},
              .y = nullptr,
              .y_strides = {heads * width, width},
              .cos = nullptr,
              .sin = nullptr};
  return make_kernel([p, tokens, half](const KernelArgs& args) mutable {
    p.x = args.inputs[0];
    p.y = args.outputs[0];
    p.cos = static_cast<const float*>(args.inputs[1]);
    p.sin = p.cos + tokens * half;
    rope_apply(p);
  });
}

constexpr KernelChoice kChoices[] = {{"vector", supports, make, in_place_of(0)}};

}  // namespace

std::span<const KernelChoice> rotate_kernels() { return kChoices; }

}  // namespace lamina::cpu
