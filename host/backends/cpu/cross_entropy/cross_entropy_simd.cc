// Cross-entropy for one instruction set.
#include "backends/cpu/cross_entropy/cross_entropy.h"
#include "backends/cpu/simd/math.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

constexpr float kNone = -__builtin_inff();

LAMINA_SIMD Float capped(Float x, float cap) {
  return cap > 0 ? splat(cap) * tanh(x / splat(cap)) : x;
}
LAMINA_SIMD float first_lane(Float x) {
  float lanes[kLanes];
  store(lanes, x);
  return lanes[0];
}
// Sets lanes from `count` on to `value`.
LAMINA_SIMD Float with_rest(Float x, int count, float value) {
  return count == kLanes ? x : select(lane_numbers() < splat<Int>(count), x, splat(value));
}

template <typename T>
void add_tile_rows(const CrossEntropyRows& rows, const CrossEntropyTile& tile, std::int64_t begin,
                   std::int64_t end) {
  const std::int64_t n = tile.num_columns;
  for (std::int64_t row = begin; row < end; ++row) {
    if (rows.labels[row] == kIgnoredLabel) continue;
    const T* logits = static_cast<const T*>(tile.logits) + row * tile.row_stride;
    Float largest[2] = {splat(kNone), splat(kNone)};
    for_lanes(n, [&](std::int64_t i, int count) {
      const Float x = with_rest(load_some(logits + i, count), count, kNone);
      Float& best = largest[i / kLanes % 2];
      best = max(best, x);
    });
    // The cap is monotonic, so the largest capped logit is the cap of the largest.
    float best = first_lane(capped(splat(max_lanes(max(largest[0], largest[1]))), tile.soft_cap));
    if (rows.max[row] > best) best = rows.max[row];
    const Float shift = splat(best == kNone ? 0.0f : best);
    Float sums[2] = {splat(0.0f), splat(0.0f)};
    for_lanes(n, [&](std::int64_t i, int count) {
      const Float x = capped(load_some(logits + i, count), tile.soft_cap);
      Float& sum = sums[i / kLanes % 2];
      sum = sum + with_rest(exp(x - shift), count, 0.0f);
    });
    if (rows.total) {
      Float totals[2] = {splat(0.0f), splat(0.0f)};
      for_lanes(n, [&](std::int64_t i, int count) {
        Float& total = totals[i / kLanes % 2];
        total = total + with_rest(capped(load_some(logits + i, count), tile.soft_cap), count, 0.0f);
      });
      rows.total[row] += sum_lanes(totals[0] + totals[1]);
    }
    const float before = rows.sum[row] * first_lane(exp(splat(rows.max[row]) - shift));
    rows.sum[row] = before + sum_lanes(sums[0] + sums[1]);
    rows.max[row] = best;
    const std::int64_t column = rows.labels[row] - tile.first_column;
    if (column >= 0 && column < n)
      rows.target[row] = first_lane(capped(load_partial(logits + column, 1), tile.soft_cap));
  }
}

template <typename T, typename D>
void gradient_rows(const CrossEntropyRows& rows, const CrossEntropyTile& tile,
                   const CrossEntropyGradient& g, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = tile.num_columns;
  for (std::int64_t row = begin; row < end; ++row) {
    const T* logits = static_cast<const T*>(tile.logits) + row * tile.row_stride;
    D* dlogits = static_cast<D*>(g.dlogits) + row * g.row_stride;
    if (rows.labels[row] == kIgnoredLabel) {
      for_lanes(n, [&](std::int64_t i, int count) { store_some(dlogits + i, splat(0.0f), count); });
      continue;
    }
    const float scale = g.row_scale ? g.scale * g.row_scale[row] : g.scale;
    const float rest =
        g.uniform == 0 ? 0.0f : g.scale * g.uniform / static_cast<float>(g.vocabulary);
    const float lse = rows.max[row] + first_lane(log(splat(rows.sum[row])));
    // d loss / d logit = p (1 + 2 z lse + uniform) - [label] - uniform / V, times 1 - tanh^2 with a
    // cap. Computes exp(y - max) / sum instead of exp(y - lse), because lse loses digits when
    // logits are large.
    const Float largest = splat(rows.max[row]);
    const bool plain = !g.row_scale && g.uniform == 0;
    const Float weight = splat((plain ? scale * (1.0f + 2.0f * g.z_loss * lse)
                                      : scale + g.scale * (g.uniform + 2.0f * g.z_loss * lse)) /
                               rows.sum[row]);
    const std::int64_t column = rows.labels[row] - tile.first_column;
    const auto gradient_of = [&](Float x, Float hit) {
      const Float y = capped(x, tile.soft_cap);
      Float d = fma(exp(y - largest), weight, -hit);
      if (tile.soft_cap > 0) {
        const Float t = y / splat(tile.soft_cap);
        d = d * (splat(1.0f) - t * t);
      }
      return d;
    };
    // Must precede the loop, which may overwrite the logit.
    const bool here = column >= 0 && column < n;
    const Float target =
        here ? gradient_of(load_partial(logits + column, 1), splat(scale + rest)) : splat(0.0f);
    for_lanes(n, [&](std::int64_t i, int count) {
      store_some(dlogits + i, gradient_of(load_some(logits + i, count), splat(rest)), count);
    });
    if (here) store_partial(dlogits + column, target, 1);
  }
}

void add_tile(const CrossEntropyRows& rows, const CrossEntropyTile& tile, std::int64_t begin,
              std::int64_t end) {
  if (tile.dtype == DType::f32) return add_tile_rows<float>(rows, tile, begin, end);
  add_tile_rows<bfloat16>(rows, tile, begin, end);
}

void gradient(const CrossEntropyRows& rows, const CrossEntropyTile& tile,
              const CrossEntropyGradient& g, std::int64_t begin, std::int64_t end) {
  if (tile.dtype == DType::f32)
    return g.dtype == DType::f32 ? gradient_rows<float, float>(rows, tile, g, begin, end)
                                 : gradient_rows<float, bfloat16>(rows, tile, g, begin, end);
  return g.dtype == DType::f32 ? gradient_rows<bfloat16, float>(rows, tile, g, begin, end)
                               : gradient_rows<bfloat16, bfloat16>(rows, tile, g, begin, end);
}

constexpr CrossEntropyFunctions kFunctions = {.add_tile = add_tile, .gradient = gradient};

}  // namespace

constinit const CrossEntropyFunctions CrossEntropyFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
