// The matrix scan backward: states are recomputed forwards, and the gradients are computed from the
// last chunk to the first. Internal to each file that includes it.
//
// With S the state before a chunk, S' after it and dR the gradient of the right side for w,
//   du = z' dS' + M_q^T dy (+ M_b^T dR),  dR = (I - M_ba)^-T dw,  dM = [dy; dR] u^T,
//   dS = (e_1 ... e_C) dS' + x'^T [dy; dR].
// Gradients through the decays of rows and columns are computed from token to token, in the order
// of the decays, so that no part is the difference of two larger numbers.
#pragma once

#include "backends/cpu/scan/matrix_chunk.h"

namespace lamina::cpu {
namespace {

class MatrixGradient {
 public:
  MatrixGradient(const MatrixScanBackward& p, std::int64_t b, std::int64_t n, float* scratch)
      : p_(p),
        b_(b),
        n_(n),
        memory_(scratch),
        c_(p, memory_),
        s_(c_.s),
        state_(memory_.take<float>(s_.state)),
        dstate_(memory_.take<float>(s_.state)),
        saved_(memory_.take<float>(s_.num_saved * s_.state)),
        o_(memory_.take<float>(s_.rows * s_.values)),
        dout_(memory_.take<float>(s_.rows * s_.values)),
        du_(memory_.take<float>(s_.rows * s_.values)),
        u_across_(memory_.take<float>(s_.rows * s_.values)),
        dout_across_(memory_.take<float>(s_.rows * s_.values)),
        dm_(memory_.take<float>(s_.rows * s_.rows)),
        across_(memory_.take<float>(s_.rows * s_.keys)),
        dx_decayed_(memory_.take<float>(s_.rows * s_.keys)),
        dx_(memory_.take<float>(s_.rows * s_.keys)),
        dz_(memory_.take<float>(s_.rows * s_.keys)),
        dg_(memory_.take<float>(kC * s_.keys)),
        dtotal_(memory_.take<float>(s_.keys)) {}

  void run() {
    std::int64_t num_saved = save_states();
    for (std::int64_t end = p_.tokens; end > 0;) {
      const TokenChunk chunk = chunk_before<kC>(p_, b_, end);
      // The next document has no gradient for this state.
      if (end == p_.tokens || begins_document(p_, b_, end)) clear(dstate_, s_.state);
      if (chunk.fresh)
        clear(state_, s_.state);
      else
        copy(saved_ + --num_saved * s_.state, s_.state, state_);
      c_.load_operands(b_, n_, chunk);
      c_.decay(chunk);
      c_.correct(chunk, state_, o_);
      through_outputs(chunk);
      through_products();
      for (std::int64_t h = 0; h < s_.keys; h += kLanes) through_decays(chunk, h);
      c_.scale_rows(dstate_);
      multiply({s_.keys, s_.values, s_.rows}, across(c_.x_decayed, s_.keys), dout_, dstate_,
               s_.values, Store::add);
      write(chunk);
      end = chunk.t;
    }
  }

 private:
  // Saves the states before chunks that continue a document; returns their number.
  std::int64_t save_states() {
    std::int64_t count = 0;
    for (std::int64_t t = 0; t < p_.tokens;) {
      const TokenChunk chunk = chunk_at<kC>(p_, b_, t, p_.tokens);
      if (chunk.fresh)
        clear(state_, s_.state);
      else
        copy(state_, s_.state, saved_ + count++ * s_.state);
      t += chunk.size;
      // No token reads the state after the last chunk of a document.
      if (t == p_.tokens || begins_document(p_, b_, t)) continue;
      c_.load_operands(b_, n_, chunk);
      c_.decay(chunk);
      c_.correct(chunk, state_, o_);
      c_.advance(state_);
    }
    return count;
  }

  // Computes dout_ (dy, then dR) and du_ (dv, then dw, which is replaced by dR too).
  void through_outputs(const TokenChunk& chunk) {
    const std::int64_t values = s_.values;
    for (std::int64_t i = 0; i < chunk.size; ++i)
      load_row(p_.dy.data, p_.dy.dtype, value_row(p_, b_, chunk.t + i, n_), p_.value_width, values,
               dout_ + i * values);
    clear(dout_ + chunk.size * values, (s_.rows - chunk.size) * values);
    multiply({s_.rows, values, s_.keys}, {c_.z_decayed, s_.keys}, dstate_, du_, values,
             Store::scaled);
    multiply({s_.rows, values, kC}, across(c_.m, s_.rows), dout_, du_, values, Store::add);
    if (!p_.rank_one) return;
    const float* triangle = c_.m + kC * s_.rows;
    float* flow = dout_ + kC * values;
    for (std::int64_t t = chunk.size; t-- > 0;)
      for (std::int64_t c = 0; c < values; c += kLanes) {
        Float sum = load(du_ + (kC + t) * values + c);
        for (std::int64_t i = t + 1; i < chunk.size; ++i)
          sum = fma(splat(triangle[i * s_.rows + kC + t]), load(flow + i * values + c), sum);
        store(flow + t * values + c, sum);
      }
    multiply({kC, values, kC}, across(triangle, s_.rows), flow, du_, values, Store::add);
  }

  // Computes dM, the gradients of the decayed rows and columns through both states, and of the
  // product of e.
  void through_products() {
    const std::int64_t rows = s_.rows, keys = s_.keys, values = s_.values;
    transpose(c_.u, rows, values, values, u_across_, rows);
    transpose(dout_, rows, values, values, dout_across_, rows);
    multiply({rows, rows, values}, {dout_, values}, u_across_, dm_, rows, Store::scaled);
    multiply({keys, rows, values}, {dstate_, values}, u_across_, across_, rows, Store::scaled);
    transpose(across_, keys, rows, rows, dz_, keys);
    multiply({keys, rows, values}, {state_, values}, dout_across_, across_, rows, Store::scaled);
    transpose(across_, keys, rows, rows, dx_decayed_, keys);
    for (std::int64_t h = 0; h < keys; ++h)
      dtotal_[h] = dot(state_ + h * values, dstate_ + h * values, values);
  }

  // A slice of channels of a column that decays from token to token.
  struct Walk {
    Float run[kC + 1];  // the column before token 0 and after each
    Float flow;         // its gradient
  };

  // Computes dx_, dz_ and dg_ of 16 channels.
  void through_decays(const TokenChunk& chunk, std::int64_t h) {
    const std::int64_t keys = s_.keys, rows = s_.rows;
    Float dx[2 * kC], dg[kC], e[kC];
    for (std::int64_t i = 0; i < rows; ++i) dx[i] = splat(0.0f);
    for (std::int64_t t = 0; t < chunk.size; ++t) {
      dg[t] = splat(0.0f);
      e[t] = load(c_.e + t * keys + h);
    }
    const auto row = [&](std::int64_t i) { return load(c_.x + i * keys + h); };
    // The column `walk` as row i reads it: after token `level` - 1.
    const auto meet = [&](Walk& walk, std::int64_t i, std::int64_t level, Float weight) {
      dx[i] = fma(weight, walk.run[level], dx[i]);
      walk.flow = fma(weight, row(i), walk.flow);
    };
    // From the last token to the one after `first`; weight(i): of row i.
    const auto walk_back = [&](Walk& walk, std::int64_t first, const auto& weight) {
      for (std::int64_t t = chunk.size; t-- > first;) {
        if (!p_.read_before) meet(walk, t, t + 1, weight(t));
        if (p_.rank_one && p_.decay_first) meet(walk, kC + t, t + 1, weight(kC + t));
        dg[t] = fma(walk.flow, walk.run[t + 1], dg[t]);
        walk.flow = walk.flow * e[t];
        if (p_.read_before) meet(walk, t, t, weight(t));
        if (p_.rank_one && !p_.decay_first) meet(walk, kC + t, t, weight(kC + t));
      }
    };
    for (std::int64_t part = 0; part < rows; part += kC)
      for (std::int64_t j = 0; j < chunk.size; ++j) {
        const std::int64_t column = part + j;
        Walk walk;
        walk.run[j + 1] = load(c_.z + column * keys + h);
        for (std::int64_t t = j + 1; t < chunk.size; ++t) walk.run[t + 1] = walk.run[t] * e[t];
        walk.flow = load(dz_ + column * keys + h);
        walk_back(walk, j + 1, [&](std::int64_t i) { return splat(dm_[i * rows + column]); });
        if (!p_.read_before) meet(walk, j, j + 1, splat(dm_[j * rows + column]));
        store(dz_ + column * keys + h, walk.flow);
      }
    // The state before the chunk: a column that decays from 1.
    Walk walk;
    walk.run[0] = splat(1.0f);
    for (std::int64_t t = 0; t < chunk.size; ++t) walk.run[t + 1] = walk.run[t] * e[t];
    walk.flow = load(dtotal_ + h);
    walk_back(walk, 0, [&](std::int64_t i) { return load(dx_decayed_ + i * keys + h); });
    for (std::int64_t i = 0; i < rows; ++i) store(dx_ + i * keys + h, dx[i]);
    for (std::int64_t t = 0; t < chunk.size; ++t) store(dg_ + t * keys + h, dg[t]);
  }

  void write(const TokenChunk& chunk) {
    const std::int64_t keys = s_.keys, part = kC * keys;
    for (std::int64_t i = 0; i < chunk.size; ++i) {
      const std::int64_t token = (b_ * p_.tokens + chunk.t + i) * p_.heads + n_;
      const auto put = [&](const Numbers& to, const float* from) {
        store_row(to.data, to.dtype, token * p_.key_width, p_.key_width, from);
      };
      float* dq = dx_ + i * keys;
      times(dq, p_.scale, keys, dq);
      put(p_.dq, dq);
      put(p_.dk, dz_ + i * keys);
      if (p_.rank_one) {
        put(p_.db, dx_ + part + i * keys);
        put(p_.da, dz_ + part + i * keys);
      }
      store_row(p_.dv.data, p_.dv.dtype, token * p_.value_width, p_.value_width,
                du_ + i * s_.values);
      if (p_.per_channel) {
        put(p_.dg, dg_ + i * keys);
        continue;
      }
      Float sum = splat(0.0f);
      for (std::int64_t h = 0; h < keys; h += kLanes) sum = sum + load(dg_ + i * keys + h);
      set_number(p_.dg.data, p_.dg.dtype, token, sum_lanes(sum));
    }
  }

  const MatrixScanBackward& p_;
  const std::int64_t b_, n_;
  Arena memory_;
  MatrixChunk c_;
  const MatrixScanSizes& s_;
  float *state_, *dstate_, *saved_;
  float *o_, *dout_, *du_, *u_across_, *dout_across_, *dm_;
  float *across_, *dx_decayed_, *dx_, *dz_, *dg_, *dtotal_;
};

}  // namespace
}  // namespace lamina::cpu
