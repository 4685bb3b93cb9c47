// The kernels of rope_table and rotate.
#include "backends/cuda/access.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/rope/params.h"
#include "ops/rope_frequencies.h"

namespace lamina::cuda {
namespace {

// Frequencies are computed when the kernel is made, as parameters of launches. If they depend on
// the length of a row, a first kernel finds the lengths and writes the frequencies of each row to
// the workspace.
class RopeTableKernel final : public Kernel {
 public:
  RopeTableKernel(const NodeView& n, Context& context)
      : table_(function(context, "rope_table")),
        rows_(function(context, "rope_rows")),
        num_rows_(n.type(0).dim(-2)),
        tokens_per_row_(n.type(0).dim(-1)),
        half_(static_cast<int>(n.i("rotary_dim") / 2)),
        axes_(ops::rope_axes(n)),
        spec_(ops::rope_spec(n)),
        limit_(ops::rope_length_limit(spec_)),
        within_(ops::rope_frequencies(spec_, 0, half_)) {
    // Dynamic frequencies depend on the length, which only the GPU knows.
    beyond_ = spec_.scaling == ops::RopeScaling::longrope
                  ? ops::rope_frequencies(spec_, *limit_ + 1, half_)
                  : within_;
  }

  std::size_t workspace_bytes() const override {
    return limit_ ? static_cast<std::size_t>(num_rows_ * half_) * sizeof(float) : 0;
  }

  void run(const KernelArgs& args) override {
    if (num_rows_ * tokens_per_row_ == 0) return;
    for (int first = 0; first < half_; first += kMaxFrequencies) {
      if (limit_) find_frequencies(args, first);
      fill_table(args, first);
    }
  }

 private:
  int count(int first) const { return std::min(kMaxFrequencies, half_ - first); }

  void find_frequencies(const KernelArgs& args, int first) const {
    RopeRowsParams p = {};
    p.positions = address(args.inputs[0]);
    p.of_rows = address(args.workspace);
    p.tokens_per_row = tokens_per_row_;
    p.limit = *limit_;
    p.half = half_, p.first = first, p.count = count(first);
    p.is_dynamic = spec_.scaling == ops::RopeScaling::dynamic;
    p.theta = spec_.theta, p.factor = spec_.factor;
    const double dim = static_cast<double>(spec_.rotary_dim);
    p.exponent = spec_.rotary_dim == 2 ? 0 : dim / (dim - 2);  // one frequency, 1 for every base
    p.frequency_dim = static_cast<int>(spec_.rotary_dim);
    std::copy_n(within_.inv_freq.begin() + first, p.count, p.within);
    std::copy_n(beyond_.inv_freq.begin() + first, p.count, p.beyond);
    launch(args, rows_, {.blocks = num_rows_, .threads = 256}, p);
  }

  void fill_table(const KernelArgs& args, int first) const {
    RopeTableParams p = {};
    auto* cos = static_cast<float*>(args.outputs[0]);
    p.num_tokens = num_rows_ * tokens_per_row_;
    p.positions = address(args.inputs[0]);
    p.cos = address(cos);
    p.sin = address(cos + p.num_tokens * half_);
    p.tokens_per_row = tokens_per_row_;
    p.half = half_, p.first = first, p.count = count(first);
    p.factor = within_.attention_factor;
    if (limit_) p.of_rows = address(args.workspace);
    std::copy_n(within_.inv_freq.begin() + first, p.count, p.frequencies);
    if (!axes_.empty()) std::copy_n(axes_.begin() + first, p.count, p.axes);
    launch(args, table_, {.blocks = grid_for(p.num_tokens * p.count, 256), .threads = 256}, p);
  }

  Function table_, rows_;
  std::int64_t num_rows_, tokens_per_row_;
  int half_;
  std::vector<std::uint8_t> axes_;
  ops::RopeSpec spec_;
  std::optional<std::int64_t> limit_;
  ops::RopeFrequencies within_, beyond_;
};

std::unique_ptr<Kernel> make_table(const NodeView& n, Context& context) {
  return std::make_unique<RopeTableKernel>(n, context);
}

// Rotates heads by the table, in one pass.
std::unique_ptr<Kernel> make_rotate(const NodeView& n, Context& context) {
  const Type& x = n.type(0);
  const AccessForms forms(
      context, fmt::format("rotate_{}_{}", n.i("interleaved") ? "pairs" : "halves", name(x.dtype)));
  const RotateParams params{.x = {},
                            .y = {},
                            .cos = {},
                            .sin = {},
                            .num_tokens = x.dim(0) * x.dim(1),
                            .heads = static_cast<int>(x.dim(2)),
                            .width = static_cast<int>(x.dim(3)),
                            .half = static_cast<int>(n.type(1).dim(3)),
                            .sign = n.i("inverse") ? -1.0f : 1.0f};
  const int vector = vector_elements(x.dtype);
  return make_kernel([=](const KernelArgs& args) {
    RotateParams p = params;
    const auto* cos = static_cast<const float*>(args.inputs[1]);
    const float* sin = cos + p.num_tokens * p.half;
    p.x = address(args.inputs[0]), p.y = address(args.outputs[0]);
    p.cos = address(cos), p.sin = address(sin);
    const bool by_vectors = p.half % vector == 0 && p.width % vector == 0 &&
                            begin_vectors({args.inputs[0], args.outputs[0], cos, sin});
    const int unit = by_vectors ? vector : 1;
    const std::int64_t units =
        p.num_tokens * p.heads * (p.half / unit + (p.width - 2 * p.half) / unit);
    launch(args, forms.get(by_vectors), {.blocks = grid_for(units, 256), .threads = 256}, p);
  });
}

Verdict takes_heads(const NodeView& n) {
  const Type& x = n.type(0);
  if (x.dim(2) * x.dim(3) <= std::int64_t{1} << 30) return Verdict::yes();
  return Verdict::no("takes tokens of up to 2^30 numbers, got " + to_string(x));
}

Verdict takes_positions(const NodeView& n) {
  if (n.i("rotary_dim") <= std::int64_t{1} << 30) return Verdict::yes();
  return Verdict::no("takes a rotary_dim of up to 2^30");
}

constexpr KernelChoice kTable[] = {{"frequencies", takes_positions, make_table}};
constexpr KernelChoice kRotate[] = {{"pairs", takes_heads, make_rotate, in_place_of(0)}};

constexpr OpKernels kOps[] = {
    {"rope_table", kTable},
    {"rotate", kRotate},
};

}  // namespace

KernelTable rope_kernels() { return kOps; }

}  // namespace lamina::cuda
