// The gated delta rule backward: states are recomputed forwards, and the gradients are computed
// from the last chunk to the first. Internal to each file that includes it.
//
// With dU, dM, ... the gradients of U, M, ... in delta_rule.h, S the state before the chunk and S'
// after it, and L the lower triangle of its first equation:
//   dU = M^T dy + k exp(G_C - G) dS'        dR = (I + L)^-T dU (the gradient of the right side)
//   dL = -dR U^T   dM = dy U^T              (both below the diagonal)
//   dS = exp(G_C) dS' + (exp(G) q)^T dy - k^T (beta exp(G) dR)
#pragma once

#include "backends/cpu/delta_rule/chunk.h"

namespace lamina::cpu {
namespace {

class DeltaGradient {
 public:
  DeltaGradient(const DeltaRuleBackward& p, std::int64_t b, std::int64_t head, float* scratch)
      : p_(p),
        s_(p),
        b_(b),
        key_head_(head),
        memory_(scratch),
        keys_(s_, memory_),
        head_(s_, memory_),
        states_(memory_.take<float>(s_.heads * s_.state)),
        dstates_(memory_.take<float>(s_.heads * s_.state)),
        saved_(memory_.take<float>(s_.num_saved * s_.heads * s_.state)),
        state_across_(memory_.take<float>(s_.state)),
        dstate_across_(memory_.take<float>(s_.state)),
        raw_(memory_.take<float>(s_.value_rows)),
        dy_(memory_.take<float>(s_.value_rows)),
        du_(memory_.take<float>(s_.value_rows)),
        dz_(memory_.take<float>(s_.value_rows)),
        u_across_(memory_.take<float>(s_.value_rows)),
        row_(memory_.take<float>(s_.key_rows)),
        dq_(memory_.take<float>(s_.key_rows)),
        dk_(memory_.take<float>(s_.key_rows)),
        between_(memory_.take<float>(DeltaSizes::kSquare)),
        dm_(memory_.take<float>(DeltaSizes::kSquare)),
        dl_(memory_.take<float>(DeltaSizes::kSquare)),
        dsums_(memory_.take<float>(kC)),
        dbeta_(memory_.take<float>(kC)) {}

  void run() {
    std::int64_t num_saved = save_states();
    for (std::int64_t end = p_.tokens; end > 0;) {
      const TokenChunk chunk = chunk_before<kC>(p_, b_, end);
      const std::int64_t all = s_.heads * s_.state;
      // The next document has no gradient for this state.
      if (end == p_.tokens || begins_document(p_, b_, end)) clear(dstates_, all);
      if (chunk.fresh)
        clear(states_, all);
      else
        copy(saved_ + --num_saved * all, all, states_);
      keys_.prepare(p_, s_, b_, key_head_, chunk);
      clear(dq_, chunk.padded() * s_.keys);
      clear(dk_, chunk.padded() * s_.keys);
      for (std::int64_t r = 0; r < s_.heads; ++r) go_back(chunk, r);
      write_key_rows(chunk, p_.dq, keys_.q, keys_.q_factors, p_.scale, dq_);
      write_key_rows(chunk, p_.dk, keys_.k, keys_.k_factors, 1, dk_);
      end = chunk.t;
    }
  }

 private:
  // Saves the states before chunks that continue a document; returns their number.
  std::int64_t save_states() {
    const std::int64_t all = s_.heads * s_.state;
    std::int64_t count = 0;
    for (std::int64_t t = 0; t < p_.tokens;) {
      const TokenChunk chunk = chunk_at<kC>(p_, b_, t, p_.tokens);
      if (chunk.fresh)
        clear(states_, all);
      else
        copy(states_, all, saved_ + count++ * all);
      t += chunk.size;
      // No token reads the state after the last chunk of a document.
      if (t == p_.tokens || begins_document(p_, b_, t)) continue;
      keys_.prepare(p_, s_, b_, key_head_, chunk);
      for (std::int64_t r = 0; r < s_.heads; ++r) {
        const std::int64_t n = key_head_ * s_.heads + r;
        float* state = states_ + r * s_.state;
        head_.load_numbers(p_, s_, b_, n, chunk);
        head_.make_triangles(keys_, chunk, nullptr);
        head_.make_corrections(p_, s_, b_, n, chunk, keys_, state, nullptr);
        head_.advance(s_, chunk, keys_, state);
      }
    }
    return count;
  }

  // Computes the gradients of head r in a chunk; adds its parts of dq and dk.
  void go_back(const TokenChunk& chunk, std::int64_t r) {
    const std::int64_t n = key_head_ * s_.heads + r, size = chunk.size, values = s_.values;
    const float* state = states_ + r * s_.state;
    float* dstate = dstates_ + r * s_.state;
    head_.load_numbers(p_, s_, b_, n, chunk);
    head_.make_triangles(keys_, chunk, between_);
    head_.make_corrections(p_, s_, b_, n, chunk, keys_, state, raw_);
    head_.decay_keys(s_, chunk, keys_);
    for (std::int64_t i = 0; i < size; ++i)
      load_row(p_.dy.data, p_.dy.dtype, value_row(chunk, i, n), p_.value_width, values,
               dy_ + i * values);
    multiply({size, values, size}, across(head_.m, kC), dy_, du_, values, Store::scaled);
    multiply({size, values, s_.keys}, {head_.k_decayed, s_.keys}, dstate, du_, values, Store::add);
    substitute_back(size);
    clear(dsums_, 2 * kC);
    through_rows(chunk, n);
    through_triangles(chunk);
    through_keys(chunk, state, dstate);
    through_state(chunk, state, dstate);
    // In double, because large parts of the sums of tokens cancel.
    double sum = 0;
    for (std::int64_t i = size; i-- > 0;) {
      const std::int64_t at = (b_ * p_.tokens + chunk.t + i) * p_.heads + n;
      sum += static_cast<double>(dsums_[i]);
      set_number(p_.dg.data, p_.dg.dtype, at, static_cast<float>(sum));
      set_number(p_.dbeta.data, p_.dbeta.dtype, at, dbeta_[i]);
    }
  }

  std::int64_t value_row(const TokenChunk& chunk, std::int64_t i, std::int64_t n) const {
    return ((b_ * p_.tokens + chunk.t + i) * p_.heads + n) * p_.value_width;
  }

  // Turns du_ into dR: solves the transposed triangle from the last row to the first.
  void substitute_back(std::int64_t size) {
    const std::int64_t values = s_.values;
    for (std::int64_t i0 = (size - 1) / kLanes * kLanes; i0 >= 0; i0 -= kLanes) {
      const std::int64_t i1 = size < i0 + kLanes ? size : i0 + kLanes;
      if (i1 < size)
        multiply({i1 - i0, values, size - i1}, across(head_.l + i1 * kC + i0, kC),
                 du_ + i1 * values, du_ + i0 * values, values, Store::add);
      for (std::int64_t i = i1 - 1; i-- > i0;)
        DeltaHead::take_rows(i, i + 1, i1, values, head_.l + i, kC, du_);
    }
  }

  // Computes dv, the first part of dbeta, and dz = -beta exp(G) dR, the gradient of k S.
  void through_rows(const TokenChunk& chunk, std::int64_t n) {
    for (std::int64_t i = 0; i < chunk.size; ++i) {
      const std::int64_t at = i * s_.values;
      dbeta_[i] = dot(du_ + at, raw_ + at, s_.values);
      times(du_ + at, head_.beta[i], s_.values, dz_ + at);
      store_row(p_.dv.data, p_.dv.dtype, value_row(chunk, i, n), p_.value_width, dz_ + at);
      times(dz_ + at, -head_.decay[i], s_.values, dz_ + at);
    }
  }

  // Computes dM and dL, then the gradients of q k^T, k k^T (in their place), G and beta.
  void through_triangles(const TokenChunk& chunk) {
    const std::int64_t size = chunk.size, padded = chunk.padded(), values = s_.values;
    for (std::int64_t i = size; i < padded; ++i) clear(head_.u + i * values, values);
    transpose(head_.u, padded, values, values, u_across_, kC);
    multiply_stored(size, padded, dy_, dm_);
    multiply_stored(size, padded, du_, dl_);
    for (std::int64_t i = 0; i < size; ++i) {
      Float from_others = splat(0.0f), known = splat(0.0f);
      for (std::int64_t j = 0; j < padded; j += kLanes) {
        const std::int64_t at = i * kC + j;
        const Int below = splat<Int>(static_cast<std::int32_t>(i - j));
        const Float between = load(between_ + at), dm = load(dm_ + at), none = splat(0.0f);
        // dL = -dR U^T and l = -L: both signs cancel in dL L.
        const Float dl = select(lane_numbers() < below, load(dl_ + at), none);
        // A token's own product has no decay. It would come and go in dsums_[i], but not exactly.
        const Float flow = select(lane_numbers() < below,
                                  fma(dl, load(head_.l + at), dm * load(head_.m + at)), none);
        from_others = from_others + flow;
        known = fma(dl * between, load(keys_.kk + at), known);
        store(dsums_ + j, load(dsums_ + j) - flow);
        store(dm_ + at, dm * between);
        store(dl_ + at, dl * between * splat(-head_.beta[i]));
      }
      dsums_[i] += sum_lanes(from_others);
      dbeta_[i] -= sum_lanes(known);
    }
  }
  // Sets to = rows U^T.
  void multiply_stored(std::int64_t size, std::int64_t padded, const float* rows, float* to) {
    multiply({size, padded, s_.values}, {rows, s_.values}, u_across_, to, kC, Store::scaled);
  }

  // Computes dq and dk, and the gradient of G through their decays.
  void through_keys(const TokenChunk& chunk, const float* state, const float* dstate) {
    const std::int64_t size = chunk.size, keys = s_.keys, values = s_.values;
    const Size3 inner{size, keys, size}, outer{size, keys, values};
    multiply(inner, {dm_, kC}, keys_.k, dq_, keys, Store::add);
    multiply(inner, across(dm_, kC), keys_.q, dk_, keys, Store::add);
    multiply(inner, {dl_, kC}, keys_.k, dk_, keys, Store::add);
    multiply(inner, across(dl_, kC), keys_.k, dk_, keys, Store::add);
    transpose(dstate, keys, values, values, dstate_across_, keys);
    multiply(outer, {head_.u, values}, dstate_across_, row_, keys, Store::scaled);
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t at = i * keys;
      add_times(row_ + at, head_.rest[i], keys, dk_ + at);
      if (i + 1 == size) break;  // nothing decays after the last token
      const float flow = head_.rest[i] * dot(keys_.k + at, row_ + at, keys);
      dsums_[i] -= flow;
      dsums_[size - 1] += flow;
    }
    if (chunk.fresh) return;  // the remaining terms contain the state, which is 0
    transpose(state, keys, values, values, state_across_, keys);
    multiply(outer, {dy_, values}, state_across_, row_, keys, Store::scaled);
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t at = i * keys;
      add_times(row_ + at, head_.decay[i], keys, dq_ + at);
      dsums_[i] += head_.decay[i] * dot(keys_.q + at, row_ + at, keys);
    }
    multiply(outer, {dz_, values}, state_across_, row_, keys, Store::scaled);
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t at = i * keys;
      add_times(row_ + at, 1, keys, dk_ + at);
      dsums_[i] += dot(keys_.k + at, row_ + at, keys);
    }
  }

  // Computes dS from dS'.
  void through_state(const TokenChunk& chunk, const float* state, float* dstate) {
    if (chunk.fresh) return;
    const Size3 size{s_.keys, s_.values, chunk.size};
    dsums_[chunk.size - 1] += head_.total_decay(chunk) * dot(state, dstate, s_.state);
    multiply(size, across(keys_.k, s_.keys), dz_, dstate, s_.values, Store::rescaled,
             head_.column_factors);
    for (std::int64_t i = 0; i < chunk.size; ++i)
      times(keys_.q + i * s_.keys, head_.decay[i], s_.keys, row_ + i * s_.keys);
    multiply(size, across(row_, s_.keys), dy_, dstate, s_.values, Store::add);
  }

  // Writes the gradients of q or k before scaling (and before division by the length).
  void write_key_rows(const TokenChunk& chunk, const Numbers& to, const float* x,
                      const float* factors, float scale, float* dx) const {
    for (std::int64_t i = 0; i < chunk.size; ++i) {
      const std::int64_t at = i * s_.keys;
      const std::int64_t row = (b_ * p_.tokens + chunk.t + i) * p_.key_heads + key_head_;
      if (p_.normalize)
        add_times(x + at, -dot(x + at, dx + at, s_.keys) / (scale * scale), s_.keys, dx + at);
      times(dx + at, factors[i], s_.keys, dx + at);
      store_row(to.data, to.dtype, row * p_.key_width, p_.key_width, dx + at);
    }
  }

  const DeltaRuleBackward& p_;
  const DeltaSizes s_;
  const std::int64_t b_, key_head_;
  Arena memory_;
  DeltaKeys keys_;
  DeltaHead head_;
  float *states_, *dstates_, *saved_, *state_across_, *dstate_across_;
  float *raw_, *dy_, *du_, *dz_, *u_across_;
  float *row_, *dq_, *dk_;
  float *between_, *dm_, *dl_;
  float *dsums_, *dbeta_;  // contiguous, in this order
};

}  // namespace
}  // namespace lamina::cpu
