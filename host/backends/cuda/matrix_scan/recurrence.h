// Linear attention token by token, for kernels: the state of a head is in the registers of threads.
// Columns of a state depend on nothing but the keys, so that several blocks share a head.
//
// A Keys loads the keys of tokens [t0, t0 + count) of a head into shared memory, with all threads
// of the block:
//   keys.load(b, t0, n, count, [&](int i) { return KeyRows{...}; }, padded width)
// Channels beyond the width are zeros, except for decays.
#pragma once

#include "backends/cuda/gpu/typed.h"
#include "backends/cuda/matrix_scan/state.h"

namespace lamina::cuda {
namespace {

struct KeyRows {
  gpu::Shared<float> q, k, decay, a, b;  // q includes the scale; decay = exp(g)
};

// Operands of kTokenTile tokens of a head, and the columns of the block.
struct TokenTile {
  gpu::Shared<float> keys;    // [tokens, kKeyRows, padded]
  gpu::Shared<float> values;  // [tokens, columns]: v or dy
  gpu::Shared<float> results;
  gpu::Shared<std::int32_t> fresh;  // [tokens]: 1 if a document begins
  int padded, columns;

  LAMINA_GPU_FUNCTION TokenTile(const Recurrence& p, gpu::Shared<std::int32_t> marks)
      : fresh(marks), padded(p.lanes * kStateRows), columns(static_cast<int>(p.columns_per_block)) {
    keys = gpu::dynamic_shared<float>();
    values = keys + kTokenTile * kKeyRows * padded;
    results = values + kTokenTile * columns;
  }

  LAMINA_GPU_FUNCTION KeyRows rows(int token) const {
    const gpu::Shared<float> at = keys + token * kKeyRows * padded;
    return {at, at + padded, at + 2 * padded, at + 3 * padded, at + 4 * padded};
  }

  // Loads tokens [t0, t0 + count).
  template <typename Keys>
  LAMINA_GPU_FUNCTION void load(const Recurrence& p, const Keys& from, const StatePlace& at,
                                const gpu::NumberReader& v, std::int64_t t0, int count) const {
    from.load(
        at.b, t0, at.n, count, [&](int i) { return rows(i); }, padded);
    const std::int64_t column = at.first - at.column;  // the first of the block
    const auto value = [&](int i) {
      const std::int64_t t = t0 + i / columns, c = column + i % columns;
      if (c >= p.value_width) return 0.0f;
      return v[((at.b * p.tokens + t) * p.heads + at.n) * p.value_width + c];
    };
    gpu::fetch_then_put(count * columns, value, [&](int i, float x) { values[i] = x; });
    for (int i = gpu::thread_index(); i < count; i += gpu::num_threads())
      fresh[i] = begins_document(p, at.b, t0 + i) ? 1 : 0;
  }
  // Writes the results.
  LAMINA_GPU_FUNCTION void write(const Recurrence& p, const StatePlace& at,
                                 const gpu::NumberWriter& y, std::int64_t t0, int count) const {
    const std::int64_t column = at.first - at.column;
    for (int i = gpu::warp_index(); i < count; i += gpu::num_warps()) {
      const std::int64_t row = ((at.b * p.tokens + t0 + i) * p.heads + at.n) * p.value_width;
      for (int c = gpu::lane(); c < columns; c += gpu::kWarpSize)
        if (column + c < p.value_width) y.set(row + column + c, results[i * columns + c]);
    }
  }

  // True if the state is reset before token t > 0. Before the first token it is zero.
  static LAMINA_GPU_FUNCTION bool begins_document(const Recurrence& p, std::int64_t b,
                                                  std::int64_t t) {
    if (t == 0 || p.segments.value == 0) return false;
    const gpu::Global<const std::int32_t> ids =
        gpu::Global<const std::int32_t>(p.segments) + b * p.tokens;
    return ids[t] != ids[t - 1];
  }
};

// Applies one token to the state, and computes its y if `answers`.
LAMINA_GPU_FUNCTION void apply_token(const Recurrence& p, const KeyRows& keys, int lane,
                                     bool answers, float (&v)[kStateColumns], StatePart& s,
                                     float (&y)[kStateColumns]) {
  float key[kStateRows], decay[kStateRows], known[kStateColumns];
  if (answers && p.read_before) {
    load_rows(p, keys.q, lane, key);
    by_key(p, key, s, y);
  }
  load_rows(p, keys.decay, lane, decay);
  if (p.rank_one == RankOne::none) {
    scale_rows(decay, s);
  } else {
    load_rows(p, keys.b, lane, key);
    if (p.decay_first) scale_rows(decay, s);
    by_key(p, key, s, known);
    if (!p.decay_first) scale_rows(decay, s);
    if (p.rank_one == RankOne::any) {
      load_rows(p, keys.a, lane, key);
      add_outer(key, known, s);
    } else {
      LAMINA_GPU_UNROLL
      for (int c = 0; c < kStateColumns; ++c) v[c] -= known[c];
    }
  }
  load_rows(p, keys.k, lane, key);
  add_outer(key, v, s);
  if (!answers || p.read_before) return;
  load_rows(p, keys.q, lane, key);
  by_key(p, key, s, y);
}

// Computes y of all tokens, if there is one, and the states before the chunks, if they are saved.
template <typename Keys>
LAMINA_GPU_FUNCTION void run_forwards(const Recurrence& p, const Keys& keys) {
  LAMINA_GPU_SHARED(std::int32_t, marks, kTokenTile);
  const StatePlace at = state_place(p);
  const TokenTile tile(p, marks);
  const gpu::NumberReader v(p.v);
  const gpu::NumberWriter y(p.y);
  const bool answers = static_cast<bool>(y);
  std::int64_t end = p.tokens;
  bool started = false;
  if (p.count.value != 0) {
    const std::int64_t count = gpu::Global<const std::int32_t>(p.count)[at.b];
    end = gpu::max(std::int64_t{0}, gpu::min(count, p.tokens));
    started = gpu::Global<const std::int32_t>(p.start)[at.b] != 0;
  }
  StatePart s;
  if (started || (end == 0 && p.state.value != 0))
    load_state(p, at, s);
  else
    clear_state(s);
  for (std::int64_t t0 = 0; t0 < end; t0 += kTokenTile) {
    const int count = static_cast<int>(gpu::min(std::int64_t{kTokenTile}, end - t0));
    if (p.states.value != 0 && t0 % p.chunk == 0) save_state(p, p.states, at, t0 / p.chunk, s);
    tile.load(p, keys, at, v, t0, count);
    gpu::sync();
    for (int i = 0; i < count; ++i) {
      if (tile.fresh[i] != 0) clear_state(s);
      float value[kStateColumns], answer[kStateColumns];
      load_columns(tile.values + (i * tile.columns + at.column), value);
      apply_token(p, tile.rows(i), at.lane, answers, value, s, answer);
      if (answers && at.lane == 0) {
        LAMINA_GPU_UNROLL
        for (int c = 0; c < kStateColumns; ++c)
          tile.results[i * tile.columns + at.column + c] = answer[c];
      }
    }
    gpu::sync();
    if (answers) tile.write(p, at, y, t0, count);
  }
  if (answers && at.lane == 0)
    for (std::int64_t t = end; t < p.tokens; ++t)
      for (int c = 0; c < kStateColumns; ++c)
        if (at.first + c < p.value_width)
          y.set(((at.b * p.tokens + t) * p.heads + at.n) * p.value_width + at.first + c, 0);
  if (p.new_state.value != 0) store_state(p, at, s);
}

// Turns the gradient of the state after a token into the gradient of the state before it.
LAMINA_GPU_FUNCTION void reverse_token(const Recurrence& p, const KeyRows& keys, int lane,
                                       const float (&dy)[kStateColumns], StatePart& flow) {
  float key[kStateRows], decay[kStateRows], known[kStateColumns];
  load_rows(p, keys.q, lane, key);
  if (!p.read_before) add_outer(key, dy, flow);
  load_rows(p, keys.decay, lane, decay);
  if (p.rank_one == RankOne::none) {
    scale_rows(decay, flow);
  } else {
    float change[kStateRows];
    load_rows(p, p.rank_one == RankOne::any ? keys.a : keys.k, lane, change);
    by_key(p, change, flow, known);
    if (p.rank_one == RankOne::delta) {
      LAMINA_GPU_UNROLL
      for (int c = 0; c < kStateColumns; ++c) known[c] = -known[c];
    }
    load_rows(p, keys.b, lane, change);
    if (p.decay_first) add_outer(change, known, flow);
    scale_rows(decay, flow);
    if (!p.decay_first) add_outer(change, known, flow);
  }
  if (p.read_before) add_outer(key, dy, flow);
}

// Saves the gradients of the states after the chunks, which need no states.
template <typename Keys>
LAMINA_GPU_FUNCTION void run_backwards(const Recurrence& p, const Keys& keys) {
  LAMINA_GPU_SHARED(std::int32_t, marks, kTokenTile);
  const StatePlace at = state_place(p);
  const TokenTile tile(p, marks);
  const gpu::NumberReader dy(p.dy);
  StatePart flow;
  clear_state(flow);
  for (std::int64_t t0 = (p.tokens - 1) / kTokenTile * kTokenTile; t0 >= 0; t0 -= kTokenTile) {
    const int count = static_cast<int>(gpu::min(std::int64_t{kTokenTile}, p.tokens - t0));
    if (t0 + count == p.tokens || (t0 + count) % p.chunk == 0)
      save_state(p, p.flows, at, t0 / p.chunk, flow);
    gpu::sync();
    tile.load(p, keys, at, dy, t0, count);
    gpu::sync();
    for (int i = count - 1; i >= 0; --i) {
      float value[kStateColumns];
      load_columns(tile.values + (i * tile.columns + at.column), value);
      reverse_token(p, tile.rows(i), at.lane, value, flow);
      if (tile.fresh[i] != 0) clear_state(flow);
    }
  }
}

}  // namespace
}  // namespace lamina::cuda
