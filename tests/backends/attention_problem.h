// Random attention problems for tests and the bench: the same numbers in any dtype, and results as
// doubles.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/attention/attention.h"
#include "core/float16.h"
#include "formats/fp8.h"
#include "formats/row_formats.h"

namespace lamina::cpu {

using Doubles = std::vector<double>;

inline std::vector<std::byte> to_bytes(const Doubles& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(size_bytes(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float x = static_cast<float>(values[i]);
    if (dtype == DType::f64) reinterpret_cast<double*>(bytes.data())[i] = values[i];
    if (dtype == DType::f32) reinterpret_cast<float*>(bytes.data())[i] = x;
    if (dtype == DType::bf16) reinterpret_cast<bfloat16*>(bytes.data())[i] = to_bfloat16(x);
  }
  return bytes;
}

inline Doubles to_doubles(const std::vector<std::byte>& bytes, DType dtype) {
  Doubles values(bytes.size() / static_cast<std::size_t>(size_bytes(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::f64) values[i] = reinterpret_cast<const double*>(bytes.data())[i];
    if (dtype == DType::f32) values[i] = reinterpret_cast<const float*>(bytes.data())[i];
    if (dtype == DType::bf16)
      values[i] = to_float(reinterpret_cast<const bfloat16*>(bytes.data())[i]);
  }
  return values;
}

// Standard normal numbers that are exact in bf16, so that every dtype computes the same problem.
inline Doubles random_numbers(std::int64_t count, unsigned seed, double deviation = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(deviation));
  Doubles values(static_cast<std::size_t>(count));
  for (double& x : values) x = to_float(to_bfloat16(normal(engine)));
  return values;
}

struct AttentionProblem {
  AttentionSpec spec;
  Doubles q, k, v, d_o;          // contiguous [batch, tokens, heads, dim]
  Doubles sinks, slopes, table;  // may be empty
  std::vector<std::int32_t> q_positions, k_positions, q_segments, k_segments, q_blocks, k_blocks;
  std::vector<std::int32_t> starts;  // not empty: k and v are a cache
  bool ring = false;

  AttentionMasks masks() const {
    auto pointer = [](const std::vector<std::int32_t>& x) {
      return x.empty() ? nullptr : x.data();
    };
    return {pointer(q_positions), pointer(k_positions), pointer(q_segments),
            pointer(k_segments),  pointer(q_blocks),    pointer(k_blocks)};
  }
};

inline AttentionProblem random_problem(const AttentionSpec& spec, unsigned seed = 1) {
  AttentionProblem p;
  p.spec = spec;
  p.q = random_numbers(spec.batch * spec.q_tokens * spec.heads * spec.qk_dim, seed);
  p.k = random_numbers(spec.batch * spec.kv_tokens * spec.kv_heads * spec.qk_dim, seed + 1);
  p.v = random_numbers(spec.batch * spec.kv_tokens * spec.kv_heads * spec.v_dim, seed + 2);
  p.d_o = random_numbers(spec.batch * spec.q_tokens * spec.heads * spec.v_dim, seed + 3);
  return p;
}

// Rows of a cache in a format of formats/row_formats.h.
struct NumberRows {
  std::vector<std::byte> bytes;
  Doubles values;          // of the numbers and scales
  std::int64_t row_bytes;  // of one head
};

inline NumberRows to_numbers(const Doubles& values, std::int64_t dim, CachedRows cached) {
  const auto& format = *formats::row_format(
      cached == CachedRows::int8 ? formats::RowNumbers::int8 : formats::RowNumbers::e4m3, dim);
  const auto rows = values.size() / static_cast<std::size_t>(dim);
  const auto row_bytes = static_cast<std::size_t>(format.num_bytes);
  NumberRows out{std::vector<std::byte>(rows * row_bytes), {}, format.num_bytes};
  for (std::size_t r = 0; r < rows; ++r) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(r) * dim;
    const std::vector<float> row(begin, begin + dim);
    std::byte* to = out.bytes.data() + r * row_bytes;
    formats::narrow_row(format, row.data(), to);
    float scale;
    std::memcpy(&scale, to, sizeof scale);
    for (std::int64_t i = 0; i < dim; ++i) {
      const auto bits = static_cast<std::uint8_t>(to[formats::kRowScaleBytes + i]);
      const double number = cached == CachedRows::int8 ? static_cast<std::int8_t>(bits)
                                                       : double{formats::kE4m3[bits]};
      out.values.push_back(number * scale);
    }
  }
  return out;
}

struct AttentionResults {
  Doubles o, lse, dq, dk, dv, dsinks, dslopes, dtable;
};

// Runs forward (or cached) and, for problems without a cache, backward, in `dtype`. The query side
// has gaps between its heads, so that strides matter.
inline AttentionResults run_attention(const AttentionProblem& p, DType dtype,
                                      bool backward = true) {
  constexpr std::int64_t kGap = 3;
  AttentionSpec spec = p.spec;
  spec.dtype = dtype;
  spec.slopes = !p.slopes.empty();
  spec.bias_distances = static_cast<std::int64_t>(p.table.size()) / spec.heads;
  const DType real = sum_dtype(dtype);
  const std::int64_t rows = spec.batch * spec.q_tokens * spec.heads;
  auto with_gaps = [&](const Doubles& x, std::int64_t dim) {
    Doubles y(static_cast<std::size_t>(rows * (dim + kGap)), 77.0);
    for (std::int64_t r = 0; r < rows && !x.empty(); ++r)
      std::copy_n(x.begin() + r * dim, dim, y.begin() + r * (dim + kGap));
    return to_bytes(y, dtype);
  };
  auto without_gaps = [&](const std::vector<std::byte>& bytes, std::int64_t dim) {
    const Doubles y = to_doubles(bytes, dtype);
    Doubles x;
    for (std::int64_t r = 0; r < rows; ++r)
      x.insert(x.end(), y.begin() + r * (dim + kGap), y.begin() + r * (dim + kGap) + dim);
    return x;
  };
  const auto q = with_gaps(p.q, spec.qk_dim), d_o = with_gaps(p.d_o, spec.v_dim);
  auto k = to_bytes(p.k, dtype), v = to_bytes(p.v, dtype);
  const auto sinks = to_bytes(p.sinks, real);
  auto o = with_gaps({}, spec.v_dim), dq = with_gaps({}, spec.qk_dim);
  const auto slopes = to_bytes(p.slopes, dtype), table = to_bytes(p.table, dtype);
  auto dk = k, dv = v, dsinks = sinks;
  auto dslopes = to_bytes(p.slopes, real), dtable = to_bytes(p.table, real);
  auto lse = to_bytes(Doubles(static_cast<std::size_t>(rows)), real);
  const auto q_strides = contiguous_strides(spec.q_tokens, spec.heads, spec.qk_dim + kGap);
  const auto o_strides = contiguous_strides(spec.q_tokens, spec.heads, spec.v_dim + kGap);
  auto k_strides = contiguous_strides(spec.kv_tokens, spec.kv_heads, spec.qk_dim);
  auto v_strides = contiguous_strides(spec.kv_tokens, spec.kv_heads, spec.v_dim);
  if (spec.cached != CachedRows::plain) {
    NumberRows keys = to_numbers(p.k, spec.qk_dim, spec.cached);
    NumberRows values = to_numbers(p.v, spec.v_dim, spec.cached);
    k = std::move(keys.bytes), v = std::move(values.bytes);
    k_strides = contiguous_strides(spec.kv_tokens, spec.kv_heads, keys.row_bytes);
    v_strides = contiguous_strides(spec.kv_tokens, spec.kv_heads, values.row_bytes);
  }
  const void* sink_data = p.sinks.empty() ? nullptr : sinks.data();
  const AttentionForwardArgs args{.q = {q.data(), q_strides},
                                  .k = {k.data(), k_strides},
                                  .v = {v.data(), v_strides},
                                  .sinks = sink_data,
                                  .sinks_dtype = real,
                                  .bias = {.slopes = spec.slopes ? slopes.data() : nullptr,
                                           .table = p.table.empty() ? nullptr : table.data(),
                                           .slopes_dtype = dtype,
                                           .table_dtype = dtype},
                                  .masks = p.masks(),
                                  .o = {o.data(), o_strides},
                                  .lse = lse.data()};
  // NaN everywhere: results must not depend on the workspace's contents.
  auto workspace = [](std::size_t bytes) {
    return std::vector<std::uint64_t>(bytes / 8 + 9, 0x7ff8dead7fc1beefull);
  };
  auto aligned = [](std::vector<std::uint64_t>& w) {
    return reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(w.data()) + 63) / 64 *
                                        64);
  };
  AttentionResults results;
  if (!p.starts.empty()) {
    auto w = workspace(attention_cached_workspace_bytes(spec));
    attention_cached(spec, args, {p.starts.data(), p.ring}, aligned(w));
  } else {
    auto w = workspace(attention_forward_workspace_bytes(spec));
    attention_forward(spec, args, aligned(w));
  }
  if (p.starts.empty() && backward) {
    auto w = workspace(attention_backward_workspace_bytes(spec));
    attention_backward(spec,
                       {.q = args.q,
                        .k = args.k,
                        .v = args.v,
                        .o = {o.data(), o_strides},
                        .d_o = {d_o.data(), o_strides},
                        .lse = lse.data(),
                        .sinks = sink_data,
                        .sinks_dtype = real,
                        .bias = args.bias,
                        .masks = args.masks,
                        .dq = {dq.data(), q_strides},
                        .dk = {dk.data(), k_strides},
                        .dv = {dv.data(), v_strides},
                        .dsinks = p.sinks.empty() ? nullptr : dsinks.data(),
                        .dslopes = spec.slopes ? dslopes.data() : nullptr,
                        .dtable = p.table.empty() ? nullptr : dtable.data()},
                       aligned(w));
    results.dq = without_gaps(dq, spec.qk_dim);
    results.dk = to_doubles(dk, dtype);
    results.dv = to_doubles(dv, dtype);
    results.dsinks = to_doubles(dsinks, real);
    results.dslopes = to_doubles(dslopes, real);
    results.dtable = to_doubles(dtable, real);
  }
  results.o = without_gaps(o, spec.v_dim);
  results.lse = to_doubles(lse, real);
  return results;
}

// The largest |a - b| divided by the largest |b|, which counts as at least 0.1 (gradients that
// cancel to zero have only rounding errors); infinities must be equal.
inline double difference(const Doubles& a, const Doubles& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0, largest = 0.1;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i]))
      return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(a[i] - b[i]));
  }
  for (double x : b)
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  return worst / largest;
}

}  // namespace lamina::cpu
