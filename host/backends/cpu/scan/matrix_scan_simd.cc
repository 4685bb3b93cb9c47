// The matrix scan forward, in chunks and token by token, and the table of its functions.
#include "backends/cpu/scan/matrix_backward.h"
#include "backends/cpu/scan/matrix_chunk.h"

namespace lamina::cpu {
namespace {

std::int64_t valid_tokens(const MatrixScanForward& p, std::int64_t b) {
  if (p.count == nullptr) return p.tokens;
  return p.count[b] < p.tokens ? (p.count[b] > 0 ? p.count[b] : 0) : p.tokens;
}

void write_zeros(const MatrixScanForward& p, std::int64_t b, std::int64_t from, std::int64_t n) {
  static constexpr float kZeros[kLanes] = {};
  for (std::int64_t t = from; t < p.tokens; ++t)
    for (std::int64_t i = 0; i < p.value_width; i += kLanes)
      store_row(p.y.data, p.y.dtype, value_row(p, b, t, n) + i,
                p.value_width - i < kLanes ? p.value_width - i : kLanes, kZeros);
}

void forward(const MatrixScanForward& p, std::int64_t b, std::int64_t n, float* scratch) {
  Arena memory(scratch);
  MatrixChunk c(p, memory);
  const MatrixScanSizes& s = c.s;
  float *o = memory.take<float>(s.rows * s.values), *state = memory.take<float>(s.state);
  const std::int64_t end = valid_tokens(p, b);
  float* kept =
      p.state == nullptr ? nullptr : p.state + (b * p.heads + n) * p.key_width * p.value_width;
  clear(state, s.state);
  for (std::int64_t h = 0; kept != nullptr && p.start[b] != 0 && h < p.key_width; ++h)
    load_row(kept, DType::f32, h * p.value_width, p.value_width, s.values, state + h * s.values);
  for (std::int64_t t = 0; t < end;) {
    const TokenChunk chunk = chunk_at<kC>(p, b, t, end);
    if (t > 0 && chunk.fresh) clear(state, s.state);
    c.load_operands(b, n, chunk);
    c.decay(chunk);
    c.correct(chunk, state, o);
    multiply({kC, s.values, s.rows}, {c.m, s.rows}, c.u, o, s.values, Store::add);
    for (std::int64_t i = 0; i < chunk.size; ++i)
      store_row(p.y.data, p.y.dtype, value_row(p, b, t + i, n), p.value_width, o + i * s.values);
    c.advance(state);
    t += chunk.size;
  }
  write_zeros(p, b, end, n);
  for (std::int64_t h = 0; kept != nullptr && end > 0 && h < p.key_width; ++h)
    store_row(kept, DType::f32, h * p.value_width, p.value_width, state + h * s.values);
}

// Computes one token of one head by strips of columns. A strip of the state stays in the first
// cache between its two uses, so the state is read from memory and written once.
struct MatrixToken {
  const float *q, *k, *a, *b, *decay, *v;  // b: times decay where it reads the decayed state
  float *y, *state;
  std::int64_t key_width, value_width;

  template <bool kRankOne, bool kReadBefore, int kVectors>
  LAMINA_SIMD void strip(std::int64_t column, int last) const {
    const auto some = [&](int i) { return i + 1 == kVectors ? last : kLanes; };
    Float known[kVectors], answer[kVectors], value[kVectors];
    for (int i = 0; i < kVectors; ++i) {
      known[i] = answer[i] = splat(0.0f);
      value[i] = load(v + column + i * kLanes);
    }
    for (std::int64_t h = 0; kRankOne && h < key_width; ++h) {
      const float* row = state + h * value_width + column;
      const Float key = splat(b[h]);
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i)
        known[i] = fma(load_some(row + i * kLanes, some(i)), key, known[i]);
    }
    for (std::int64_t h = 0; h < key_width; ++h) {
      float* row = state + h * value_width + column;
      const Float key = splat(k[h]), query = splat(q[h]), left = splat(decay[h]);
      const Float change = splat(kRankOne ? a[h] : 0.0f);
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i) {
        const Float before = load_some(row + i * kLanes, some(i));
        Float after = fma(key, value[i], before * left);
        if (kRankOne) after = fma(change, known[i], after);
        store_some(row + i * kLanes, after, some(i));
        answer[i] = fma(kReadBefore ? before : after, query, answer[i]);
      }
    }
    for (int i = 0; i < kVectors; ++i) store(y + column + i * kLanes, answer[i]);
  }

  template <bool kRankOne, bool kReadBefore>
  void run() const {
    constexpr std::int64_t kStrip = 4 * kLanes;
    std::int64_t column = 0;
    for (; column + kStrip <= value_width; column += kStrip)
      strip<kRankOne, kReadBefore, 4>(column, kLanes);
    for (; column < value_width; column += kLanes)
      strip<kRankOne, kReadBefore, 1>(
          column, static_cast<int>(value_width - column < kLanes ? value_width - column : kLanes));
  }
};

void recurrent(const MatrixScanForward& p, std::int64_t b, std::int64_t n, float* scratch) {
  const MatrixScanSizes s(p);
  Arena memory(scratch);
  float *q = memory.take<float>(s.keys), *k = memory.take<float>(s.keys);
  float *a = memory.take<float>(s.keys), *erase = memory.take<float>(s.keys);
  float* decay = memory.take<float>(s.keys);
  float *v = memory.take<float>(s.values), *y = memory.take<float>(s.values);
  const std::int64_t state_size = p.key_width * p.value_width, end = valid_tokens(p, b);
  float* state = p.state + (b * p.heads + n) * state_size;
  if (end > 0 && p.start[b] == 0)
    for (std::int64_t i = 0; i < state_size; ++i) state[i] = 0;
  const auto load_key = [&](const KeyNumbers& from, std::int64_t t, float* to) {
    load_row(from.data, from.dtype, key_row(p, from, b, t, n), p.key_width, s.keys, to);
  };
  for (std::int64_t t = 0; t < end; ++t) {
    load_key(p.q, t, q);
    times(q, p.scale, s.keys, q);
    load_key(p.k, t, k);
    load_decay(p, b, t, n, s.keys, decay);
    if (p.rank_one) {
      load_key(p.a, t, a);
      load_key(p.b, t, erase);
      for (std::int64_t h = 0; p.decay_first && h < s.keys; h += kLanes)
        store(erase + h, load(erase + h) * load(decay + h));
    }
    load_row(p.v.data, p.v.dtype, value_row(p, b, t, n), p.value_width, s.values, v);
    const MatrixToken token{q, k, a, erase, decay, v, y, state, p.key_width, p.value_width};
    if (p.rank_one)
      p.read_before ? token.run<true, true>() : token.run<true, false>();
    else
      p.read_before ? token.run<false, true>() : token.run<false, false>();
    store_row(p.y.data, p.y.dtype, value_row(p, b, t, n), p.value_width, y);
  }
  write_zeros(p, b, end, n);
}

constexpr MatrixScanFunctions kFunctions = {
    .forward = forward,
    .recurrent = recurrent,
    .backward = [](const MatrixScanBackward& p, std::int64_t b, std::int64_t n,
                   float* scratch) { MatrixGradient(p, b, n, scratch).run(); },
};

}  // namespace

constinit const MatrixScanFunctions MatrixScanFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
