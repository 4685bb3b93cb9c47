// One chunk of the gated delta rule: its keys in shared memory and, of one head at a time, numbers
// and triangles. For the gradient's kernel. The letters are in
// host/backends/cpu/delta_rule/chunk.h.
#pragma once

#include "backends/cuda/delta_rule/keys.h"
#include "backends/cuda/matrix_scan/chunk_loads.h"
#include "ops/delta_rule_numbers.h"

namespace lamina::cuda {
namespace {

// Returns e^x, corrected for the rounding of x to f32.
LAMINA_GPU_FUNCTION float exp_of(double x) {
  const float near = static_cast<float>(x), power = gpu::exp(near);
  return gpu::fma(power, static_cast<float>(x - static_cast<double>(near)), power);
}

// Rows of tokens beyond the chunk's are zeros.
class DeltaChunk {
 protected:
  static constexpr int kC = kDeltaChunk;

  LAMINA_GPU_FUNCTION DeltaChunk(const DeltaRuleParams& params, gpu::Shared<std::int32_t> documents,
                                 gpu::Shared<double> sums, SharedArena& memory)
      : rule_(params), r_(params.tokens), document_(documents), sums_(sums) {
    keys_ = static_cast<int>(r_.key_width);
    for (SharedMatrix* m : {&k_, &q_}) *m = memory.matrix(kC, keys_);
    for (SharedMatrix* m : {&kk_, &qk_, &l_, &m_, &inverse_}) *m = memory.matrix(kC, kC);
    for (gpu::Shared<float>* x : {&beta_, &decay_, &rest_, &k_factor_, &q_factor_})
      *x = memory.numbers(kC);
  }

  // Loads the keys of chunk `chunk` of the pass's key head `key_head`, and computes their products.
  LAMINA_GPU_FUNCTION void prepare_keys(std::int64_t key_head, std::int64_t chunk) {
    const std::int64_t first = r_.first_head / (r_.heads / rule_.key_heads) + key_head;
    b_ = first / rule_.key_heads, key_head_ = first % rule_.key_heads;
    chunk_ = chunk, t_ = chunk * kC;
    size_ = static_cast<int>(gpu::min(std::int64_t{kC}, r_.tokens - t_));
    load_keys();
    gpu::sync();
    const auto k_across = [&](int h, int j) { return k_(j, h); };
    multiply(kC, kC, keys_, k_, k_across, [&](int i, int j, float sum) { kk_.set(i, j, sum); });
    multiply(kC, kC, keys_, q_, k_across, [&](int i, int j, float sum) { qk_.set(i, j, sum); });
  }

  // Computes the numbers and triangles of head n. The block syncs before and after it.
  LAMINA_GPU_FUNCTION void prepare_head(std::int64_t n) {
    n_ = n;
    load_numbers();
    gpu::sync();
    make_triangles();
  }

  // True if no document begins between token t and the state before (or after) the chunk.
  LAMINA_GPU_FUNCTION bool from_before(int t) const { return document_[t] == 0; }
  LAMINA_GPU_FUNCTION bool to_after(int t) const { return document_[t] == document_[kC - 1]; }

  // Returns exp(G_i - G_j) for tokens of one document with j <= i, else 0.
  LAMINA_GPU_FUNCTION float between(int i, int j) const {
    if (j > i || i >= size_ || document_[i] != document_[j]) return 0;
    return exp_of(sums_[i] - sums_[j]);
  }

  LAMINA_GPU_FUNCTION std::int64_t number(int t) const {
    return (b_ * r_.tokens + t_ + t) * r_.heads + n_;
  }

  const DeltaRuleParams& rule_;
  const Recurrence& r_;
  gpu::Shared<std::int32_t> document_;  // [kC]: documents that begin up to a token
  gpu::Shared<double> sums_;            // [kC]: G, in f64 for the precision of differences
  int keys_, size_ = 0;
  std::int64_t b_ = 0, key_head_ = 0, chunk_ = 0, t_ = 0, n_ = 0;
  SharedMatrix k_, q_, kk_, qk_;
  SharedMatrix l_, m_, inverse_;            // the inverse of I - l
  gpu::Shared<float> beta_, decay_, rest_;  // [kC]: decay = exp(G), rest = exp(G_C - G)
  gpu::Shared<float> k_factor_, q_factor_;  // [kC]: by which rows were multiplied

 private:
  LAMINA_GPU_FUNCTION void load_keys() {
    count_documents<kC>(r_, b_, t_, size_, document_);
    const DeltaKeys keys(rule_);
    struct Item {
      float q = 0, k = 0;
    };
    const auto fetch = [&](int at) {
      const int t = at / keys_;
      if (t >= size_) return Item{};
      const std::int64_t from = keys.row(b_, t_ + t, key_head_) + at % keys_;
      return Item{keys.q[from], keys.k[from]};
    };
    gpu::fetch_then_put(kC * keys_, fetch, [&](int at, const Item& item) {
      q_.set(at / keys_, at % keys_, item.q);
      k_.set(at / keys_, at % keys_, item.k);
    });
    gpu::sync();
    for (int t = gpu::warp_index(); t < kC; t += gpu::num_warps()) {
      const float by_q = rule_.scale * length_factor(rule_, q_.row(t), keys_);
      const float by_k = length_factor(rule_, k_.row(t), keys_);
      for (int h = gpu::lane(); h < keys_; h += gpu::kWarpSize) {
        q_.set(t, h, by_q * q_(t, h));
        k_.set(t, h, by_k * k_(t, h));
      }
      if (gpu::lane() == 0) q_factor_[t] = by_q, k_factor_[t] = by_k;
    }
  }

  LAMINA_GPU_FUNCTION void load_numbers() {
    const gpu::NumberReader g(rule_.g), beta(rule_.beta);
    const int i = gpu::thread_index();
    if (i < kC) {
      double sum = 0;
      for (int j = 0; j <= i && j < size_; ++j) {
        const double x = static_cast<double>(g[number(j)]);
        sum += x < ops::kLeastDeltaDecay ? ops::kLeastDeltaDecay : x;
      }
      sums_[i] = sum;
      beta_[i] = i < size_ ? beta[number(i)] : 0.0f;
    }
    gpu::sync();
    if (i < kC) {
      const double sum = sums_[i], last = sums_[kC - 1];
      decay_[i] = i < size_ && from_before(i) ? exp_of(sum) : 0.0f;
      rest_[i] = i < size_ && to_after(i) ? exp_of(last - sum) : 0.0f;
    }
  }

  // Computes the triangles l and m, and the inverse of I - l.
  LAMINA_GPU_FUNCTION void make_triangles() {
    for (int at = gpu::thread_index(); at < kC * kC; at += gpu::num_threads()) {
      const int i = at / kC, j = at % kC;
      const float decay = between(i, j);
      l_.set(i, j, j < i ? -beta_[i] * decay * kk_(i, j) : 0.0f);
      m_.set(i, j, decay * qk_(i, j));
    }
    gpu::sync();
    const int j = gpu::thread_index();  // a column of the inverse
    if (j >= kC) return;
    for (int i = 0; i < kC; ++i) {
      float sum = i == j ? 1.0f : 0.0f;
      for (int k = 0; k < i; ++k) sum = gpu::fma(l_(i, k), inverse_(k, j), sum);
      inverse_.set(i, j, sum);
    }
  }
};

}  // namespace
}  // namespace lamina::cuda
