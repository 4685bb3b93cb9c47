// The gated delta rule forward, in chunks and token by token, and the table of its functions.
#include "backends/cpu/delta_rule/backward.h"
#include "backends/cpu/delta_rule/chunk.h"

namespace lamina::cpu {
namespace {

std::int64_t valid_tokens(const DeltaRuleForward& p, std::int64_t b) {
  if (p.count == nullptr) return p.tokens;
  return p.count[b] < p.tokens ? (p.count[b] > 0 ? p.count[b] : 0) : p.tokens;
}

void write_zeros(const DeltaRuleForward& p, std::int64_t b, std::int64_t t, std::int64_t n) {
  static constexpr float kZeros[kLanes] = {};
  const std::int64_t first = ((b * p.tokens + t) * p.heads + n) * p.value_width;
  for (std::int64_t i = 0; i < p.value_width; i += kLanes)
    store_row(p.y.data, p.y.dtype, first + i,
              p.value_width - i < kLanes ? p.value_width - i : kLanes, kZeros);
}

class DeltaForward {
 public:
  DeltaForward(const DeltaRuleForward& p, std::int64_t b, std::int64_t head, float* scratch)
      : p_(p),
        s_(p),
        b_(b),
        key_head_(head),
        memory_(scratch),
        keys_(s_, memory_),
        head_(s_, memory_),
        y_(memory_.take<float>(s_.value_rows)),
        states_(memory_.take<float>(s_.heads * s_.state)) {}

  void run() {
    const std::int64_t end = valid_tokens(p_, b_);
    if (end > 0) load_states();
    for (std::int64_t t = 0; t < end;) {
      const TokenChunk chunk = chunk_at<kC>(p_, b_, t, end);
      if (t > 0 && chunk.fresh) clear(states_, s_.heads * s_.state);
      keys_.prepare(p_, s_, b_, key_head_, chunk);
      for (std::int64_t r = 0; r < s_.heads; ++r) run_head(chunk, r);
      t += chunk.size;
    }
    for (std::int64_t r = 0; r < s_.heads; ++r)
      for (std::int64_t t = end; t < p_.tokens; ++t) write_zeros(p_, b_, t, head_of(r));
    if (end > 0 && p_.state != nullptr) store_states();
  }

 private:
  std::int64_t head_of(std::int64_t r) const { return key_head_ * s_.heads + r; }
  std::int64_t state_row(std::int64_t r, std::int64_t row) const {
    return ((b_ * p_.heads + head_of(r)) * p_.key_width + row) * p_.value_width;
  }

  void load_states() {
    clear(states_, s_.heads * s_.state);
    if (p_.state == nullptr || p_.start[b_] == 0) return;
    for (std::int64_t r = 0; r < s_.heads; ++r)
      for (std::int64_t row = 0; row < p_.key_width; ++row)
        load_row(p_.state, DType::f32, state_row(r, row), p_.value_width, s_.values,
                 states_ + r * s_.state + row * s_.values);
  }
  void store_states() {
    for (std::int64_t r = 0; r < s_.heads; ++r)
      for (std::int64_t row = 0; row < p_.key_width; ++row)
        store_row(p_.state, DType::f32, state_row(r, row), p_.value_width,
                  states_ + r * s_.state + row * s_.values);
  }

  // Computes one chunk of head r.
  void run_head(const TokenChunk& chunk, std::int64_t r) {
    const std::int64_t n = head_of(r), values = s_.values;
    float* state = states_ + r * s_.state;
    head_.load_numbers(p_, s_, b_, n, chunk);
    head_.make_triangles(keys_, chunk, nullptr);
    head_.make_corrections(p_, s_, b_, n, chunk, keys_, state, nullptr);
    multiply({chunk.size, values, s_.keys}, {keys_.q, s_.keys}, state, y_, values, Store::scaled);
    for (std::int64_t i = 0; i < chunk.size; ++i)
      times(y_ + i * values, head_.decay[i], values, y_ + i * values);
    for (std::int64_t i0 = 0; i0 < chunk.size; i0 += kLanes) {
      const std::int64_t i1 = chunk.size < i0 + kLanes ? chunk.size : i0 + kLanes;
      multiply({i1 - i0, values, i1}, {head_.m + i0 * kC, kC}, head_.u, y_ + i0 * values, values,
               Store::add);
    }
    for (std::int64_t i = 0; i < chunk.size; ++i)
      store_row(p_.y.data, p_.y.dtype,
                ((b_ * p_.tokens + chunk.t + i) * p_.heads + n) * p_.value_width, p_.value_width,
                y_ + i * values);
    head_.advance(s_, chunk, keys_, state);
  }

  const DeltaRuleForward& p_;
  const DeltaSizes s_;
  const std::int64_t b_, key_head_;
  Arena memory_;
  DeltaKeys keys_;
  DeltaHead head_;
  float *y_, *states_;
};

// Computes one token of one head by strips of columns. A strip of the state stays in the first
// cache between its two uses, so the state is read from memory and written once.
struct DeltaToken {
  const float *q, *k, *v;
  float *y, *state;
  std::int64_t key_width, value_width;
  float decay, beta;

  template <int kVectors>
  LAMINA_SIMD void strip(std::int64_t column, int last) const {
    const auto some = [&](int i) { return i + 1 == kVectors ? last : kLanes; };
    Float known[kVectors], answer[kVectors];
    for (int i = 0; i < kVectors; ++i) known[i] = answer[i] = splat(0.0f);
    for (std::int64_t h = 0; h < key_width; ++h) {
      const float* row = state + h * value_width + column;
      const Float key = splat(k[h]);
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i)
        known[i] = fma(load_some(row + i * kLanes, some(i)), key, known[i]);
    }
    Float learnt[kVectors];
    for (int i = 0; i < kVectors; ++i)
      learnt[i] = fma(known[i], splat(-decay), load(v + column + i * kLanes)) * splat(beta);
    for (std::int64_t h = 0; h < key_width; ++h) {
      float* row = state + h * value_width + column;
      const Float key = splat(k[h]), query = splat(q[h]);
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i) {
        const Float old = load_some(row + i * kLanes, some(i)) * splat(decay);
        const Float now = fma(key, learnt[i], old);
        store_some(row + i * kLanes, now, some(i));
        answer[i] = fma(now, query, answer[i]);
      }
    }
    for (int i = 0; i < kVectors; ++i) store(y + column + i * kLanes, answer[i]);
  }

  void run() const {
    constexpr std::int64_t kStrip = 4 * kLanes;
    std::int64_t column = 0;
    for (; column + kStrip <= value_width; column += kStrip) strip<4>(column, kLanes);
    for (; column < value_width; column += kLanes)
      strip<1>(column,
               static_cast<int>(value_width - column < kLanes ? value_width - column : kLanes));
  }
};

void recurrent(const DeltaRuleForward& p, std::int64_t b, std::int64_t n, float* scratch) {
  const DeltaSizes s(p);
  Arena memory(scratch);
  float *q = memory.take<float>(s.keys), *k = memory.take<float>(s.keys);
  float *v = memory.take<float>(s.values), *y = memory.take<float>(s.values);
  const std::int64_t state_size = p.key_width * p.value_width, end = valid_tokens(p, b);
  float* state = p.state + (b * p.heads + n) * state_size;
  if (end > 0 && p.start[b] == 0)
    for (std::int64_t i = 0; i < state_size; ++i) state[i] = 0;
  const auto load_key = [&](const ConstNumbers& from, std::int64_t t, float scale, float* to) {
    const std::int64_t row = (b * p.tokens + t) * p.key_heads + n / s.heads;
    load_row(from.data, from.dtype, row * p.key_width, p.key_width, s.keys, to);
    if (p.normalize) scale *= one_over_root(dot(to, to, s.keys) + kLengthEps);
    times(to, scale, s.keys, to);
  };
  for (std::int64_t t = 0; t < end; ++t) {
    const std::int64_t at = (b * p.tokens + t) * p.heads + n;
    load_key(p.q, t, p.scale, q);
    load_key(p.k, t, 1, k);
    load_row(p.v.data, p.v.dtype, at * p.value_width, p.value_width, s.values, v);
    DeltaToken{.q = q,
               .k = k,
               .v = v,
               .y = y,
               .state = state,
               .key_width = p.key_width,
               .value_width = p.value_width,
               .decay = exponential(number_at(p.g.data, p.g.dtype, at)),
               .beta = number_at(p.beta.data, p.beta.dtype, at)}
        .run();
    store_row(p.y.data, p.y.dtype, at * p.value_width, p.value_width, y);
  }
  for (std::int64_t t = end; t < p.tokens; ++t) write_zeros(p, b, t, n);
}

constexpr DeltaRuleFunctions kFunctions = {
    .forward = [](const DeltaRuleForward& p, std::int64_t b, std::int64_t h,
                  float* scratch) { DeltaForward(p, b, h, scratch).run(); },
    .recurrent = recurrent,
    .backward = [](const DeltaRuleBackward& p, std::int64_t b, std::int64_t h,
                   float* scratch) { DeltaGradient(p, b, h, scratch).run(); },
};

}  // namespace

constinit const DeltaRuleFunctions DeltaRuleFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
