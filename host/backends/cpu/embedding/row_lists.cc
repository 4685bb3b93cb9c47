// Lists of rows by id: makes them by sorting, and merges them from their ends.

#include <algorithm>
#include <cstring>

#include "backends/cpu/embedding/embedding.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kMinElementsPerThread = 8192;

template <int from_bf16>
void add_fast(void* sum, const void* row, std::int64_t width) {
  isa_table<EmbeddingFunctions>().add[from_bf16](static_cast<float*>(sum), row, width);
}

AddRow fastest(DType dtype) {
  LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
  return dtype == DType::bf16 ? add_fast<1> : add_fast<0>;
}

// Number of slots of a list that are in use.
std::int64_t num_used(const std::int32_t* ids, std::int64_t slots, std::int64_t num_rows) {
  return std::lower_bound(ids, ids + slots, num_rows) - ids;
}

// The origin of a slot of the merged list: a slot of each of the two lists, or -1.
struct Merged {
  std::int32_t id;
  std::int32_t slot, more_slot;
};

// Lists the slots of the merged list from its first id on; returns their number.
std::int64_t merge_ids(const RowLists& p, std::int64_t used, std::int64_t more_used, Merged* out) {
  std::int64_t i = 0, j = 0, n = 0;
  while (i < used || j < more_used) {
    const bool mine = j == more_used || (i < used && p.ids[i] <= p.more_ids[j]);
    const bool theirs = i == used || (j < more_used && p.more_ids[j] <= p.ids[i]);
    out[n++] = {mine ? p.ids[i] : p.more_ids[j], mine ? static_cast<std::int32_t>(i) : -1,
                theirs ? static_cast<std::int32_t>(j) : -1};
    i += mine;
    j += theirs;
  }
  return n;
}

// Moves columns [begin, end) of all rows, the last slot first. A row only moves to a later slot, so
// none is overwritten before it has moved.
template <typename T>
void merge_columns(const RowLists& p, const Merged* merged, std::int64_t n, std::int64_t begin,
                   std::int64_t end) {
  T* sums = static_cast<T*>(p.sums);
  const T* more = static_cast<const T*>(p.more);
  const auto bytes = static_cast<std::size_t>(end - begin) * sizeof(T);
  for (std::int64_t k = n; k-- > 0;) {
    T* to = sums + k * p.width + begin;
    const T* row = merged[k].more_slot < 0 ? nullptr : more + merged[k].more_slot * p.width + begin;
    if (merged[k].slot < 0) {
      std::memcpy(to, row, bytes);
      continue;
    }
    const T* own = sums + merged[k].slot * p.width + begin;
    if (own != to) std::memcpy(to, own, bytes);
    if (!row) continue;
    for (std::int64_t i = 0; i < end - begin; ++i) to[i] += row[i];
  }
}

}  // namespace

const RowOfId* sort_by_id(RowOfId* entries, RowOfId* scratch, std::int64_t n) {
  std::int64_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, entries[i].id);
  // Needs one pass per byte of the largest id.
  for (int shift = 0; shift < 64 && (largest >> shift) != 0; shift += 8) {
    std::int64_t starts[257] = {};
    for (std::int64_t i = 0; i < n; ++i) ++starts[((entries[i].id >> shift) & 255) + 1];
    for (int b = 0; b < 256; ++b) starts[b + 1] += starts[b];
    for (std::int64_t i = 0; i < n; ++i)
      scratch[starts[(entries[i].id >> shift) & 255]++] = entries[i];
    std::swap(entries, scratch);
  }
  return entries;
}

std::size_t row_sums_workspace_bytes(std::int64_t num_ids) {
  return static_cast<std::size_t>(num_ids) * (2 * sizeof(RowOfId) + sizeof(std::int64_t));
}

void sum_rows_by_id(const RowSums& p) {
  RowOfId* entries = static_cast<RowOfId*>(p.workspace);
  auto* firsts =
      reinterpret_cast<std::int64_t*>(entries + 2 * p.num_ids);  // the first entry of each sum
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < p.num_ids; ++i)
    if (p.ids[i] >= 0 && p.ids[i] < p.num_rows) entries[n++] = {p.ids[i], i};
  const RowOfId* sorted = sort_by_id(entries, entries + p.num_ids, n);
  std::int64_t used = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (i > 0 && sorted[i].id == sorted[i - 1].id) continue;
    p.sum_ids[used] = static_cast<std::int32_t>(sorted[i].id);
    firsts[used++] = i;
  }
  std::fill(p.sum_ids + used, p.sum_ids + p.slots, static_cast<std::int32_t>(p.num_rows));

  if (p.width == 0) return;  // the pointers may be null, which memset does not accept
  const AddRow add = p.add ? p.add : fastest(p.dy_dtype);
  const std::int64_t sum_bytes = p.width * size_bytes(sum_dtype(p.dy_dtype));
  const std::int64_t dy_bytes = p.width * size_bytes(p.dy_dtype);
  const std::int64_t min_slots =
      std::max<std::int64_t>(1, kMinElementsPerThread / std::max<std::int64_t>(1, p.width));
  parallel_ranges(p.slots, min_slots, [&](std::int64_t begin, std::int64_t end) {
    std::memset(static_cast<std::byte*>(p.sums) + begin * sum_bytes, 0,
                static_cast<std::size_t>((end - begin) * sum_bytes));
    for (std::int64_t slot = begin; slot < std::min(end, used); ++slot) {
      const std::int64_t last = slot + 1 < used ? firsts[slot + 1] : n;
      for (std::int64_t i = firsts[slot]; i < last; ++i)
        add(static_cast<std::byte*>(p.sums) + slot * sum_bytes,
            static_cast<const std::byte*>(p.dy) + sorted[i].row * dy_bytes, p.width);
    }
  });
}

std::size_t row_lists_workspace_bytes(std::int64_t slots, std::int64_t more_slots) {
  return static_cast<std::size_t>(slots + more_slots) * sizeof(Merged);
}

void add_row_lists(const RowLists& p) {
  LAMINA_ASSERT(p.dtype == DType::f32 || p.dtype == DType::f64);
  Merged* merged = static_cast<Merged*>(p.workspace);
  const std::int64_t used = num_used(p.ids, p.slots, p.num_rows);
  const std::int64_t more_used = num_used(p.more_ids, p.more_slots, p.num_rows);
  const std::int64_t n = merge_ids(p, used, more_used, merged);
  LAMINA_ASSERT(n <= p.slots);
  for (std::int64_t k = 0; k < n; ++k) p.ids[k] = merged[k].id;
  parallel_ranges(p.width, 64, [&](std::int64_t begin, std::int64_t end) {
    if (p.dtype == DType::f32)
      merge_columns<float>(p, merged, n, begin, end);
    else
      merge_columns<double>(p, merged, n, begin, end);
  });
}

}  // namespace lamina::cpu
