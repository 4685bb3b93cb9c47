// The kernels of rope_table and rotate. Tasks are ranges of tokens.
#include <algorithm>
#include <optional>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/rope/rope.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"
#include "ops/rope_frequencies.h"

namespace lamina::cpu {
namespace {

const RopeFunctions& functions() { return isa_table<RopeFunctions>(); }

std::int64_t min_tokens(std::int64_t elements_per_token, std::int64_t min_elements) {
  return std::max<std::int64_t>(1, min_elements / std::max<std::int64_t>(1, elements_per_token));
}

}  // namespace

void rope_table(const RopeTable& p) {
  parallel_ranges(p.num_tokens, min_tokens(p.num_frequencies, 1024),
                  [&](std::int64_t begin, std::int64_t end) { functions().table(p, begin, end); });
}

void rope_apply(const RopeApply& p) {
  LAMINA_ASSERT(p.dtype == DType::f32 || p.dtype == DType::bf16 || p.dtype == DType::f64);
  LAMINA_ASSERT(p.rotary_dim % 2 == 0 && p.rotary_dim <= p.head_dim);
  parallel_ranges(p.num_tokens, min_tokens(p.num_heads * p.head_dim, 8192),
                  [&](std::int64_t begin, std::int64_t end) { functions().apply(p, begin, end); });
}

namespace {

// Computes frequencies when the kernel is made, and angles of the positions in each run.
namespace rope_table_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const std::int64_t batch = n.type(0).dim(-2), tokens = n.type(0).dim(-1);
  const std::int64_t half = n.i("rotary_dim") / 2;
  const ops::RopeSpec spec = ops::rope_spec(n);
  const std::optional<std::int64_t> limit = ops::rope_length_limit(spec);
  const bool is_longrope = spec.scaling == ops::RopeScaling::longrope;
  ops::RopeFrequencies beyond = {{}, 1.0f};
  if (is_longrope) beyond = ops::rope_frequencies(spec, *limit + 1, half);
  return make_kernel([=, base = ops::rope_frequencies(spec, 0, half), beyond = std::move(beyond),
                      axes = ops::rope_axes(n)](const KernelArgs& args) {
    const auto* positions = static_cast<const std::int32_t*>(args.inputs[0]);
    auto* cos = static_cast<float*>(args.outputs[0]);
    float* sin = cos + batch * tokens * half;
    auto fill = [&](const ops::RopeFrequencies& f, std::int64_t first, std::int64_t count) {
      rope_table({.positions = positions + first,
                  .num_tokens = count,
                  .inv_freq = f.inv_freq.data(),
                  .num_frequencies = half,
                  .axis_of_frequency = axes.empty() ? nullptr : axes.data(),
                  .attention_factor = f.attention_factor,
                  .cos = cos + first * half,
                  .sin = sin + first * half});
    };
    if (!limit) return fill(base, 0, batch * tokens);
    for (std::int64_t b = 0; b < batch && tokens > 0; ++b) {
      const std::int32_t* row = positions + b * tokens;
      const std::int64_t length = *std::max_element(row, row + tokens) + 1;
      if (length <= *limit)
        fill(base, b * tokens, tokens);
      else
        fill(is_longrope ? beyond : ops::rope_frequencies(spec, length, half), b * tokens, tokens);
    }
  });
}

constexpr KernelChoice kChoices[] = {{"vector", always, make}};

}  // namespace rope_table_op

// Rotates heads by the table, in one pass.
namespace rotate_op {

Verdict supports(const NodeView& n) {
  if (n.type(0).dtype == DType::f16) return Verdict::no("takes f32, bf16 and f64, got f16");
  return Verdict::yes();
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
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
              .y = nullptr,
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

}  // namespace rotate_op

constexpr OpKernels kOps[] = {
    {"rope_table", rope_table_op::kChoices},
    {"rotate", rotate_op::kChoices},
};

}  // namespace

KernelTable rope_kernels() { return kOps; }

}  // namespace lamina::cpu
