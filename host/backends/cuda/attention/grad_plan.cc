#include "backends/cuda/attention/grad_plan.h"

#include <algorithm>

#include "core/round_up.h"

namespace lamina::cuda {
namespace {

struct GradForm {
  std::string_view name;
  int own_warps, col_warps, other, cols;
};
constexpr GradForm kForms[] = {
#define LAMINA_ATTENTION_GRAD_FORM(name, own_warps, col_warps, other, cols) \
  {#name, own_warps, col_warps, other, cols},
#include "backends/cuda/attention/grad_forms.def"
#undef LAMINA_ATTENTION_GRAD_FORM
};

// The own and the other rows of a tile, and its memory.
struct Division {
  std::string form;  // empty: none fits
  int own = 0, other = 0, stages = 1;
  TileForm tile = {};
};

Division matrix_division(const AttentionSizes& size) {
  for (const GradForm& form : kForms) {
    if (std::max(size.width, size.value_width) > form.cols * form.col_warps) continue;
    Division out{.form = std::string(form.name), .own = 16 * form.own_warps, .other = form.other};
    out.tile.threads = 32 * form.own_warps * form.col_warps;
    out.tile.key_stride = matrix_stride(size.width);
    out.tile.value_stride = matrix_stride(size.value_width);
    const std::int64_t row = out.tile.key_stride + out.tile.value_stride;
    const std::int64_t exchanged = form.col_warps > 1 ? 2 * out.own * (form.other + 8) : 0;
    for (const int stages : {2, 1}) {
      out.stages = stages;
      out.tile.shared_bytes = 2 * ((out.own + stages * form.other) * row + exchanged);
      if (out.tile.shared_bytes <= most_tile_bytes()) return out;
    }
  }
  return {};
}

Division plain_division(DType dtype, const AttentionSizes& size) {
  for (const int tile : {32, 8}) {
    if (dtype != DType::f32 && tile > 8) continue;
    Division out{.form = "plain" + std::to_string(tile), .own = tile, .other = tile};
    out.tile.threads = 256;
    out.tile.key_stride = plain_stride(size.width);
    out.tile.value_stride = plain_stride(size.value_width);
    out.tile.shared_bytes = (3 * (out.tile.key_stride + out.tile.value_stride) + 2 * (tile + 4)) *
                            std::int64_t{tile} * size_bytes(sum_dtype(dtype));
    if (out.tile.shared_bytes <= most_plain_bytes(tile, dtype)) return out;
  }
  return {};
}

// Gradients of biases have plain tiles for all types.
Division division(DType dtype, const AttentionSizes& size, std::string_view part) {
  if (dtype != DType::bf16 || part == "bias") return plain_division(dtype, size);
  const Division found = matrix_division(size);
  // Heads too wide for the tensor cores' tiles in 99 KiB.
  return found.form.empty() ? plain_division(dtype, size) : found;
}

}  // namespace

bool grad_fits(DType dtype, const AttentionSizes& size) {
  return !division(dtype, size, "keys").form.empty() && !division(dtype, size, "bias").form.empty();
}

AttentionGradRun::Pass::Pass(Context& context, const AttentionSizes& divided,
                             const Options& options, bool by_head, Function f, TileForm tile)
    : size(divided),
      marks(context, divided, options.by_ids, options.by_mask, by_head),
      function(f),
      form(std::move(tile)) {}

AttentionGradRun::Pass AttentionGradRun::make_pass(Context& context, DType dtype,
                                                   const AttentionGradParams& params,
                                                   const Options& options, std::string_view part) {
  const Division d = division(dtype, params.size, part);
  AttentionSizes size = params.size;
  if (part == "keys")
    divide_tiles(size, d.other, d.own);
  else
    divide_tiles(size, d.own, d.other);
  Pass pass(context, size, options, params.seen.keep_by_head != 0,
            cuda::function(context, "attention_grad_" + std::string(part) + "_" + d.form, dtype),
            d.tile);
  pass.stages = d.stages;
  return pass;
}

AttentionGradRun::AttentionGradRun(Context& context, DType dtype, const AttentionGradParams& params,
                                   const Options& options)
    : rows_(make_pass(context, dtype, params, options, "rows")),
      keys_(make_pass(context, dtype, params, options, "keys")),
      bias_(make_pass(context, dtype, params, options, "bias")),
      has_slopes_(options.slopes),
      has_bias_(options.bias),
      dots_(function(context, "attention_grad_dots", dtype)),
      sinks_(function(context, "attention_grad_sinks", sum_dtype(dtype))),
      sum_slopes_(function(context, "attention_grad_sum_slopes", sum_dtype(dtype))),
      sum_bias_(function(context, "attention_grad_sum_bias", sum_dtype(dtype))) {
  const auto bytes = [&](std::int64_t numbers) {
    return aligned(static_cast<std::size_t>(numbers * size_bytes(sum_dtype(dtype))));
  };
  const std::int64_t stats =
      std::int64_t{params.size.batch} * params.size.heads * params.size.q_tokens;
  stat_bytes_ = bytes(stats);
  if (has_slopes_) slopes_bytes_ = bytes(stats);
  if (has_bias_)
    table_bytes_ = bytes(std::int64_t{params.size.batch} * params.size.heads *
                         bias_.size.row_tiles * params.logits.distances);
  marks_bytes_ = std::max(rows_.marks.bytes(), keys_.marks.bytes());
  if (has_slopes_ || has_bias_) marks_bytes_ = std::max(marks_bytes_, bias_.marks.bytes());
  bytes_ = stat_bytes_ + slopes_bytes_ + table_bytes_ + marks_bytes_;
}

void AttentionGradRun::run_pass(const KernelArgs& args, const Pass& pass, AttentionGradParams p,
                                std::int64_t own_tiles, std::byte* marks) const {
  p.size = pass.size;
  p.stages = pass.stages;
  p.key_stride = pass.form.key_stride;
  p.value_stride = pass.form.value_stride;
  p.vectors =
      copies_vectors({p.size.width, p.size.value_width}, {p.q, p.k, p.v, p.dy, p.dq, p.dk, p.dv});
  // The queue runs kernels in order, so all passes can use the same memory for their marks.
  pass.marks.run(args, p.size, p.seen, marks);
  launch(args, pass.function,
         {.blocks = own_tiles * p.size.batch * p.size.kv_heads,
          .threads = pass.form.threads,
          .shared_bytes = static_cast<std::size_t>(pass.form.shared_bytes)},
         p);
}

void AttentionGradRun::run_bias(const KernelArgs& args, AttentionGradParams p, std::byte* partial,
                                std::byte* marks) const {
  if (has_slopes_ && p.dslopes.value != 0) p.partial_slopes = address(partial);
  if (has_bias_ && p.dbias.value != 0) p.partial_bias = address(partial + slopes_bytes_);
  if (p.partial_slopes.value == 0 && p.partial_bias.value == 0) return;
  run_pass(args, bias_, p, bias_.size.row_tiles, marks);
  p.size = bias_.size;
  if (p.partial_slopes.value != 0)
    launch(args, sum_slopes_, {.blocks = p.size.heads, .threads = 256}, p);
  if (p.partial_bias.value != 0)
    launch(
        args, sum_bias_,
        {.blocks = grid_for(std::int64_t{p.size.heads} * p.logits.distances, 256), .threads = 256},
        p);
}

void AttentionGradRun::run(const KernelArgs& args, const AttentionGradParams& params,
                           std::byte* workspace) const {
  AttentionGradParams p = params;
  p.dots = address(workspace);
  std::byte* partial = workspace + stat_bytes_;
  std::byte* marks = partial + slopes_bytes_ + table_bytes_;
  launch(args, dots_,
         {.blocks = grid_for(std::int64_t{p.size.batch} * p.size.heads * p.size.q_tokens, 4),
          .threads = 128},
         p);
  if (p.dk.value != 0 || p.dv.value != 0) run_pass(args, keys_, p, keys_.size.key_tiles, marks);
  run_pass(args, rows_, p, rows_.size.row_tiles, marks);
  if (p.sinks.data.value != 0 && p.dsinks.value != 0)
    launch(args, sinks_, {.blocks = p.size.heads, .threads = 256}, p);
  run_bias(args, p, partial, marks);
}

}  // namespace lamina::cuda
