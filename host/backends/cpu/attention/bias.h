// Biases of the logits by the distance of query and key, and their gradients. Internal to each file
// that includes it.
#pragma once

#include "backends/cpu/attention/cells.h"

namespace lamina::cpu {
namespace {

// The bias arrays of one run in f32; null if absent.
struct BiasRule {
  const float *slopes, *table;  // [heads], [heads, distances]
  std::int64_t distances;
  bool any() const { return slopes || table; }
};

// Converts arrays to f32 in the arena if they have another type. An arena without memory only
// counts their sizes.
inline BiasRule take_bias(Arena& arena, const AttentionSpec& spec, const AttentionBias& bias,
                          bool copy) {
  const auto numbers = [&](const void* data, DType dtype, std::int64_t count) -> const float* {
    float* to = arena.take<float>(count);
    if (!copy || dtype == DType::f32) return static_cast<const float*>(data);
    for (std::int64_t i = 0; i < count; ++i) to[i] = number_of<float>(data, dtype, i);
    return to;
  };
  BiasRule rule{nullptr, nullptr, spec.bias_distances};
  if (spec.slopes) rule.slopes = numbers(bias.slopes, bias.slopes_dtype, spec.heads);
  if (spec.bias_distances > 0)
    rule.table = numbers(bias.table, bias.table_dtype, spec.heads * spec.bias_distances);
  return rule;
}

// The bias of each row of a block.
struct RowBias {
  alignas(64) float slope[kTile];
  const float* table[kTile];
};

inline void fill_row_bias(const BiasRule& rule, const Sizes& sizes, std::int64_t kv_head,
                          std::int64_t first_row, std::int64_t count, RowBias& rows) {
  RowCursor row(sizes, first_row);
  for (std::int64_t i = 0; i < kTile; ++i, row.next()) {
    const std::int64_t n = kv_head * sizes.group + (i < count ? row.g : 0);
    rows.slope[i] = rule.slopes ? rule.slopes[n] : 0;
    rows.table[i] = rule.table ? rule.table + n * rule.distances : nullptr;
  }
}

inline std::int32_t table_place(const BiasRule& rule, std::int32_t distance) {
  return static_cast<std::int32_t>(min(distance, rule.distances - 1));
}

template <class V>
LAMINA_SIMD typename V::I distance_of(typename V::I q, typename V::I k) {
  const typename V::I d = q - k;
  return d < V::set_int(0) ? -d : d;
}

// Returns the bias in units of log2, for the distances of one vector and its lanes' rows.
template <class V>
LAMINA_SIMD typename V::F bias_at(const BiasRule& rule, typename V::I distance, typename V::F slope,
                                  const float* const (&table)[V::kLanes]) {
  typename V::F bias{};
  if (rule.slopes) bias -= slope * __builtin_convertvector(distance, typename V::F);
  if (rule.table) {
    typename V::F taken;
    for (int i = 0; i < V::kLanes; ++i) taken[i] = table[i][table_place(rule, distance[i])];
    bias += taken;
  }
  return bias * V::set(kLog2E);
}

// Returns the bias of key j for the rows [lane, lane + lanes) of a block.
template <class V>
LAMINA_SIMD typename V::F bias_of_rows(const BiasRule& rule, const RowBias& rows, const Side& q,
                                       const Side& k, std::int64_t lane, std::int64_t j) {
  const typename V::I distance =
      distance_of<V>(V::load_int(q.position + lane), V::set_int(k.position[j]));
  const float* table[V::kLanes];
  for (int i = 0; i < V::kLanes; ++i) table[i] = rows.table[lane + i];
  return bias_at<V>(rule, distance, V::load(rows.slope + lane), table);
}

// Sums of the gradients of each row's slope, and of the table of each head of a group.
struct BiasSums {
  float *slopes, *table;  // [group], [group, distances]; null if absent
};

// Adds the gradients ds of the logits of key j.
template <class V>
LAMINA_SIMD void add_bias_gradient(const BiasRule& rule, const Sizes& sizes, const Side& q,
                                   const Side& k, std::int64_t first_row, std::int64_t lane,
                                   std::int64_t j, typename V::F ds, const BiasSums& sums) {
  const typename V::I distance =
      distance_of<V>(V::load_int(q.position + lane), V::set_int(k.position[j]));
  RowCursor row(sizes, first_row + lane);
  for (int i = 0; i < V::kLanes && lane + i < q.count; ++i, row.next()) {
    if (ds[i] == 0) continue;  // a masked pair
    if (sums.slopes) sums.slopes[row.g] -= ds[i] * static_cast<float>(distance[i]);
    if (sums.table) sums.table[row.g * rule.distances + table_place(rule, distance[i])] += ds[i];
  }
}

}  // namespace
}  // namespace lamina::cpu
