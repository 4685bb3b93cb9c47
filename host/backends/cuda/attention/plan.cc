#include "backends/cuda/attention/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/round_up.h"

namespace lamina::cuda {
namespace {

int as_int(std::int64_t n) {
  return static_cast<int>(std::min<std::int64_t>(n, std::numeric_limits<std::int32_t>::max()));
}

struct Form {
  std::string_view name;
  int row_warps, col_warps, keys, cols;
  int rows() const { return 16 * row_warps; }
};
constexpr Form kForms[] = {
#define LAMINA_ATTENTION_FORM(name, row_warps, col_warps, keys, cols) \
  {#name, row_warps, col_warps, keys, cols},
#include "backends/cuda/attention/forms.def"
#undef LAMINA_ATTENTION_FORM
};

static_assert(kWarpgroupTileBytes<128> + kStaticTileBytes <= kMostWarpgroupSharedBytes);

// Half a tile of rows or less is left to the smaller tiles.
bool fits_warpgroups(const AttentionSizes& size, bool shares) {
  return have_warpgroup_products() && !shares && size.width == size.value_width &&
         (size.width == 64 || size.width == 128) && size.rows > kWarpgroupRows / 2;
}
TileForm warpgroup_form(const AttentionSizes& size) {
  return {.kernel = fmt::format("attention_wgmma_{}", size.width),
          .rows = kWarpgroupRows,
          .keys = kWarpgroupKeys,
          .threads = kWarpgroupThreads,
          .shared_bytes = size.width == 64 ? kWarpgroupTileBytes<64> : kWarpgroupTileBytes<128>};
}

TileForm matrix_form(const AttentionSizes& size, bool shares) {
  const bool few = size.rows <= 16;
  for (const Form& form : kForms) {
    if (few != (form.rows() == 16) || size.value_width > form.cols * form.col_warps) continue;
    TileForm out{.kernel = "attention_" + std::string(form.name),
                 .rows = form.rows(),
                 .keys = form.keys,
                 .threads = 32 * form.row_warps * form.col_warps,
                 .key_stride = matrix_stride(size.width),
                 .value_stride = size.value_width > 0 ? matrix_stride(size.value_width) : 0};
    std::int64_t elements = (form.rows() + form.keys) * out.key_stride +
                            form.keys * (shares ? out.key_stride : out.value_stride);
    if (form.col_warps > 1) elements += form.rows() * (form.keys + 8);
    out.shared_bytes = 2 * elements;
    if (out.shared_bytes <= most_tile_bytes()) return out;
  }
  return {};
}

TileForm plain_form(DType dtype, const AttentionSizes& size) {
  for (const int tile : {32, 8}) {
    if ((dtype == DType::f64 || dtype == DType::bf16) && tile > 8) continue;
    TileForm out{.kernel = "attention_plain" + std::to_string(tile),
                 .rows = tile,
                 .keys = tile,
                 .threads = 256,
                 .key_stride = plain_stride(size.width),
                 .value_stride = size.value_width > 0 ? plain_stride(size.value_width) : 0};
    out.shared_bytes = (2 * out.key_stride + 2 * out.value_stride + tile + 4 + 3) *
                       std::int64_t{tile} * size_bytes(sum_dtype(dtype));
    if (out.shared_bytes <= most_plain_bytes(tile, dtype)) return out;
  }
  return {};
}

}  // namespace

NumberKind number_kind(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return NumberKind::f32;
    case DType::bf16:
      return NumberKind::bf16;
    case DType::f16:
      return NumberKind::f16;
    default:
      return NumberKind::f64;
  }
}

SmallInput small_input(const NodeView& n, int input) {
  return {{}, n.has(input) ? number_kind(n.type(input).dtype) : NumberKind::f32};
}

VisibilityParams visibility_of(const NodeView& n, const VisibilityInputs& in) {
  VisibilityParams seen;
  seen.keep_by_head = n.has(in.mask) && n.type(in.mask).ndim() == 4;
  seen.causal = n.i("causal") != 0;
  seen.window = as_int(n.i("window"));
  seen.chunk = as_int(n.i("chunk"));
  return seen;
}

void bind_visibility(const KernelArgs& args, const VisibilityInputs& in, VisibilityParams& seen) {
  const auto at = [&](int input) { return address(input_of(args, input)); };
  seen.q_positions = at(in.positions);
  seen.k_positions = at(in.key_positions);
  seen.q_segments = at(in.segments);
  seen.k_segments = at(in.key_segments);
  seen.blocks = at(in.blocks);
  seen.keep = at(in.mask);
  seen.starts = at(in.start);
}

AttentionSizes attention_sizes(const Type& q, const Type& k, std::int64_t value_width) {
  AttentionSizes size;
  size.batch = as_int(q.dim(0));
  size.q_tokens = as_int(q.dim(1));
  size.kv_tokens = as_int(k.dim(1));
  size.heads = as_int(q.dim(2));
  size.kv_heads = as_int(k.dim(2));
  size.group = as_int(q.dim(2) / k.dim(2));
  size.width = as_int(q.dim(3));
  size.value_width = as_int(value_width);
  size.rows = as_int(q.dim(1) * size.group);
  return size;
}

Verdict supports_sizes(const Type& q, const Type& k) {
  constexpr std::int64_t kMost = 1 << 30;
  if (q.dim(0) * q.dim(1) * q.dim(2) > kMost || k.dim(1) > kMost)
    return Verdict::no("takes up to 2^30 queries of heads, got " + to_string(q));
  return Verdict::yes();
}

void divide_tiles(AttentionSizes& size, int tile_rows, int tile_keys) {
  size.tile_rows = tile_rows;
  size.tile_keys = tile_keys;
  size.row_tiles = static_cast<int>(divide_up(std::int64_t{size.rows}, std::int64_t{tile_rows}));
  size.key_tiles =
      static_cast<int>(divide_up(std::int64_t{size.kv_tokens}, std::int64_t{tile_keys}));
}

bool restricts_by_ids(const NodeView& n, const VisibilityInputs& in) {
  return n.has(in.positions) || n.has(in.segments) || n.has(in.blocks);
}

TileMarks::TileMarks(Context& context, const AttentionSizes& size, bool by_ids, bool by_mask,
                     bool by_head)
    : by_head_(by_head) {
  if (by_ids) {
    spans_ = function(context, "attention_spans");
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(TokenSpan));
    query_spans_bytes_ = round_up(size.batch * std::int64_t{size.row_tiles} * kBytes, 64);
    key_spans_bytes_ = round_up(size.batch * std::int64_t{size.key_tiles} * kBytes, 64);
    bytes_ = static_cast<std::size_t>(query_spans_bytes_ + key_spans_bytes_);
  }
  if (by_mask) {
    kept_ = function(context, "attention_kept_tiles");
    kept_blocks_ = std::int64_t{size.batch} * (by_head ? size.kv_heads : 1) * size.row_tiles;
    bytes_ += aligned(static_cast<std::size_t>(kept_blocks_ * size.key_tiles));
  }
}

void TileMarks::run(const KernelArgs& args, const AttentionSizes& size, VisibilityParams& seen,
                    std::byte* memory) const {
  if (spans_ != nullptr) {
    seen.query_spans = seen.key_spans = {};
    const SpansParams p{.size = size,
                        .seen = seen,
                        .query_spans = address(memory),
                        .key_spans = address(memory + query_spans_bytes_)};
    constexpr int kWarps = 4;
    launch(
        args, spans_,
        {.blocks = grid_for(std::int64_t{size.batch} * (size.row_tiles + size.key_tiles), kWarps),
         .threads = 32 * kWarps},
        p);
    seen.query_spans = p.query_spans;
    seen.key_spans = p.key_spans;
    memory += query_spans_bytes_ + key_spans_bytes_;
  }
  if (kept_ != nullptr) {
    const KeptTilesParams p{
        .size = size, .keep = seen.keep, .tiles = address(memory), .by_head = by_head_};
    launch(args, kept_, {.blocks = kept_blocks_, .threads = 128}, p);
    seen.kept_tiles = p.tiles;
  }
}

TileForm forward_form(DType dtype, const AttentionSizes& size, bool shares) {
  if (dtype != DType::bf16) return plain_form(dtype, size);
  if (fits_warpgroups(size, shares)) return warpgroup_form(size);
  const TileForm form = matrix_form(size, shares);
  // Heads too wide for the tensor cores' tiles in 99 KiB.
  return form.kernel.empty() ? plain_form(dtype, size) : form;
}

bool copies_vectors(std::initializer_list<int> widths, std::initializer_list<gpu::Address> at) {
  return std::ranges::all_of(widths, [](int width) { return width % 8 == 0; }) &&
         std::ranges::all_of(at, [](gpu::Address a) { return a.value % 16 == 0; });
}

namespace {

AttentionSizes divided(AttentionSizes size, const TileForm& form) {
  divide_tiles(size, form.rows, form.keys);
  return size;
}

// Keys of one split. It does not depend on the batch, so that the bits of a row do not either.
constexpr int kKeysOfFewRows = 128, kKeysOfManyRows = 512;
constexpr int kMostSplitRows = 256;

}  // namespace

AttentionRun::AttentionRun(Context& context, DType dtype, const AttentionParams& params,
                           const Options& options)
    : form_(forward_form(dtype, params.size, params.values_are_keys != 0)),
      size_(divided(params.size, form_)),
      marks_(context, size_, options.by_ids, options.by_mask, params.seen.keep_by_head != 0),
      tile_(function(context, form_.kernel, dtype)),
      wide_bytes_(static_cast<std::size_t>(size_bytes(sum_dtype(dtype)))) {
  bytes_ = marks_.bytes();
  if (!options.over_state || size_.rows > kMostSplitRows) return;
  keys_per_split_ = size_.rows <= 16 ? kKeysOfFewRows : kKeysOfManyRows;
  splits_ = std::max(1, (size_.kv_tokens + keys_per_split_ - 1) / keys_per_split_);
  if (splits_ == 1) return;
  merge_ = function(context, "attention_merge", dtype);
  partial_bytes_ = static_cast<std::size_t>(size_.batch) *
                   static_cast<std::size_t>(size_.kv_heads) * static_cast<std::size_t>(splits_) *
                   static_cast<std::size_t>(size_.rows) * wide_bytes_;
  bytes_ += 2 * aligned(partial_bytes_) +
            aligned(partial_bytes_ * static_cast<std::size_t>(size_.value_width));
}

void AttentionRun::run(const KernelArgs& args, AttentionParams p, std::byte* workspace) const {
  p.size = size_;
  p.splits = splits_;
  p.keys_per_split = keys_per_split_;
  p.key_stride = form_.key_stride;
  p.value_stride = form_.value_stride;
  p.vectors = copies_vectors({size_.width - p.tail_width, p.tail_width, size_.value_width},
                             {p.q, p.k, p.v, p.k_tail}) &&
              size_.width % 8 == 0;
  marks_.run(args, size_, p.seen, workspace);
  std::byte* partial = workspace + marks_.bytes();
  if (splits_ > 1) {
    p.partial_top = address(partial);
    p.partial_sum = address(partial + aligned(partial_bytes_));
    p.partial_y = address(partial + 2 * aligned(partial_bytes_));
  }
  launch(args, tile_,
         {.blocks = std::int64_t{size_.batch} * size_.kv_heads * size_.row_tiles * splits_,
          .threads = form_.threads,
          .shared_bytes = static_cast<std::size_t>(form_.shared_bytes)},
         p);
  if (splits_ == 1) return;
  const MergeParams merge{.size = size_,
                          .sinks = p.sinks,
                          .partial_y = p.partial_y,
                          .partial_top = p.partial_top,
                          .partial_sum = p.partial_sum,
                          .y = p.y,
                          .lse = p.lse,
                          .splits = splits_};
  const std::int64_t pieces = divide_up(std::int64_t{size_.value_width}, std::int64_t{32});
  launch(args, merge_,
         {.blocks = grid_for(std::int64_t{size_.batch} * size_.kv_heads * size_.rows * pieces, 4),
          .threads = 128},
         merge);
}

}  // namespace lamina::cuda
