// One chunk of a matrix scan: its operands, the operands after decays, and the corrections of rank
// one. Internal to each file that includes it. Uses the letters of matrix_scan.h.
#pragma once

#include "backends/cpu/scan/chunks.h"
#include "backends/cpu/scan/matrix_scan.h"
#include "backends/cpu/simd/math.h"
#include "backends/cpu/simd/memory.h"
#include "backends/cpu/threads/scratch.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kC = kMatrixChunk;

// Returns the beginning of the row of a token and head of x.
std::int64_t key_row(const MatrixScan& p, const KeyNumbers& x, std::int64_t b, std::int64_t t,
                     std::int64_t n) {
  return ((b * p.tokens + t) * x.heads + n / (p.heads / x.heads)) * p.key_width;
}
std::int64_t value_row(const MatrixScan& p, std::int64_t b, std::int64_t t, std::int64_t n) {
  return ((b * p.tokens + t) * p.heads + n) * p.value_width;
}

// Loads exp(g) of a token, in every channel.
void load_decay(const MatrixScan& p, std::int64_t b, std::int64_t t, std::int64_t n,
                std::int64_t keys, float* to) {
  const std::int64_t at = (b * p.tokens + t) * p.heads + n;
  if (!p.per_channel) {
    fill(to, keys, exponential(number_at(p.g.data, p.g.dtype, at)));
    return;
  }
  load_row(p.g.data, p.g.dtype, at * p.key_width, p.key_width, keys, to);
  for (std::int64_t h = 0; h < keys; h += kLanes) store(to + h, exp(load(to + h)));
}

// Rows [0, 16) belong to q, k, y and v, rows [16, 32) to b, a and w. Rows beyond the chunk are
// zeros.
struct MatrixChunk {
  const MatrixScan& p;
  const MatrixScanSizes s;
  float *x, *z;                  // [rows, keys]: q scaled, b; k, a
  float *x_decayed, *z_decayed;  // from the chunk's beginning, to its end
  float* e;                      // [16, keys]
  float* total;                  // [keys]: the product of e
  float* m;                      // [rows, rows]
  float* u;                      // [rows, values]: v, w

  MatrixChunk(const MatrixScan& params, Arena& memory)
      : p(params),
        s(params),
        x(memory.take<float>(s.rows * s.keys)),
        z(memory.take<float>(s.rows * s.keys)),
        x_decayed(memory.take<float>(s.rows * s.keys)),
        z_decayed(memory.take<float>(s.rows * s.keys)),
        e(memory.take<float>(kC * s.keys)),
        total(memory.take<float>(s.keys)),
        m(memory.take<float>(s.rows * s.rows)),
        u(memory.take<float>(s.rows * s.values)) {}

  void load_operands(std::int64_t b, std::int64_t n, const TokenChunk& chunk) {
    load_keys(p.q, b, n, chunk, p.scale, x);
    load_keys(p.k, b, n, chunk, 1, z);
    if (p.rank_one) {
      load_keys(p.b, b, n, chunk, 1, x + kC * s.keys);
      load_keys(p.a, b, n, chunk, 1, z + kC * s.keys);
    }
    for (std::int64_t i = 0; i < chunk.size; ++i) {
      load_decay(p, b, chunk.t + i, n, s.keys, e + i * s.keys);
      load_row(p.v.data, p.v.dtype, value_row(p, b, chunk.t + i, n), p.value_width, s.values,
               u + i * s.values);
    }
    clear(u + chunk.size * s.values, (s.rows - chunk.size) * s.values);
  }

  // Computes the decayed operands, total and M. REQUIRES: the operands are loaded.
  void decay(const TokenChunk& chunk) {
    fill(total, s.keys, 1);
    clear(m, s.rows * s.rows);
    copy(x, s.rows * s.keys, x_decayed);
    copy(z, s.rows * s.keys, z_decayed);
    for (std::int64_t t = 0; t < chunk.size; ++t) {
      decay_rows(t, true);
      for (std::int64_t h = 0; h < s.keys; h += kLanes)
        store(total + h, load(total + h) * load(e + t * s.keys + h));
      decay_rows(t, false);
      for (std::int64_t part = 0; part < s.rows; part += kC) {
        for (std::int64_t j = part; j < part + t; ++j) meet(t, j);
        if (!p.read_before)
          m[t * s.rows + part + t] = dot(x + t * s.keys, z + (part + t) * s.keys, s.keys);
      }
    }
  }

  // Computes x_decayed S of all rows in o[rows, values], then w in u. S: [keys, values].
  void correct(const TokenChunk& chunk, const float* state, float* o) {
    multiply({s.rows, s.values, s.keys}, {x_decayed, s.keys}, state, o, s.values, Store::scaled);
    if (!p.rank_one) return;
    float* w = u + kC * s.values;
    float* known = o + kC * s.values;
    const float* triangle = m + kC * s.rows;
    multiply({kC, s.values, kC}, {triangle, s.rows}, u, known, s.values, Store::add);
    for (std::int64_t t = 0; t < chunk.size; ++t)
      for (std::int64_t c = 0; c < s.values; c += kLanes) {
        Float sum = load(known + t * s.values + c);
        for (std::int64_t j = 0; j < t; ++j)
          sum = fma(splat(triangle[t * s.rows + kC + j]), load(w + j * s.values + c), sum);
        store(w + t * s.values + c, sum);
      }
  }

  // Computes the state after the chunk.
  void advance(float* state) const {
    scale_rows(state);
    multiply({s.keys, s.values, s.rows}, across(z_decayed, s.keys), u, state, s.values, Store::add);
  }

  // Multiplies row h by total[h].
  void scale_rows(float* state) const {
    for (std::int64_t h = 0; h < s.keys; ++h)
      times(state + h * s.values, total[h], s.values, state + h * s.values);
  }

 private:
  void load_keys(const KeyNumbers& from, std::int64_t b, std::int64_t n, const TokenChunk& chunk,
                 float by, float* to) const {
    for (std::int64_t i = 0; i < chunk.size; ++i, to += s.keys) {
      load_row(from.data, from.dtype, key_row(p, from, b, chunk.t + i, n), p.key_width, s.keys, to);
      if (by != 1) times(to, by, s.keys, to);
    }
    clear(to, (kC - chunk.size) * s.keys);
  }

  // Rows of token t that read the state before its decay (or after it) times the product so far.
  void decay_rows(std::int64_t t, bool before) {
    if (p.read_before == before) decay_row(t);
    if (p.rank_one && p.decay_first != before) decay_row(kC + t);
  }
  void decay_row(std::int64_t i) {
    float* row = x_decayed + i * s.keys;
    for (std::int64_t h = 0; h < s.keys; h += kLanes)
      store(row + h, load(row + h) * load(total + h));
  }

  // Applies the decay of token t to column j, of an earlier token, and multiplies it with q and b
  // of t.
  void meet(std::int64_t t, std::int64_t j) {
    float* column = z_decayed + j * s.keys;
    const float *decay = e + t * s.keys, *q = x + t * s.keys, *b = q + kC * s.keys;
    Float by_q = splat(0.0f), by_b = splat(0.0f);
    for (std::int64_t h = 0; h < s.keys; h += kLanes) {
      const Float before = load(column + h), after = before * load(decay + h);
      store(column + h, after);
      by_q = fma(p.read_before ? before : after, load(q + h), by_q);
      if (p.rank_one) by_b = fma(p.decay_first ? after : before, load(b + h), by_b);
    }
    m[t * s.rows + j] = sum_lanes(by_q);
    if (p.rank_one) m[(kC + t) * s.rows + j] = sum_lanes(by_b);
  }
};

}  // namespace
}  // namespace lamina::cpu
