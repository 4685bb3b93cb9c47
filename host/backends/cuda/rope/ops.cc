// The kernels of rope_table, rotate and rotate_write.
#include <array>

#include "backends/cuda/access.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/layout/row_ops.h"
#include "backends/cuda/rope/params.h"
#include "backends/cuda/stored/rows.h"
#include "formats/row_formats.h"
#include "ops/operands.h"
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

Verdict takes_tokens(const Type& x) {
  if (product(x.shape, 2, x.ndim()) <= std::int64_t{1} << 30) return Verdict::yes();
  return Verdict::no("takes tokens of up to 2^30 numbers, got " + to_string(x));
}

Verdict takes_heads(const NodeView& n) { return takes_tokens(n.type(0)); }

Verdict takes_positions(const NodeView& n) {
  if (n.i("rotary_dim") <= std::int64_t{1} << 30) return Verdict::yes();
  return Verdict::no("takes a rotary_dim of up to 2^30");
}

// Rotates and writes keys, values and queries in one launch.
namespace rotate_write_op {

namespace in = operand::rotate_write;

// An operand with its cache, in the order of the results.
struct Part {
  int x, cache;
  const char* rotates;  // an attribute; null: it always does
};
constexpr int kNoCache = -1;
constexpr Part kParts[kMostMovedRows] = {
    {in::kK, in::kKCache, "rotate_k"},
    {in::kV, in::kVCache, "rotate_v"},
    {in::kQ, kNoCache, nullptr},
};

Verdict supports(const NodeView& n) {
  for (const Part& part : kParts) {
    if (!n.has(part.x)) continue;
    if (Verdict v = takes_tokens(n.type(part.x)); !v) return v;
    if (part.cache != kNoCache && n.type(part.cache).storage)
      return Verdict::no("writes plain rows, got " + to_string(n.type(part.cache)));
  }
  return Verdict::yes();
}

bool is_rounded(const NodeView& n) { return n.type(in::kKCache).storage != nullptr; }

// Caches that are stored in numbers. A warp has the row of a head.
Verdict supports_rounded(const NodeView& n) {
  if (!is_rounded(n))
    return Verdict::no("writes stored rows, got " + to_string(n.type(in::kKCache)));
  for (const Part& part : kParts) {
    if (!n.has(part.x)) continue;
    const Type& x = n.type(part.x);
    if (Verdict v = takes_tokens(x); !v) return v;
    if (part.cache == kNoCache) {
      if (x.dim(3) <= formats::kMaxRowValues) continue;
      return Verdict::no(fmt::format("takes heads of up to {} numbers, got {}",
                                     formats::kMaxRowValues, to_string(x)));
    }
    const Type& cache = n.type(part.cache);
    if (Verdict v = supports_rows(cache); !v) return v;
    if (!cache.storage || cache.storage->num_values != x.dim(-1))
      return Verdict::no("takes rows of heads, got " + to_string(x) + " and " + to_string(cache));
  }
  return Verdict::yes();
}

// Rows that do not rotate are one head of any width, except rows that are rounded.
MovedRows moved_rows(const NodeView& n, const Part& part) {
  const Type& x = n.type(part.x);
  const bool rotates = !part.rotates || n.i(part.rotates) != 0, is_cached = part.cache != kNoCache;
  const bool has_heads = rotates || is_rounded(n);
  MovedRows rows{};
  rows.width = static_cast<int>(has_heads ? x.dim(-1) : product(x.shape, 2, x.ndim()));
  rows.heads = static_cast<int>(product(x.shape, 2, x.ndim()) / rows.width);
  rows.half = rotates ? static_cast<int>(n.type(in::kTable).dim(3)) : 0;
  rows.is_cached = is_cached;
  if (!is_cached) return rows;
  rows.slots = cache_slots(n, n.type(part.cache));
  rows.kind = row_kind(n.type(part.cache));
  return rows;
}

class RotateWriteKernel final : public Kernel {
 public:
  RotateWriteKernel(const NodeView& n, Context& context)
      : RotateWriteKernel(n, context,
                          fmt::format("rotate_write_{}_{}", n.i("interleaved") ? "pairs" : "halves",
                                      name(n.type(in::kK).dtype))) {}
  RotateWriteKernel(const NodeView& n, Context& context, const std::string& stem)
      : forms_(context, stem),
        rounded_(is_rounded(n) ? function(context, stem + "_rounded") : nullptr),
        vector_(vector_elements(n.type(in::kK).dtype)) {
    const Type& k = n.type(in::kK);
    p_.num_tokens = k.dim(0) * k.dim(1);
    p_.tokens = gpu::divisor_of(k.dim(1));
    for (std::size_t i = 0; i < kMostMovedRows; ++i) {
      if (!n.has(kParts[i].x)) continue;
      p_.rows[i] = moved_rows(n, kParts[i]);
      if (p_.rows[i].is_cached)
        cache_bytes_[i] = static_cast<std::size_t>(n.type(kParts[i].cache).bytes());
    }
    if (n.has(in::kTable)) num_angles_ = p_.num_tokens * n.type(in::kTable).dim(3);
  }

  void run(const KernelArgs& args) override {
    RotateWriteParams p = p_;
    const auto* cos = static_cast<const float*>(args.inputs[in::kTable]);
    const float* sin = cos ? cos + num_angles_ : nullptr;
    p.cos = address(cos), p.sin = address(sin);
    p.start = address(args.inputs[in::kStart]);
    bool by_vectors = begin_vectors({cos, sin});
    for (std::size_t i = 0; i < kMostMovedRows; ++i) {
      const auto* x = args.inputs[static_cast<std::size_t>(kParts[i].x)];
      void* y = args.outputs[i];
      MovedRows& rows = p.rows[i];
      rows.x = address(x), rows.y = address(y);
      by_vectors &= rows.half % vector_ == 0 && rows.width % vector_ == 0 && begin_vectors({x, y});
      if (y && rows.is_cached)  // no copy when in place
        copy_bytes(args, y, args.inputs[static_cast<std::size_t>(kParts[i].cache)],
                   cache_bytes_[i]);
    }
    std::int64_t units = 0;
    for (MovedRows& rows : p.rows) {
      if (rows.y.value != 0) rows.units = units_of(rows, by_vectors);
      units += rows.units;
    }
    p.units = gpu::divisor_of(units);
    const int units_of_block = rounded_ ? kThreads / 32 : kThreads;
    launch(args, rounded_ ? rounded_ : forms_.get(by_vectors),
           {.blocks = grid_for(p.num_tokens * units, units_of_block), .threads = kThreads}, p);
  }

 private:
  static constexpr int kThreads = 256;
  // Units of a token: accesses of threads, or rows of warps.
  int units_of(const MovedRows& rows, bool by_vectors) const {
    if (rounded_) return rows.heads;
    return rows.heads * (rows.width - rows.half) / (by_vectors ? vector_ : 1);
  }

  AccessForms forms_;
  Function rounded_;
  int vector_;
  RotateWriteParams p_{};
  std::array<std::size_t, kMostMovedRows> cache_bytes_ = {};
  std::int64_t num_angles_ = 0;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  return std::make_unique<RotateWriteKernel>(n, context);
}

constexpr KernelChoice kChoices[] = {{"rows", supports, make, in_place_of(in::kQ)},
                                     {"rounded rows", supports_rounded, make, in_place_of(in::kQ)}};

}  // namespace rotate_write_op

constexpr KernelChoice kTable[] = {{"frequencies", takes_positions, make_table}};
constexpr KernelChoice kRotate[] = {{"pairs", takes_heads, make_rotate, in_place_of(0)}};

constexpr OpKernels kOps[] = {
    {"rope_table", kTable},
    {"rotate", kRotate},
    {"rotate_write", rotate_write_op::kChoices},
};

}  // namespace

KernelTable rope_kernels() { return kOps; }

}  // namespace lamina::cuda
