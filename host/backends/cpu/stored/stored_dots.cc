#include "backends/cpu/stored/stored_dots.h"

#include <algorithm>

#include "backends/cpu/gemm/tiles.h"
#include "backends/cpu/stored/stored_rows.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {

const StoredDotFunctions::Format* find_stored_dots(const formats::BlockFormat* format, DType in) {
  if (!format || in != DType::bf16) return nullptr;
  const RowsFunction rows = best_rows_function(in).run;
  const GemvFunctions& plain = isa_table<GemvFunctions>();
  const auto& functions = isa_table<StoredDotFunctions>();
  if (rows == plain.rows_bf16.run && has_byte_tables())
    if (const auto* found =
            find_format(functions.bf16_formats, functions.num_bf16_formats, *format))
      return found;
  const auto* found = find_format<StoredDotFunctions>(*format);
  return found && (found->integers || rows == plain.rows.run) ? found : nullptr;
}

PreparedRows::PreparedRows(std::int64_t width)
    : PreparedRows(width, isa_table<StoredDotFunctions>().steps) {}

void PreparedRows::prepare(const void* x, std::int64_t ldx, std::int64_t rows,
                           std::byte* out) const {
  // Below this many values per thread, waking another thread costs more than it saves.
  constexpr std::int64_t kMinValuesPerThread = 16 << 10;
  const auto* from = static_cast<const std::uint16_t*>(x);
  const std::int64_t min_rows = kMinValuesPerThread / std::max<std::int64_t>(1, width_) + 1;
  parallel_ranges(rows, min_rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      form_->prepare(from + row * ldx, width_, out + bytes(row));
  });
}

}  // namespace lamina::cpu
