// Distributes flat ranges over threads.
#include "backends/cpu/optimizer/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

const OptimizerFunctions& functions() { return isa_table<OptimizerFunctions>(); }

// Calls body(first element, count) once per thread, cut at whole cache lines.
template <typename Body>
void parallel_elements(std::int64_t n, const Body& body) {
  constexpr std::int64_t kUnit = 64;
  parallel_ranges(divide_up(n, kUnit), 128, [&](std::int64_t begin, std::int64_t end) {
    body(begin * kUnit, std::min(n, end * kUnit) - begin * kUnit);
  });
}

// The chunks of sums depend only on n: at most 256, of at least 16384 elements.
constexpr std::int64_t kMaxChunks = 256;
std::int64_t chunk_elements(std::int64_t n) {
  return std::max<std::int64_t>(16384, divide_up(n, kMaxChunks));
}
std::int64_t num_chunks(std::int64_t n) { return divide_up(n, chunk_elements(n)); }

AdamWNumbers numbers_of(const AdamW& a) {
  LAMINA_ASSERT(a.correction1 > 0 && a.correction2 > 0);
  return {
      .grad_scale = a.grad_scale,
      .decay = static_cast<float>(1 - a.lr * a.weight_decay),
      .beta1 = static_cast<float>(a.beta1),
      .rest1 = static_cast<float>(1 - a.beta1),
      .beta2 = static_cast<float>(a.beta2),
      .rest2 = static_cast<float>(1 - a.beta2),
      .step_size = static_cast<float>(a.lr / a.correction1),
      .root_scale = static_cast<float>(1 / std::sqrt(a.correction2)),
      .eps = static_cast<float>(a.eps),
  };
}

}  // namespace

void adamw_step(const AdamW& a) {
  const AdamWNumbers numbers = numbers_of(a);
  parallel_elements(a.n, [&](std::int64_t first, std::int64_t count) {
    functions().adamw(a.p + first, a.g + first, a.m + first, a.v + first,
                      a.p_bf16 ? a.p_bf16 + first : nullptr, count, numbers);
  });
}

void adamw_rows_step(const AdamWRows& a) {
  if (a.width == 0) return;
  const AdamW& t = a.table;
  const AdamWNumbers numbers = numbers_of(t);
  const std::int64_t rows = t.n / a.width;
  const std::int32_t* ids_end = std::lower_bound(a.ids, a.ids + a.slots, rows);
  // Uses zeros without a gradient.
  auto update = [&](std::int64_t row, std::int64_t count, const float* g) {
    const std::int64_t first = row * a.width;
    functions().adamw(t.p + first, g, t.m + first, t.v + first,
                      t.p_bf16 ? t.p_bf16 + first : nullptr, count * a.width, numbers);
  };
  const std::int64_t min_rows = std::max<std::int64_t>(1, 8192 / a.width);
  if (a.lazy) {
    parallel_ranges(ids_end - a.ids, min_rows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin; slot < end; ++slot)
        update(a.ids[slot], 1, t.g + slot * a.width);
    });
    return;
  }
  parallel_ranges(rows, min_rows, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t row = begin;
    for (const std::int32_t* id = std::lower_bound(a.ids, ids_end, begin);
         id < ids_end && *id < end; ++id) {
      if (*id > row) update(row, *id - row, nullptr);
      update(*id, 1, t.g + (id - a.ids) * a.width);
      row = *id + 1;
    }
    if (row < end) update(row, end - row, nullptr);
  });
}

double sum_of_squares(const float* x, std::int64_t n) {
  std::array<double, kMaxChunks> partial;
  const std::int64_t chunk = chunk_elements(n);
  parallel_tasks(num_chunks(n), [&](std::int64_t task) {
    partial[static_cast<std::size_t>(task)] =
        functions().sum_of_squares(x + task * chunk, std::min(chunk, n - task * chunk));
  });
  double sum = 0;
  for (std::int64_t task = 0; task < num_chunks(n); ++task)
    sum += partial[static_cast<std::size_t>(task)];
  return sum;
}

}  // namespace lamina::cpu
