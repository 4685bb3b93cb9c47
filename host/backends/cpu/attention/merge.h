// Merges the partial results of rows whose keys were split between tasks. Internal to each file
// that includes it.
#pragma once

#include "backends/cpu/attention/tiles.h"

namespace lamina::cpu {
namespace {

// Results of one split: o is not yet divided by the sum; the maximum is in units of log2.
struct Partials {
  float *o, *max, *sum;  // o [batch, kv_head, split, row, v_dim], the others without v_dim
};

inline Partials take_partials(Arena& arena, const AttentionSpec& spec, const Sizes& sizes,
                              std::int64_t splits) {
  const std::int64_t rows = spec.batch * spec.kv_heads * splits * sizes.rows;
  Partials p;
  p.o = arena.take<float>(rows * spec.v_dim);
  p.max = arena.take<float>(rows);
  p.sum = arena.take<float>(rows);
  return p;
}

// The splits of a batch row that have results.
struct SplitRange {
  std::int64_t begin, end;
};

inline float sink_log2(const AttentionForwardArgs& args, std::int64_t n) {
  if (!args.sinks) return kMasked;
  const float sink = number_of<float>(args.sinks, args.sinks_dtype, n) * kLog2E;
  return sink > kMasked ? sink : kMasked;
}

inline void store_stats(const AttentionSpec& spec, const AttentionForwardArgs& args, std::int64_t b,
                        std::int64_t n, std::int64_t t, float max, float sum) {
  const float none = -__builtin_inff();
  const std::int64_t at = (b * spec.heads + n) * spec.q_tokens + t;
  if (args.lse)
    static_cast<float*>(args.lse)[at] = sum == 0 ? none : max * kLn2 + __builtin_logf(sum);
}

// The splits of one row: its split i is at first + i * stride.
struct PartialRow {
  std::int64_t first, stride;
  SplitRange splits;
  std::int64_t b, n, t;
};

template <class V, class T>
void merge_row(const AttentionSpec& spec, const AttentionForwardArgs& args,
               const Partials& partials, const PartialRow& row) {
  const std::int64_t begin = row.first + row.splits.begin * row.stride;
  const std::int64_t end = row.first + row.splits.end * row.stride;
  float own_max = kMasked;
  for (std::int64_t at = begin; at < end; at += row.stride)
    if (partials.sum[at] != 0 && !(partials.max[at] <= own_max)) own_max = partials.max[at];
  const float sink = sink_log2(args, row.n), max = sink > own_max ? sink : own_max;
  float sum = sink > kMasked ? __builtin_exp2f(sink - max) : 0;
  for (std::int64_t at = begin; at < end; at += row.stride) {
    if (partials.sum[at] == 0) continue;
    float& weight = partials.max[at];  // takes the place of the maximum
    weight = __builtin_exp2f(weight - max);
    sum += partials.sum[at] * weight;
  }
  store_stats(spec, args, row.b, row.n, row.t, max, sum);
  T* o = static_cast<T*>(args.o.data) + row.b * args.o.strides.batch +
         row.t * args.o.strides.token + row.n * args.o.strides.head;
  constexpr std::int64_t kPiece = 64;
  for (std::int64_t h = 0; h < spec.v_dim; h += kPiece) {
    const std::int64_t count = min(kPiece, spec.v_dim - h);
    float piece[kPiece] = {};
    for (std::int64_t at = begin; at < end; at += row.stride) {
      if (partials.sum[at] == 0) continue;
      const float weight = partials.max[at] / sum;
      const float* from = partials.o + at * spec.v_dim + h;
      for (std::int64_t j = 0; j < count; ++j) piece[j] += weight * from[j];
    }
    Operands<V, T, false>::store_row(reinterpret_cast<const Word*>(piece), count, o + h);
  }
}

// Joins the splits of every row in order, then the sink. range(b) returns the splits that have
// results.
template <class V, class T, typename Range>
void merge_partials(const AttentionSpec& spec, const AttentionForwardArgs& args, const Sizes& sizes,
                    std::int64_t splits, const Partials& partials, const Range& range) {
  parallel_ranges(spec.batch * spec.kv_heads * sizes.rows, 8,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      const std::int64_t head = i / sizes.rows, row = i % sizes.rows;
                      const std::int64_t b = head / spec.kv_heads;
                      merge_row<V, T>(spec, args, partials,
                                      {.first = head * splits * sizes.rows + row,
                                       .stride = sizes.rows,
                                       .splits = range(b),
                                       .b = b,
                                       .n = head % spec.kv_heads * sizes.group + row % sizes.group,
                                       .t = row / sizes.group});
                    }
                  });
}

}  // namespace
}  // namespace lamina::cpu
