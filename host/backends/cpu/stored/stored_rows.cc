#include "backends/cpu/stored/stored_rows.h"

#include <algorithm>
#include <array>

#include "backends/cpu/threads/threads.h"
#include "core/error.h"
#include "core/round_up.h"
#include "formats/row_formats.h"

namespace lamina::cpu {

StoredRows::StoredRows(const formats::BlockFormat& format, std::int64_t width, DType dtype)
    : format_(&format), width_(width), dtype_(dtype) {
  LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
  LAMINA_ASSERT(width % format.num_values == 0);
  const WidenFunctions::Format* known = find_format<WidenFunctions>(format);
  if (!known) return;
  const bool by_machine = best_isa() == Isa::avx512_bf16 && known->machine_bf16;
  const bool by_table = has_byte_tables() && known->table_bf16;
  widen_ = dtype == DType::f32 ? known->f32
           : by_table          ? known->table_bf16
           : by_machine        ? known->machine_bf16
                               : known->bf16;
}

void StoredRows::widen_values(const std::byte* blocks, std::int64_t count, std::byte* out) const {
  if (widen_) return widen_(blocks, count, out);
  const WidenFunctions& functions = isa_table<WidenFunctions>();
  std::array<float, std::max(formats::kMaxBlockValues, formats::kMaxRowValues)> values;
  for (std::int64_t i = 0; i < count; i += format_->num_values) {
    if (dtype_ == DType::f32) {
      format_->widen(blocks, reinterpret_cast<float*>(out) + i);
    } else {
      format_->widen(blocks, values.data());
      functions.round(values.data(), format_->num_values, out + 2 * i);
    }
    blocks += format_->num_bytes;
  }
}

void StoredRows::widen(const void* stored, std::int64_t first, std::int64_t count,
                       void* out) const {
  widen_values(static_cast<const std::byte*>(stored) + first * format_->bytes_of(width_),
               count * width_, static_cast<std::byte*>(out));
}

StoredRows::Span StoredRows::whole_blocks(std::int64_t begin, std::int64_t end) const {
  return {begin / format_->num_values * format_->num_values,
          std::min(width_, round_up(end, std::int64_t{format_->num_values}))};
}

void StoredRows::widen(const void* stored, std::int64_t first, std::int64_t count, Span values,
                       void* out) const {
  const std::int64_t row_bytes = format_->bytes_of(width_), length = values.past - values.first;
  const auto* from =
      static_cast<const std::byte*>(stored) + first * row_bytes + format_->bytes_of(values.first);
  auto* to = static_cast<std::byte*>(out);
  for (std::int64_t row = 0; row < count; ++row)
    widen_values(from + row * row_bytes, length, to + row * length * size_bytes(dtype_));
}

void parallel_widen(const StoredRows& rows, const void* stored, std::int64_t count, void* out) {
  constexpr std::int64_t kMinValuesPerThread = 64 << 10;
  const std::int64_t min_rows =
      std::max<std::int64_t>(1, kMinValuesPerThread / std::max<std::int64_t>(1, rows.width()));
  parallel_ranges(count, min_rows, [&](std::int64_t begin, std::int64_t end) {
    rows.widen(stored, begin, end - begin,
               static_cast<std::byte*>(out) + rows.bytes_widened(begin));
  });
}

}  // namespace lamina::cpu
