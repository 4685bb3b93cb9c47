#include "backends/cpu/stored/quantised_rows.h"

#include <algorithm>

#include "backends/cpu/stored/integer_gemm.h"
#include "backends/cpu/stored/stored_rows.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {

QuantisedRows::QuantisedRows(std::int64_t width)
    : QuantisedRows(width, isa_table<IntegerDotFunctions>().steps) {}

void QuantisedRows::quantise(const void* x, std::int64_t ldx, std::int64_t rows,
                             std::byte* out) const {
  // Below this many values per thread, waking another thread costs more than it saves.
  constexpr std::int64_t kMinValuesPerThread = 16 << 10;
  const auto* from = static_cast<const std::uint16_t*>(x);
  const std::int64_t min_rows = kMinValuesPerThread / std::max<std::int64_t>(1, width_) + 1;
  parallel_ranges(rows, min_rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      form_->quantise(from + row * ldx, width_, out + bytes(row));
  });
}

const IntegerDotFunctions::Format* find_integer_dots(const formats::BlockFormat* format, DType in) {
  if (!format || in != DType::bf16) return nullptr;
  return find_format<IntegerDotFunctions>(*format);
}

std::string_view integer_dots_name() { return isa_table<IntegerDotFunctions>().name; }

}  // namespace lamina::cpu
