// The gradient of the gated delta rule for all types and sizes, in f64: token by token, with the
// states before all tokens in the workspace. For tests and for types without a fast kernel.
#pragma once

#include "backends/cuda/delta_rule/params.h"
#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda {
namespace {

LAMINA_GPU_FUNCTION double read(const Floats& x, std::int64_t i) {
  switch (x.type) {
    case FloatType::f32:
      return static_cast<double>(gpu::load(gpu::Global<const float>(x.at), i));
    case FloatType::bf16:
      return static_cast<double>(gpu::load(gpu::Global<const gpu::bfloat16>(x.at), i));
    case FloatType::f16:
      return static_cast<double>(gpu::load(gpu::Global<const gpu::float16>(x.at), i));
    default:
      return gpu::load(gpu::Global<const double>(x.at), i);
  }
}
LAMINA_GPU_FUNCTION void write(const Floats& x, std::int64_t i, double value) {
  switch (x.type) {
    case FloatType::f32:
      return gpu::store(gpu::Global<float>(x.at), i, static_cast<float>(value));
    case FloatType::bf16:
      return gpu::store(gpu::Global<gpu::bfloat16>(x.at), i, static_cast<float>(value));
    case FloatType::f16:
      return gpu::store(gpu::Global<gpu::float16>(x.at), i, static_cast<float>(value));
    default:
      return gpu::store(gpu::Global<double>(x.at), i, value);
  }
}

// One key head of one row. Threads share value channels, then key channels.
class DeltaReference {
 public:
  LAMINA_GPU_FUNCTION explicit DeltaReference(const DeltaReferenceParams& params)
      : p_(params), width_(params.key_width), values_(params.value_width) {
    gpu::Global<double> next =
        gpu::Global<double>(p_.workspace) + gpu::block_index() * p_.workspace_doubles;
    const auto take = [&](std::int64_t count) {
      const gpu::Global<double> out = next;
      next = next + count;
      return out;
    };
    before_ = take(p_.tokens * width_ * values_);
    state_ = take(width_ * values_);
    flow_ = take(width_ * values_);
    dq_ = take(p_.tokens * width_);
    dk_ = take(p_.tokens * width_);
    raw_ = take(values_);
    du_ = take(values_);
    dg_ = take(width_);
  }

  LAMINA_GPU_FUNCTION void run(std::int64_t b, std::int64_t key_head) {
    b_ = b, key_head_ = key_head;
    clear(dq_, p_.tokens * width_);
    clear(dk_, p_.tokens * width_);
    const std::int64_t group = p_.heads / p_.key_heads;
    for (std::int64_t r = 0; r < group; ++r) {
      n_ = key_head * group + r;
      gpu::sync();
      clear(state_, width_ * values_);
      clear(flow_, width_ * values_);
      gpu::sync();
      for (std::int64_t t = 0; t < p_.tokens; ++t) forwards(t);
      gpu::sync();
      for (std::int64_t t = p_.tokens - 1; t >= 0; --t) backwards(t);
    }
    gpu::sync();
    for (std::int64_t t = gpu::thread_index(); t < p_.tokens; t += gpu::num_threads()) {
      put(p_.dq, p_.q, t, p_.scale, dq_);
      put(p_.dk, p_.k, t, 1, dk_);
    }
    gpu::sync();
  }

 private:
  static LAMINA_GPU_FUNCTION void clear(gpu::Global<double> x, std::int64_t count) {
    for (std::int64_t i = gpu::thread_index(); i < count; i += gpu::num_threads()) x[i] = 0;
  }

  LAMINA_GPU_FUNCTION std::int64_t key_row(std::int64_t t) const {
    return ((b_ * p_.tokens + t) * p_.key_heads + key_head_) * width_;
  }
  LAMINA_GPU_FUNCTION std::int64_t number(std::int64_t t) const {
    return (b_ * p_.tokens + t) * p_.heads + n_;
  }
  // Returns the factor of a row of q or k.
  LAMINA_GPU_FUNCTION double factor(const Floats& x, std::int64_t t, double scale) const {
    if (!p_.normalize) return scale;
    double squares = 0;
    for (std::int64_t h = 0; h < width_; ++h) {
      const double number = read(x, key_row(t) + h);
      squares += number * number;
    }
    return scale / gpu::sqrt(squares + 1e-6);
  }
  LAMINA_GPU_FUNCTION double decay(std::int64_t t) const {
    if (t == 0) return 0;
    const gpu::Global<const std::int32_t> ids(p_.segments);
    if (ids && ids[b_ * p_.tokens + t] != ids[b_ * p_.tokens + t - 1]) return 0;
    return gpu::exp(read(p_.g, number(t)));
  }
  // Returns v - S^T k of a value channel, with the decayed state before token t.
  LAMINA_GPU_FUNCTION double correction(std::int64_t t, std::int64_t c, double by_k) const {
    double sum = read(p_.v, number(t) * values_ + c);
    for (std::int64_t h = 0; h < width_; ++h)
      sum -= before_[(t * width_ + h) * values_ + c] * by_k * read(p_.k, key_row(t) + h);
    return sum;
  }

  // A thread computes the same columns in every token.
  LAMINA_GPU_FUNCTION void forwards(std::int64_t t) {
    const double by_k = factor(p_.k, t, 1), left = decay(t), beta = read(p_.beta, number(t));
    for (std::int64_t c = gpu::thread_index(); c < values_; c += gpu::num_threads()) {
      for (std::int64_t h = 0; h < width_; ++h)
        before_[(t * width_ + h) * values_ + c] = left * state_[h * values_ + c];
      const double learnt = beta * correction(t, c, by_k);
      for (std::int64_t h = 0; h < width_; ++h)
        state_[h * values_ + c] =
            before_[(t * width_ + h) * values_ + c] + by_k * read(p_.k, key_row(t) + h) * learnt;
    }
  }

  LAMINA_GPU_FUNCTION void backwards(std::int64_t t) {
    const double by_k = factor(p_.k, t, 1), by_q = factor(p_.q, t, p_.scale), left = decay(t);
    const double beta = read(p_.beta, number(t));
    for (std::int64_t c = gpu::thread_index(); c < values_; c += gpu::num_threads()) {
      const double dy = read(p_.dy, number(t) * values_ + c);
      double du = 0;
      for (std::int64_t h = 0; h < width_; ++h) {
        double& flow = flow_[h * values_ + c];
        flow += by_q * read(p_.q, key_row(t) + h) * dy;
        du += flow * by_k * read(p_.k, key_row(t) + h);
      }
      raw_[c] = correction(t, c, by_k);
      du_[c] = du;
      write(p_.dv, number(t) * values_ + c, beta * du);
    }
    gpu::sync();
    for (std::int64_t h = gpu::thread_index(); h < width_; h += gpu::num_threads())
      through_channel(t, h, by_k, left, beta);
    gpu::sync();
    if (gpu::thread_index() == 0) {
      double dg = 0, dbeta = 0;
      for (std::int64_t h = 0; h < width_; ++h) dg += dg_[h];
      for (std::int64_t c = 0; c < values_; ++c) dbeta += du_[c] * raw_[c];
      write(p_.dg, number(t), dg);
      write(p_.dbeta, number(t), dbeta);
    }
    gpu::sync();
  }

  // Computes the gradients of key channel h, and of the state before the token.
  LAMINA_GPU_FUNCTION void through_channel(std::int64_t t, std::int64_t h, double by_k, double left,
                                           double beta) {
    const double key = by_k * read(p_.k, key_row(t) + h);
    double dq = 0, dk = 0, dg = 0;
    for (std::int64_t c = 0; c < values_; ++c) {
      const double before = before_[(t * width_ + h) * values_ + c], learnt = beta * raw_[c];
      double& flow = flow_[h * values_ + c];
      dq += (before + key * learnt) * read(p_.dy, number(t) * values_ + c);
      dk += flow * learnt - before * beta * du_[c];
      flow -= key * beta * du_[c];
      dg += flow * before;
      flow *= left;
    }
    dq_[t * width_ + h] += dq;
    dk_[t * width_ + h] += dk;
    dg_[h] = dg;
  }

  LAMINA_GPU_FUNCTION void put(const Floats& to, const Floats& x, std::int64_t t, double scale,
                               gpu::Global<double> gradient) const {
    const double by = factor(x, t, scale);
    double along = 0;
    for (std::int64_t h = 0; p_.normalize && h < width_; ++h)
      along += by * read(x, key_row(t) + h) * gradient[t * width_ + h] / (scale * scale);
    for (std::int64_t h = 0; h < width_; ++h)
      write(to, key_row(t) + h,
            by * (gradient[t * width_ + h] - along * by * read(x, key_row(t) + h)));
  }

  const DeltaReferenceParams& p_;
  const std::int64_t width_, values_;
  std::int64_t b_ = 0, key_head_ = 0, n_ = 0;
  gpu::Global<double> before_;         // [tokens, width, values]: decayed states before tokens
  gpu::Global<double> state_, flow_;   // [width, values]
  gpu::Global<double> dq_, dk_;        // [tokens, width]
  gpu::Global<double> raw_, du_, dg_;  // [values], [values], [width]
};

}  // namespace
}  // namespace lamina::cuda
