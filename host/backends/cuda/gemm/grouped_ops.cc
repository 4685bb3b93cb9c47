// The kernels of grouped_linear, grouped_linear_dx and grouped_linear_dw. The groups are known to
// the GPU only: grids are large enough for every division of the rows into groups, and blocks
// without work end.
#include "backends/cuda/gemm/grouped_ops.h"

#include <limits>
#include <optional>

#include "backends/cuda/gemm/few_rows_host.h"
#include "backends/cuda/gemm/params.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/stored/widen.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

bool is_16_bit(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

Verdict fits_sizes(const Type& x, const Type& y) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const Type* type : {&x, &y})
    for (int i = 0; i < type->ndim(); ++i)
      if (type->dim(i) > kMost)
        return Verdict::no("takes dims of less than 2^31, got " + to_string(*type));
  return Verdict::yes();
}

Verdict takes_16_bit(const NodeView& n) {
  if (!is_16_bit(n.type(0).dtype))
    return Verdict::no("takes bf16 and f16, got " + to_string(n.type(0)));
  return fits_sizes(n.type(0), n.type(1));
}
Verdict takes_plain_types(const NodeView& n) {
  if (is_16_bit(n.type(0).dtype))
    return Verdict::no("takes f32 and f64, got " + to_string(n.type(0)));
  if (Verdict v = reads_plain(n); !v) return v;
  return fits_sizes(n.type(0), n.type(1));
}

static_assert(kWarpgroupSharedBytes<128> <= kMostWarpgroupSharedBytes);

bool by_warpgroups(DType dtype) { return dtype == DType::bf16 && have_warpgroup_products(); }

// A kernel with the rows and columns of its tiles.
struct Tiled {
  Function function;
  int tile_rows, tile_columns, threads;
  int shared_bytes = 0;  // dynamic
};

Tiled plain_tiles(Context& context, std::string_view name, DType dtype) {
  return {function(context, name, dtype), kPlainTile, kPlainTile, kPlainThreads};
}
// Tiles of 64 rows waste less on groups of few rows.
Tiled mma_tiles(Context& context, const std::string& name, DType dtype, bool large) {
  const int rows = large ? 128 : 64;
  if (by_warpgroups(dtype))
    return {function(context, fmt::format("{}_wgmma_{}", name, rows), dtype), rows, kMmaColumns,
            kMmaThreads, large ? kWarpgroupSharedBytes<128> : kWarpgroupSharedBytes<64>};
  return {function(context, fmt::format("{}_{}", name, rows), dtype), rows, kMmaColumns,
          kMmaThreads};
}
Tiled mma_numbers(Context& context, const std::string& name, DType dtype) {
  return {function(context, name + "_numbers", dtype), 64, kMmaColumns, kMmaThreads};
}
bool has_large_groups(const RowGroups& rows) {
  return rows.num_rows >= std::int64_t{96} * rows.num_groups;
}

void launch_rows(const KernelArgs& args, const Tiled& tiled, const GroupedParams& p) {
  if (p.rows.num_rows == 0) return;
  launch(args, tiled.function,
         {.blocks = max_row_tiles(p.rows.num_rows, p.rows.num_groups, tiled.tile_rows),
          .threads = tiled.threads,
          .shared_bytes = static_cast<std::size_t>(tiled.shared_bytes),
          .blocks_y = divide_up(std::int64_t{p.n}, std::int64_t{tiled.tile_columns})},
         p);
}

RowGroups groups_of(const Type& rows, std::int64_t num_groups) {
  return {
      .offsets = {}, .num_groups = static_cast<std::int32_t>(num_groups), .num_rows = rows.dim(0)};
}

constexpr int kNoBias = -1;

// x or dy, w and offsets are the first inputs of grouped_linear and grouped_linear_dx.
void set_operands(GroupedParams& p, const KernelArgs& args, int bias) {
  p.x = address(args.inputs[0]);
  p.w = address(args.inputs[1]);
  p.rows.offsets = address(args.inputs[2]);
  p.bias = address(input_of(args, bias));
  p.y = address(args.outputs[0]);
}

std::unique_ptr<Kernel> make_mma(const std::string& name, DType dtype, GroupedParams p,
                                 bool whole_units, int bias, Context& context) {
  return make_kernel([p, whole_units, bias,
                      vectors = mma_tiles(context, name, dtype, has_large_groups(p.rows)),
                      numbers = mma_numbers(context, name, dtype)](const KernelArgs& args) mutable {
    set_operands(p, args, bias);
    const bool aligned = whole_units && are_vectors(args.inputs[0], args.inputs[1]);
    launch_rows(args, aligned ? vectors : numbers, p);
  });
}

std::unique_ptr<Kernel> make_plain(std::string_view name, DType dtype, GroupedParams p, int bias,
                                   Context& context) {
  return make_kernel(
      [p, bias, tiles = plain_tiles(context, name, dtype)](const KernelArgs& args) mutable {
        set_operands(p, args, bias);
        launch_rows(args, tiles, p);
      });
}

namespace grouped_linear_op {

namespace in = operand::grouped_linear;

FewRows make_rows(const NodeView& n, Context& context) {
  const Type &x = n.type(0), &w = n.type(1);
  std::optional<DType> bias;
  if (n.has(in::kBias)) bias = n.type(in::kBias).dtype;
  return FewRows(context, {.num_rows = x.dim(0),
                           .k = w.dim(2),
                           .in = x.dtype,
                           .out = x.dtype,
                           .num_groups = w.dim(0),
                           .stored = w.storage,
                           .matrices = {{w.dim(1), bias}}});
}
void run_rows(const KernelArgs& args, const FewRows& product) {
  const FewRows::Operands operands = {args.inputs[1], args.inputs[in::kBias], args.outputs[0]};
  product.run(args, args.inputs[0], args.inputs[2], {&operands, 1});
}

// While most groups have at most kFewRows rows, w is read once.
Verdict supports_few(const NodeView& n) {
  const Type &x = n.type(0), &w = n.type(1);
  if (!is_fast_dtype(x.dtype)) return Verdict::no("takes f32 and bf16, got " + to_string(x));
  if (Verdict v = fits_sizes(x, w); !v) return v;
  constexpr std::int64_t kFewInAll = 16, kFewPerGroup = 2;
  if (w.storage && x.dtype == DType::f32) return Verdict::yes();
  if (x.dim(0) > std::max(kFewInAll, kFewPerGroup * w.dim(0)))
    return Verdict::no(fmt::format("streams weights for about {} rows per group, got {} for {}",
                                   kFewPerGroup, to_string(x), to_string(w)));
  return Verdict::yes();
}

std::unique_ptr<Kernel> make_few(const NodeView& n, Context& context) {
  return make_kernel([product = make_rows(n, context)](const KernelArgs& args) {
    if (product.num_rows() > 0) run_rows(args, product);
  });
}

GroupedParams params_of(const NodeView& n) {
  const Type& w = n.type(1);
  return {.x = {},
          .w = {},
          .bias = {},
          .y = {},
          .rows = groups_of(n.type(0), w.dim(0)),
          .n = static_cast<std::int32_t>(w.dim(1)),
          .k = static_cast<std::int32_t>(w.dim(2)),
          .bias_type = n.has(in::kBias) ? number_type(n.type(in::kBias).dtype) : NumberType::f32};
}

// x that vector loads cannot read is multiplied as few rows are.
std::unique_ptr<Kernel> make_stored_mma(const NodeView& n, Context& context) {
  const bool wide = by_warpgroups(n.type(0).dtype);
  const Tiled tiles = {
      function(context, (wide ? "grouped_wgmma_" : "grouped_") + kernel_name(*n.type(1).storage),
               n.type(0).dtype),
      64, kMmaColumns, kMmaThreads, wide ? kWarpgroupSharedBytes<64> : 0};
  return make_kernel(
      [p = params_of(n), tiles, rows = make_rows(n, context)](const KernelArgs& args) mutable {
        set_operands(p, args, in::kBias);
        if (are_vectors(args.inputs[0]))
          launch_rows(args, tiles, p);
        else if (p.rows.num_rows > 0)
          run_rows(args, rows);
      });
}

std::unique_ptr<Kernel> make_tensor_cores(const NodeView& n, Context& context) {
  if (n.type(1).storage) return make_stored_mma(n, context);
  const GroupedParams p = params_of(n);
  return make_mma("grouped", n.type(0).dtype, p, p.k % kMmaUnit == 0, in::kBias, context);
}

Verdict supports_tensor_cores(const NodeView& n) {
  if (n.type(1).storage && n.type(0).dtype != DType::bf16)
    return Verdict::no("widens to bf16, not to " + std::string(name(n.type(0).dtype)));
  return takes_16_bit(n);
}

std::unique_ptr<Kernel> make_tiles(const NodeView& n, Context& context) {
  return make_plain("grouped", n.type(0).dtype, params_of(n), in::kBias, context);
}

constexpr KernelChoice kChoices[] = {
    {"few rows", supports_few, make_few},
    {"tensor cores", supports_tensor_cores, make_tensor_cores},
    {"tiles", takes_plain_types, make_tiles},
};

}  // namespace grouped_linear_op

namespace grouped_linear_dx_op {

GroupedParams params_of(const NodeView& n) {
  const Type& w = n.type(1);
  return {.x = {},
          .w = {},
          .bias = {},
          .y = {},
          .rows = groups_of(n.type(0), w.dim(0)),
          .n = static_cast<std::int32_t>(w.dim(2)),
          .k = static_cast<std::int32_t>(w.dim(1)),
          .bias_type = NumberType::f32};
}

Verdict takes_widened(const NodeView& n) {
  if (n.type(1).storage && !is_fast_dtype(n.type(1).dtype))
    return Verdict::no("widens to f32 and bf16, not to " + std::string(name(n.type(1).dtype)));
  return fits_sizes(n.type(0), n.type(1));
}
Verdict supports_tensor_cores(const NodeView& n) {
  if (Verdict v = takes_16_bit(n); !v) return v;
  return takes_widened(n);
}
Verdict supports_tiles(const NodeView& n) {
  if (is_16_bit(n.type(0).dtype))
    return Verdict::no("takes f32 and f64, got " + to_string(n.type(0)));
  return takes_widened(n);
}

std::unique_ptr<Kernel> make_tensor_cores(const NodeView& n, Context& context) {
  const GroupedParams p = params_of(n);
  const bool whole_units = p.k % kMmaUnit == 0 && p.n % kMmaUnit == 0;
  return with_widened(n.type(1), 1, context,
                      make_mma("grouped_dx", n.type(0).dtype, p, whole_units, kNoBias, context));
}

std::unique_ptr<Kernel> make_tiles(const NodeView& n, Context& context) {
  return with_widened(n.type(1), 1, context,
                      make_plain("grouped_dx", n.type(0).dtype, params_of(n), kNoBias, context));
}

constexpr KernelChoice kChoices[] = {
    {"tensor cores", supports_tensor_cores, make_tensor_cores},
    {"tiles", supports_tiles, make_tiles},
};

}  // namespace grouped_linear_dx_op

namespace grouped_linear_dw_op {

GroupedGradParams params_of(const NodeView& n) {
  const Type& dw = n.out_type();
  return {.x = {},
          .dy = {},
          .dw = {},
          .dbias = {},
          .rows = groups_of(n.type(0), dw.dim(0)),
          .inputs = static_cast<std::int32_t>(dw.dim(2)),
          .outputs = static_cast<std::int32_t>(dw.dim(1))};
}

void launch_grad(const KernelArgs& args, const Tiled& tiled, const GroupedGradParams& p) {
  launch(args, tiled.function,
         {.blocks = divide_up(std::int64_t{p.inputs}, std::int64_t{tiled.tile_columns}),
          .threads = tiled.threads,
          .shared_bytes = static_cast<std::size_t>(tiled.shared_bytes),
          .blocks_y = divide_up(std::int64_t{p.outputs}, std::int64_t{tiled.tile_rows}),
          .blocks_z = p.rows.num_groups},
         p);
}

void launch_sums(const KernelArgs& args, Function sums, const GroupedGradParams& p) {
  if (p.dbias.value == 0) return;
  constexpr std::int64_t kColumns = 32;  // of a block
  launch(args, sums,
         {.blocks = divide_up(std::int64_t{p.outputs}, kColumns),
          .threads = kPlainThreads,
          .blocks_y = p.rows.num_groups},
         p);
}

void set_operands(GroupedGradParams& p, const KernelArgs& args) {
  p.x = address(args.inputs[0]);
  p.dy = address(args.inputs[1]);
  p.rows.offsets = address(args.inputs[2]);
  p.dw = address(args.outputs[0]);
  p.dbias = address(args.outputs[1]);
}

std::unique_ptr<Kernel> make_tensor_cores(const NodeView& n, Context& context) {
  const DType dtype = n.type(0).dtype;
  GroupedGradParams p = params_of(n);
  const bool whole_units = p.inputs % kMmaUnit == 0 && p.outputs % kMmaUnit == 0;
  const bool wide = by_warpgroups(dtype);
  const Tiled vectors = {function(context, wide ? "grouped_dw_wgmma" : "grouped_dw", dtype),
                         kMmaGradRows, kMmaColumns, kMmaThreads,
                         wide ? kWarpgroupSharedBytes<kMmaGradRows> : 0};
  const Tiled numbers = {function(context, "grouped_dw_numbers", dtype), kMmaGradRows, kMmaColumns,
                         kMmaThreads};
  return make_kernel(
      [p, whole_units, vectors, numbers,
       sums = function(context, "grouped_sums", dtype)](const KernelArgs& args) mutable {
        set_operands(p, args);
        const bool aligned = whole_units && are_vectors(args.inputs[0], args.inputs[1]);
        launch_grad(args, aligned ? vectors : numbers, p);
        launch_sums(args, sums, p);
      });
}

std::unique_ptr<Kernel> make_tiles(const NodeView& n, Context& context) {
  const DType dtype = n.type(0).dtype;
  return make_kernel(
      [p = params_of(n), product = plain_tiles(context, "grouped_dw", dtype),
       sums = function(context, "grouped_sums", dtype)](const KernelArgs& args) mutable {
        set_operands(p, args);
        launch_grad(args, product, p);
        launch_sums(args, sums, p);
      });
}

constexpr KernelChoice kChoices[] = {
    {"tensor cores", takes_16_bit, make_tensor_cores},
    {"tiles", takes_plain_types, make_tiles},
};

}  // namespace grouped_linear_dw_op

}  // namespace

std::span<const KernelChoice> grouped_linear_choices() { return grouped_linear_op::kChoices; }
std::span<const KernelChoice> grouped_linear_dx_choices() { return grouped_linear_dx_op::kChoices; }
std::span<const KernelChoice> grouped_linear_dw_choices() { return grouped_linear_dw_op::kChoices; }

}  // namespace lamina::cuda
