#include "backends/cuda/stored/rows.h"

#include "core/error.h"
#include "formats/row_formats.h"

namespace lamina::cuda {

RowKind row_kind(const Type& type) {
  if (!type.storage) return RowKind::plain;
  return *formats::row_numbers(*type.storage) == formats::RowNumbers::int8 ? RowKind::int8
                                                                           : RowKind::fp8;
}

std::string_view name(RowKind kind) {
  LAMINA_ASSERT(kind != RowKind::plain);
  return kind == RowKind::int8 ? "int8" : "fp8";
}

Verdict supports_rows(const Type& type) {
  if (!type.storage) return Verdict::yes();
  const bool is_fast = type.dtype == DType::f32 || type.dtype == DType::bf16;
  if (is_fast && formats::row_numbers(*type.storage)) return Verdict::yes();
  return Verdict::no("takes plain rows, and f32 and bf16 in rows of int8 and fp8, got " +
                     to_string(type));
}

RowWidener::RowWidener(Context& context, const Type& type)
    : function_(
          function(context, fmt::format("widen_rows_of_{}", name(row_kind(type))), type.dtype)),
      params_{.x = {},
              .y = {},
              .starts = {},
              .num_rows = type.num_elements() / type.storage->num_values,
              .heads = gpu::divisor_of(1),
              .slots = gpu::divisor_of(1),
              .tokens = 0,
              .width = type.storage->num_values} {
  if (type.ndim() != 4) return;
  params_.heads = gpu::divisor_of(type.dim(2));
  params_.slots = gpu::divisor_of(type.dim(1));
}

void RowWidener::run(const KernelArgs& args, const void* from, void* to) const {
  run_written(args, from, nullptr, 0, to);
}

void RowWidener::run_written(const KernelArgs& args, const void* from, const void* starts,
                             std::int64_t tokens, void* to) const {
  constexpr int kThreads = 256;
  WidenCachedParams p = params_;
  p.x = address(from);
  p.y = address(to);
  p.starts = address(starts);
  p.tokens = tokens;
  launch(args, function_, {.blocks = grid_for(p.num_rows, kThreads / 32), .threads = kThreads}, p);
}

}  // namespace lamina::cuda
