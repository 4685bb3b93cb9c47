// The gradient of one chunk of a matrix scan, for its kernels.
//
// With S the state before the chunk, dS' the gradient of the state after it, x the rows of q and b,
// z the columns of k and a, u = v and w, and M as in host/backends/cpu/scan/matrix_scan.h,
//   du = z' dS' + M_q^T dy (+ M_b^T dR),  dR = (I - M_ba)^-T dw,  dM = [dy; dR] u^T
// for each value channel; then the gradients through the decays of each key channel, from token to
// token, so that no part is the difference of two larger numbers. Tokens of other documents than
// the one before them (or the last one's) have no part in the state before (or after) the chunk.
#pragma once

#include "backends/cuda/matrix_scan/chunk.h"

namespace lamina::cuda {
namespace {

class MatrixGradient : MatrixChunk {
 public:
  LAMINA_GPU_FUNCTION MatrixGradient(const MatrixScanGradParams& params,
                                     gpu::Shared<std::int32_t> documents, SharedArena memory = {})
      : MatrixChunk(params.scan, documents, memory), p_(params) {
    dx_decayed_ = memory.matrix(rows_, keys_);
    dz_ = memory.matrix(rows_, keys_);
    dm_ = memory.matrix(rows_, rows_);
    u_ = memory.matrix(rows_, kW);
    dout_ = memory.matrix(rows_, kW);
    du_ = memory.matrix(rows_, kW);
    state_ = memory.matrix(keys_, kW);
    flow_ = memory.matrix(keys_, kW);
    dtotal_ = memory.numbers(keys_);
  }

  // Computes chunk `chunk` of the pass's head `head`.
  LAMINA_GPU_FUNCTION void run(std::int64_t head, std::int64_t chunk) {
    prepare(head, chunk);
    for (int h = gpu::thread_index(); h < keys_; h += gpu::num_threads()) dtotal_[h] = 0;
    dx_decayed_.clear(rows_);
    dz_.clear(rows_);
    dm_.clear(rows_);
    for (std::int64_t c = 0; c < r_.value_width; c += kW) through_columns(c);
    gpu::sync();
    through_decays();
    write();
  }

 private:
  static constexpr int kW = kMatrixColumns;

  // Adds the parts of value channels [c, c + kW) to dM and to the gradients of decayed rows and
  // columns, and writes their dv.
  LAMINA_GPU_FUNCTION void through_columns(std::int64_t c) {
    gpu::sync();
    load_columns<kC, kW>(r_, head_, chunk_, c, size_, [&](int t) { return value_row(t); },
                         {state_, flow_, u_, dout_});
    gpu::sync();
    if (ranked_) {
      const SharedMatrix b = x_decayed_.from_row(kC), known = dout_.from_row(kC);
      multiply(kC, kW, keys_, b, state_, [&](int t, int i, float sum) { known.set(t, i, sum); });
      multiply(kC, kW, kC, m_.from_row(kC), u_,
               [&](int t, int i, float sum) { known.add(t, i, sum); });
    }
    multiply(rows_, kW, keys_, z_decayed_, flow_,
             [&](int j, int i, float sum) { du_.set(j, i, sum); });
    multiply(
        rows_, kW, kC, [&](int j, int t) { return m_(t, j); }, dout_,
        [&](int j, int i, float sum) { du_.add(j, i, sum); });
    gpu::sync();
    if (ranked_) solve();
    write_dv(c);
    multiply(
        rows_, rows_, kW, dout_, [&](int i, int j) { return u_(j, i); },
        [&](int i, int j, float sum) { dm_.add(i, j, sum); });
    multiply(
        rows_, keys_, kW, u_, [&](int i, int h) { return flow_(h, i); },
        [&](int j, int h, float sum) { dz_.add(j, h, sum); });
    multiply(
        rows_, keys_, kW, dout_, [&](int i, int h) { return state_(h, i); },
        [&](int i, int h, float sum) { dx_decayed_.add(i, h, sum); });
    for (int h = gpu::thread_index(); h < keys_; h += gpu::num_threads()) {
      float sum = dtotal_[h];
      for (int i = 0; i < kW; ++i) sum = gpu::fma(state_(h, i), flow_(h, i), sum);
      dtotal_[h] = sum;
    }
  }

  LAMINA_GPU_FUNCTION std::int64_t value_row(int t) const {
    return ((b_ * r_.tokens + t_ + t) * r_.heads + n_) * r_.value_width;
  }

  // Computes w from the products of b with the state and v, and dR from dw; adds its part to dv.
  LAMINA_GPU_FUNCTION void solve() {
    const SharedMatrix inverse = m_.from_row(kC), known = dout_.from_row(kC), dr = known;
    const SharedMatrix w = u_.from_row(kC), dw = du_.from_row(kC);
    multiply(
        kC, kW, kC, [&](int t, int j) { return inverse(t, kC + j); }, known,
        [&](int t, int i, float sum) { w.set(t, i, sum); });
    gpu::sync();
    multiply(
        kC, kW, kC, [&](int j, int t) { return inverse(t, kC + j); }, dw,
        [&](int j, int i, float sum) { dr.set(j, i, sum); });
    gpu::sync();
    multiply(
        kC, kW, kC, [&](int j, int t) { return m_(kC + t, j); }, dr,
        [&](int j, int i, float sum) { du_.add(j, i, sum); });
    gpu::sync();
  }

  LAMINA_GPU_FUNCTION void write_dv(std::int64_t c) const {
    const gpu::NumberWriter dv(p_.dv);
    for (int at = gpu::thread_index(); at < size_ * kW; at += gpu::num_threads()) {
      const int t = at / kW, i = at % kW;
      if (c + i < r_.value_width) dv.set(value_row(t) + c + i, du_(t, i));
    }
  }

  // A slice of a channel of a column that decays from token to token, and its gradient.
  struct Walk {
    float after[kC];  // the column after each token
    float flow;
  };
  struct ChannelGradient {
    float dq[kC], db[kC], dg[kC];
  };

  // Multiplies row i of x with the column at level `run`.
  LAMINA_GPU_FUNCTION void meet(float weight, float row, float run, Walk& walk, float& drow) const {
    drow = gpu::fma(weight, run, drow);
    walk.flow = gpu::fma(weight, row, walk.flow);
  }

  // From the last token to the one after `first`; weight(t, part): of q (part 0) and b of a token.
  template <typename Weight>
  LAMINA_GPU_FUNCTION void walk_back(int h, int first, float initial, const float (&e)[kC],
                                     const Weight& weight, Walk& walk, ChannelGradient& d) const {
    LAMINA_GPU_UNROLL
    for (int t = kC - 1; t >= 0; --t) {
      if (t <= first) continue;
      const float q = x_(t, h), b = ranked_ ? x_(kC + t, h) : 0.0f;
      const float by_q = weight(t, 0), by_b = ranked_ ? weight(t, kC) : 0.0f;
      const float after = walk.after[t], before = t > 0 ? walk.after[t - 1] : initial;
      if (!r_.read_before) meet(by_q, q, after, walk, d.dq[t]);
      if (ranked_ && r_.decay_first) meet(by_b, b, after, walk, d.db[t]);
      d.dg[t] = gpu::fma(walk.flow, after, d.dg[t]);
      walk.flow *= e[t];
      if (r_.read_before) meet(by_q, q, before, walk, d.dq[t]);
      if (ranked_ && !r_.decay_first) meet(by_b, b, before, walk, d.db[t]);
    }
  }

  // Column j of k (part 0) or a.
  LAMINA_GPU_FUNCTION void through_column(int h, int j, int part, const float (&e)[kC],
                                          ChannelGradient& d) {
    const int column = part + j;
    Walk walk;
    float run = 0;
    LAMINA_GPU_UNROLL
    for (int t = 0; t < kC; ++t) {
      run = t == j ? z_(column, h) : run * e[t];
      walk.after[t] = run;
    }
    walk.flow = to_after(j) ? dz_(column, h) : 0.0f;
    const auto weight = [&](int t, int rows) {
      return joined(t, j) ? dm_(rows + t, column) : 0.0f;
    };
    walk_back(h, j, 0, e, weight, walk, d);
    if (!r_.read_before) {
      LAMINA_GPU_UNROLL
      for (int t = 0; t < kC; ++t)
        if (t == j) meet(dm_(t, column), x_(t, h), walk.after[t], walk, d.dq[t]);
    }
    dz_.set(column, h, walk.flow);
  }

  // The state before the chunk: a column that decays from 1.
  LAMINA_GPU_FUNCTION void through_state(int h, const float (&e)[kC], ChannelGradient& d) const {
    Walk walk;
    float run = 1;
    LAMINA_GPU_UNROLL
    for (int t = 0; t < kC; ++t) walk.after[t] = run *= e[t];
    walk.flow = from_before(kC - 1) ? static_cast<float>(dtotal_[h]) : 0.0f;
    const auto weight = [&](int t, int rows) {
      return from_before(t) ? dx_decayed_(rows + t, h) : 0.0f;
    };
    walk_back(h, -1, 1, e, weight, walk, d);
  }

  // Computes dx (in x_decayed_), dz and dg (in z_decayed_). Groups of threads share the columns, a
  // thread of each has the same key channel; the parts are added group by group.
  LAMINA_GPU_FUNCTION void through_decays() {
    const int width = (keys_ + gpu::kWarpSize - 1) / gpu::kWarpSize * gpu::kWarpSize;
    const int groups = gpu::max(1, gpu::num_threads() / width);
    const int group = gpu::thread_index() / width, h = gpu::thread_index() % width;
    const bool active = group < groups && h < keys_;
    ChannelGradient d;
    float e[kC];
    LAMINA_GPU_UNROLL
    for (int t = 0; t < kC; ++t) {
      d.dq[t] = d.db[t] = d.dg[t] = 0;
      e[t] = active ? e_(t, h) : 0.0f;
    }
    if (active) {
      for (int column = group; column < rows_; column += groups)
        through_column(h, column % kC, column / kC * kC, e, d);
      if (group == groups - 1) through_state(h, e, d);
    }
    gpu::sync();
    for (int turn = 0; turn < groups; ++turn) {
      if (active && turn == group) {
        LAMINA_GPU_UNROLL
        for (int t = 0; t < kC; ++t) {
          put(x_decayed_, t, h, d.dq[t], turn);
          if (ranked_) put(x_decayed_, kC + t, h, d.db[t], turn);
          put(z_decayed_, t, h, d.dg[t], turn);
        }
      }
      gpu::sync();
    }
  }
  static LAMINA_GPU_FUNCTION void put(const SharedMatrix& to, int row, int column, float x,
                                      int turn) {
    if (turn == 0)
      to.set(row, column, x);
    else
      to.add(row, column, x);
  }

  LAMINA_GPU_FUNCTION void write() const {
    const gpu::NumberWriter dq(p_.dq), dk(p_.dk), da(p_.da), db(p_.db), dg(p_.dg);
    for (int at = gpu::thread_index(); at < size_ * keys_; at += gpu::num_threads()) {
      const int t = at / keys_, h = at % keys_;
      const std::int64_t to = ((b_ * r_.tokens + t_ + t) * r_.heads + n_) * keys_ + h;
      dq.set(to, p_.scan.scale * x_decayed_(t, h));
      dk.set(to, dz_(t, h));
      if (ranked_) db.set(to, x_decayed_(kC + t, h)), da.set(to, dz_(kC + t, h));
      if (p_.scan.per_channel) dg.set(to, z_decayed_(t, h));
    }
    if (p_.scan.per_channel) return;
    for (int t = gpu::warp_index(); t < size_; t += gpu::num_warps()) {
      float sum = 0;
      for (int h = gpu::lane(); h < keys_; h += gpu::kWarpSize) sum += z_decayed_(t, h);
      sum = gpu::warp_sum(sum);
      if (gpu::lane() == 0) dg.set((b_ * r_.tokens + t_ + t) * r_.heads + n_, sum);
    }
  }

  const MatrixScanGradParams& p_;
  SharedMatrix dx_decayed_, dz_, dm_;
  SharedMatrix u_, dout_, du_, state_, flow_;
  gpu::Shared<float> dtotal_;
};

}  // namespace
}  // namespace lamina::cuda
