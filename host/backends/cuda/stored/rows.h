// Keys and values in rows of formats/row_formats.h, for the kernels that read and write them.
#pragma once

#include <string_view>

#include "backends/cuda/launch.h"
#include "backends/cuda/stored/params.h"
#include "graph/type.h"
#include "runtime/kernel.h"

namespace lamina::cuda {

// Returns the numbers of a type's rows. REQUIRES: supports_rows().
RowKind row_kind(const Type& type);
// "int8" or "fp8", in names of kernels.
std::string_view name(RowKind kind);

// Accepts plain types, and f32 and bf16 that are stored in such rows.
Verdict supports_rows(const Type& type);

// Widens rows to their plain type.
class RowWidener {
 public:
  // REQUIRES: the type is stored in rows.
  RowWidener(Context& context, const Type& type);
  void run(const KernelArgs& args, const void* from, void* to) const;
  // Widens the slots of a cache [batch, slots, heads, width] that are written after a call with
  // `tokens` tokens at starts i32[batch]; other rows of `to` keep their contents.
  void run_written(const KernelArgs& args, const void* from, const void* starts,
                   std::int64_t tokens, void* to) const;

 private:
  Function function_;
  WidenCachedParams params_;
};

}  // namespace lamina::cuda
