// The kernels of rope_table and rotate.
#include <algorithm>
#include <vector>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/rope/frequencies.h"
#include "backends/cpu/rope/rope.h"

namespace lamina::cpu {
namespace {

// Computes frequencies when the kernel is made, and angles of the positions in each run.
namespace rope_table_op {

RopeScaling scaling_of(const std::string& name) {
  if (name == "linear") return RopeScaling::linear;
  if (name == "dynamic") return RopeScaling::dynamic;
  if (name == "llama3") return RopeScaling::by_wavelength;
  if (name == "yarn") return RopeScaling::yarn;
  if (name == "longrope") return RopeScaling::longrope;
  return RopeScaling::none;
}

// Returns the value; 0 means absent.
std::optional<double> optional_attr(double value) {
  return value == 0 ? std::nullopt : std::optional(value);
}

RopeSpec spec_of(const NodeView& n) {
  RopeSpec spec{.rotary_dim = n.i("frequency_dim") ? n.i("frequency_dim") : n.i("rotary_dim"),
                .theta = n.f("theta"),
                .scaling = scaling_of(n.s("scaling")),
                .factor = n.f("factor")};
  spec.max_position_embeddings = n.i("max_positions");
  spec.original_max_position_embeddings = n.i("original_max_positions");
  spec.low_freq_factor = n.f("low_freq_factor");
  spec.high_freq_factor = n.f("high_freq_factor");
  spec.beta_fast = n.f("beta_fast");
  spec.beta_slow = n.f("beta_slow");
  spec.truncate = n.i("truncate") != 0;
  spec.attention_factor = optional_attr(n.f("attention_factor"));
  spec.mscale = optional_attr(n.f("mscale"));
  spec.mscale_all_dim = optional_attr(n.f("mscale_all_dim"));
  spec.short_factor = n.f_list("short_factor");
  spec.long_factor = n.f_list("long_factor");
  return spec;
}

// Returns the frequencies of `half` channels: channels beyond frequency_dim do not rotate.
RopeFrequencies frequencies(const RopeSpec& spec, std::int64_t num_tokens, std::int64_t half) {
  RopeFrequencies out = rope_frequencies(spec, num_tokens);
  out.inv_freq.resize(static_cast<std::size_t>(half), 0.0f);
  return out;
}

// Returns the row of positions for each frequency; empty if there is one row.
std::vector<std::uint8_t> axes_of_frequencies(const NodeView& n) {
  if (n.type(0).ndim() == 2) return {};
  const std::vector<std::int64_t>& section = n.list("mrope_section");
  std::vector<std::uint8_t> out;
  for (std::int64_t i = 0; i < n.i("rotary_dim") / 2; ++i) {
    std::size_t axis = 0;
    if (!n.i("mrope_interleaved"))
      axis = i < section[0] ? 0 : i < section[0] + section[1] ? 1 : 2;
    else if (i < 3 * section[static_cast<std::size_t>(i % 3)])
      axis = static_cast<std::size_t>(i % 3);
    out.push_back(static_cast<std::uint8_t>(axis));
  }
  return out;
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const std::int64_t batch = n.type(0).dim(-2), tokens = n.type(0).dim(-1);
  const std::int64_t half = n.i("rotary_dim") / 2;
  const RopeSpec spec = spec_of(n);
  const bool is_dynamic = spec.scaling == RopeScaling::dynamic;
  const bool is_longrope = spec.scaling == RopeScaling::longrope;
  const std::int64_t limit =
      is_longrope ? spec.original_max_position_embeddings : spec.max_position_embeddings;
  RopeFrequencies beyond = {{}, 1.0f};
  if (is_longrope) beyond = frequencies(spec, limit + 1, half);
  return make_kernel([=, base = frequencies(spec, 0, half), beyond = std::move(beyond),
                      axes = axes_of_frequencies(n)](const KernelArgs& args) {
    const auto* positions = static_cast<const std::int32_t*>(args.inputs[0]);
    auto* cos = static_cast<float*>(args.outputs[0]);
    float* sin = cos + batch * tokens * half;
    auto fill = [&](const RopeFrequencies& f, std::int64_t first, std::int64_t count) {
      rope_table({.positions = positions + first,
                  .num_tokens = count,
                  .inv_freq = f.inv_freq.data(),
                  .num_frequencies = half,
                  .axis_of_frequency = axes.empty() ? nullptr : axes.data(),
                  .attention_factor = f.attention_factor,
                  .cos = cos + first * half,
                  .sin = sin + first * half});
    };
    if (!is_dynamic && !is_longrope) return fill(base, 0, batch * tokens);
    for (std::int64_t b = 0; b < batch && tokens > 0; ++b) {
      const std::int32_t* row = positions + b * tokens;
      const std::int64_t length = *std::max_element(row, row + tokens) + 1;
      if (length <= limit)
        fill(base, b * tokens, tokens);
      else
        fill(is_longrope ? beyond : frequencies(spec, length, half), b * tokens, tokens);
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
