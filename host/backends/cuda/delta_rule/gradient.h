// The gradient of one chunk of the gated delta rule, for its kernels: the letters and equations of
// host/backends/cpu/delta_rule/backward.h. The triangle of the corrections is inverted once per
// head, so that value channels need products only. Tokens of other documents than the one before
// them (or the last one's) have no part in the state before (or after) the chunk.
#pragma once

#include "backends/cuda/delta_rule/chunk.h"

namespace lamina::cuda {
namespace {

class DeltaGradient : DeltaChunk {
 public:
  LAMINA_GPU_FUNCTION DeltaGradient(const DeltaRuleGradParams& params,
                                    gpu::Shared<std::int32_t> documents, gpu::Shared<double> sums,
                                    SharedArena memory = {})
      : DeltaChunk(params.rule, documents, sums, memory), p_(params) {
    for (SharedMatrix* m : {&dk_, &dq_, &dq_state_}) *m = memory.matrix(kC, keys_);
    for (SharedMatrix* m : {&dl_, &dm_}) *m = memory.matrix(kC, kC);
    for (SharedMatrix* m : {&raw_, &u_, &dy_, &du_, &dr_, &ks_, &kd_}) *m = memory.matrix(kC, kW);
    for (SharedMatrix* m : {&state_, &flow_}) *m = memory.matrix(keys_, kW);
    for (gpu::Shared<float>* x : {&dsum_, &dbeta_, &from_rest_, &from_state_})
      *x = memory.numbers(kC);
    dtotal_ = memory.numbers(keys_);
  }

  // Computes chunk `chunk` of the pass's key head `key_head`; its dq and dk are sums over its
  // heads.
  LAMINA_GPU_FUNCTION void run(std::int64_t key_head, std::int64_t chunk) {
    const std::int64_t group = r_.heads / rule_.key_heads;
    prepare_keys(key_head, chunk);
    dk_.clear(kC);
    dq_.clear(kC);
    for (std::int64_t r = 0; r < group; ++r) {
      gpu::sync();
      through_head(key_head * group + r, key_head_ * group + r);
    }
    gpu::sync();
    write_keys(gpu::NumberWriter(p_.dq), q_, q_factor_, rule_.scale, dq_);
    write_keys(gpu::NumberWriter(p_.dk), k_, k_factor_, 1, dk_);
  }

 private:
  static constexpr int kW = kDeltaColumns;

  // Computes the gradients of head n of the rule, number `of_states` of the pass.
  LAMINA_GPU_FUNCTION void through_head(std::int64_t of_states, std::int64_t n) {
    of_states_ = of_states;
    prepare_head(n);
    if (const int t = gpu::thread_index(); t < kC) dsum_[t] = dbeta_[t] = from_rest_[t] = 0.0f;
    dl_.clear(kC);
    dm_.clear(kC);
    dq_state_.clear(kC);
    for (int h = gpu::thread_index(); h < keys_; h += gpu::num_threads()) dtotal_[h] = 0;
    for (std::int64_t c = 0; c < r_.value_width; c += kW) through_columns(c);
    gpu::sync();
    through_triangles();
    gpu::sync();
    through_keys();
    gpu::sync();
    write_numbers();
  }

  // Adds the parts of value channels [c, c + kW) to the gradients of triangles and keys, and writes
  // their dv.
  LAMINA_GPU_FUNCTION void through_columns(std::int64_t c) {
    gpu::sync();
    load_columns<kC, kW>(r_, of_states_, chunk_, c, size_,
                         [&](int t) { return number(t) * r_.value_width; },
                         {state_, flow_, raw_, dy_});
    gpu::sync();
    multiply(kC, kW, keys_, k_, state_, [&](int i, int j, float sum) {
      ks_.set(i, j, decay_[i] * sum);
      raw_.add(i, j, -decay_[i] * sum);
    });
    multiply(
        kC, kW, kC, [&](int j, int i) { return m_(i, j); }, dy_,
        [&](int i, int j, float sum) { du_.set(i, j, sum); });
    multiply(kC, kW, keys_, k_, flow_, [&](int i, int j, float sum) {
      kd_.set(i, j, rest_[i] * sum);
      du_.add(i, j, rest_[i] * sum);
    });
    gpu::sync();
    multiply(
        kC, kW, kC, [&](int i, int j) { return inverse_(i, j) * beta_[j]; }, raw_,
        [&](int i, int j, float sum) { u_.set(i, j, sum); });
    multiply(
        kC, kW, kC, [&](int j, int i) { return inverse_(i, j); }, du_,
        [&](int i, int j, float sum) { dr_.set(i, j, sum); });
    gpu::sync();
    const gpu::NumberWriter dv(p_.dv);
    for (int at = gpu::thread_index(); at < size_ * kW; at += gpu::num_threads()) {
      const int t = at / kW, i = at % kW;
      if (c + i < r_.value_width) dv.set(number(t) * r_.value_width + c + i, beta_[t] * dr_(t, i));
    }
    multiply(
        kC, kC, kW, dy_, [&](int i, int j) { return u_(j, i); },
        [&](int i, int j, float sum) { dm_.add(i, j, sum); });
    multiply(
        kC, kC, kW, dr_, [&](int i, int j) { return u_(j, i); },
        [&](int i, int j, float sum) { dl_.add(i, j, sum); });
    multiply(
        kC, keys_, kW, u_, [&](int i, int h) { return flow_(h, i); },
        [&](int t, int h, float sum) { dk_.add(t, h, rest_[t] * sum); });
    multiply(
        kC, keys_, kW, dr_, [&](int i, int h) { return state_(h, i); },
        [&](int t, int h, float sum) { dk_.add(t, h, -beta_[t] * decay_[t] * sum); });
    multiply(
        kC, keys_, kW, dy_, [&](int i, int h) { return state_(h, i); },
        [&](int t, int h, float sum) { dq_state_.add(t, h, decay_[t] * sum); });
    add_numbers();
  }

  // Adds the parts of value channels to the gradients of beta and of the sums of g.
  LAMINA_GPU_FUNCTION void add_numbers() {
    const int t = gpu::thread_index();
    if (t < kC) {
      float dbeta = 0, by_state = 0, by_rest = 0;
      for (int i = 0; i < kW; ++i) {
        dbeta = gpu::fma(dr_(t, i), raw_(t, i), dbeta);
        by_state = gpu::fma(dr_(t, i), ks_(t, i), by_state);
        by_rest = gpu::fma(u_(t, i), kd_(t, i), by_rest);
      }
      dbeta_[t] += dbeta;
      dsum_[t] += -beta_[t] * by_state - by_rest;
      from_rest_[t] += by_rest;
    }
    for (int h = gpu::thread_index(); h < keys_; h += gpu::num_threads()) {
      float sum = dtotal_[h];
      for (int i = 0; i < kW; ++i) sum = gpu::fma(state_(h, i), flow_(h, i), sum);
      dtotal_[h] = sum;
    }
  }

  // Computes the gradients of q k^T and k k^T (in dm_ and dl_) and, in m_ and l_, their parts of
  // the gradients of beta and of the sums of g.
  LAMINA_GPU_FUNCTION void through_triangles() {
    for (int at = gpu::thread_index(); at < kC * kC; at += gpu::num_threads()) {
      const int i = at / kC, j = at % kC;
      const float decay = between(i, j), dm = dm_(i, j), dl = j < i ? dl_(i, j) : 0.0f;
      l_.set(i, j, gpu::fma(dl, l_(i, j), dm * m_(i, j)));
      m_.set(i, j, dl * decay * kk_(i, j));
      dm_.set(i, j, dm * decay);
      dl_.set(i, j, dl * decay * -beta_[i]);
    }
    // And through the state's part of dq.
    for (int t = gpu::warp_index(); t < kC; t += gpu::num_warps()) {
      float sum = 0;
      for (int h = gpu::lane(); h < keys_; h += gpu::kWarpSize)
        sum = gpu::fma(q_(t, h), dq_state_(t, h), sum);
      sum = gpu::warp_sum(sum);
      if (gpu::lane() == 0) from_state_[t] = sum;
    }
  }

  LAMINA_GPU_FUNCTION void through_keys() {
    multiply(kC, keys_, kC, dm_, k_,
             [&](int t, int h, float sum) { dq_.add(t, h, sum + dq_state_(t, h)); });
    multiply(
        kC, keys_, kC, [&](int j, int i) { return dm_(i, j); }, q_,
        [&](int t, int h, float sum) { dk_.add(t, h, sum); });
    multiply(
        kC, keys_, kC, [&](int i, int j) { return dl_(i, j) + dl_(j, i); }, k_,
        [&](int t, int h, float sum) { dk_.add(t, h, sum); });
    const int t = gpu::thread_index();
    if (t >= kC) return;
    float sum = dsum_[t] + from_state_[t], dbeta = dbeta_[t];
    for (int j = 0; j < kC; ++j) {
      sum += l_(t, j) - l_(j, t);
      dbeta -= m_(t, j);
    }
    if (t == size_ - 1) {
      float total = 0;
      for (int h = 0; h < keys_; ++h) total += dtotal_[h];
      sum += decay_[t] * total;
      for (int j = 0; j < kC; ++j) sum += from_rest_[j];
    }
    dsum_[t] = sum;
    dbeta_[t] = dbeta;
  }

  // A g is in the sums of its token and the later ones of its document.
  LAMINA_GPU_FUNCTION void write_numbers() const {
    const int t = gpu::thread_index();
    if (t >= size_) return;
    float sum = 0;
    for (int j = size_ - 1; j >= t; --j)
      if (document_[j] == document_[t]) sum += dsum_[j];
    gpu::NumberWriter(p_.dg).set(number(t), sum);
    gpu::NumberWriter(p_.dbeta).set(number(t), dbeta_[t]);
  }

  // Writes the gradients of q or k before scaling and division by the length.
  LAMINA_GPU_FUNCTION void write_keys(const gpu::NumberWriter& to, const SharedMatrix& x,
                                      gpu::Shared<float> factors, float scale,
                                      const SharedMatrix& dx) const {
    const DeltaKeys keys(rule_);
    for (int t = gpu::warp_index(); t < size_; t += gpu::num_warps()) {
      float along = 0;
      if (rule_.normalize) {
        for (int h = gpu::lane(); h < keys_; h += gpu::kWarpSize)
          along = gpu::fma(x(t, h), dx(t, h), along);
        along = gpu::warp_sum(along) / (scale * scale);
      }
      const std::int64_t row = keys.row(b_, t_ + t, key_head_);
      for (int h = gpu::lane(); h < keys_; h += gpu::kWarpSize)
        to.set(row + h, factors[t] * gpu::fma(-along, x(t, h), dx(t, h)));
    }
  }

  const DeltaRuleGradParams& p_;
  std::int64_t of_states_ = 0;
  SharedMatrix dk_, dq_, dq_state_, dl_, dm_;
  SharedMatrix raw_, u_, dy_, du_, dr_;
  SharedMatrix ks_, kd_;  // exp(G) k S and exp(G_C - G) k dS'
  SharedMatrix state_, flow_;
  gpu::Shared<float> dsum_, dbeta_, from_rest_, from_state_, dtotal_;
};

}  // namespace
}  // namespace lamina::cuda
