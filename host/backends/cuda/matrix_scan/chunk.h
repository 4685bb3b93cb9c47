// One chunk of a matrix scan: its keys in shared memory, the keys after decays, and M of
// host/backends/cpu/scan/matrix_scan.h. For the gradient's kernel.
#pragma once

#include "backends/cuda/matrix_scan/chunk_loads.h"
#include "backends/cuda/matrix_scan/keys.h"

namespace lamina::cuda {
namespace {

// Rows and columns [0, kC) belong to q and k, [kC, 2 kC) to b and a. Rows of tokens beyond the
// chunk's are zeros.
class MatrixChunk {
 protected:
  static constexpr int kC = kMatrixChunk;

  LAMINA_GPU_FUNCTION MatrixChunk(const MatrixScanParams& params,
                                  gpu::Shared<std::int32_t> documents, SharedArena& memory)
      : scan_(params), r_(params.tokens), document_(documents) {
    ranked_ = r_.rank_one != RankOne::none;
    rows_ = ranked_ ? 2 * kC : kC;
    keys_ = static_cast<int>(r_.key_width);
    x_ = memory.matrix(rows_, keys_);
    z_ = memory.matrix(rows_, keys_);
    x_decayed_ = memory.matrix(rows_, keys_);
    z_decayed_ = memory.matrix(rows_, keys_);
    e_ = memory.matrix(kC, keys_);
    m_ = memory.matrix(rows_, rows_);
  }

  // Computes all members for chunk `chunk` of the pass's head `head`. The block syncs before it
  // reads them.
  LAMINA_GPU_FUNCTION void prepare(std::int64_t head, std::int64_t chunk) {
    head_ = head, chunk_ = chunk;
    b_ = (r_.first_head + head) / r_.heads, n_ = (r_.first_head + head) % r_.heads;
    t_ = chunk * kC;
    size_ = static_cast<int>(gpu::min(std::int64_t{kC}, r_.tokens - t_));
    load_keys();
    gpu::sync();
    decay();
    make_products();
    if (!ranked_) return;
    gpu::sync();
    if (gpu::warp_index() == 0) invert();
  }

  // True if no document begins between token t and the state before (or after) the chunk.
  LAMINA_GPU_FUNCTION bool from_before(int t) const { return document_[t] == 0; }
  LAMINA_GPU_FUNCTION bool to_after(int t) const { return document_[t] == document_[kC - 1]; }
  LAMINA_GPU_FUNCTION bool joined(int t, int j) const { return document_[t] == document_[j]; }

  const MatrixScanParams& scan_;
  const Recurrence& r_;
  gpu::Shared<std::int32_t> document_;  // [kC]: documents that begin up to a token
  bool ranked_;
  int rows_, keys_, size_ = 0;
  std::int64_t head_ = 0, chunk_ = 0, b_ = 0, n_ = 0, t_ = 0;
  SharedMatrix x_, z_, e_;
  SharedMatrix x_decayed_, z_decayed_;  // times the decays between them and the edge of the chunk
  SharedMatrix m_;  // the part of b and a is replaced by the inverse of I minus it

 private:
  LAMINA_GPU_FUNCTION void load_keys() {
    count_documents<kC>(r_, b_, t_, size_, document_);
    const auto rows = [&](int t) {
      KeyRows to{x_.row(t), z_.row(t), e_.row(t), {}, {}};
      if (ranked_) to.a = z_.row(kC + t), to.b = x_.row(kC + t);
      return to;
    };
    MatrixKeys(scan_).load(b_, t_, n_, size_, rows, keys_);
    for (int at = size_ * keys_ + gpu::thread_index(); at < kC * keys_; at += gpu::num_threads()) {
      const int t = at / keys_, h = at % keys_;
      e_.set(t, h, 1);
      for (int part = 0; part < rows_; part += kC) x_.set(part + t, h, 0), z_.set(part + t, h, 0);
    }
  }

  // Multiplies rows of b and columns by the decays between them and the edge of the chunk.
  LAMINA_GPU_FUNCTION void decay() {
    for (int h = gpu::thread_index(); h < keys_; h += gpu::num_threads()) {
      float before = 1;
      for (int t = 0; ranked_ && t < kC; ++t) {
        const float after = before * e_(t, h);
        const float decay = from_before(t) ? (r_.decay_first ? after : before) : 0.0f;
        x_decayed_.set(kC + t, h, x_(kC + t, h) * decay);
        before = after;
      }
      float rest = 1;
      for (int t = kC - 1; t >= 0; --t) {
        const float kept = to_after(t) ? rest : 0.0f;
        for (int part = 0; part < rows_; part += kC)
          z_decayed_.set(part + t, h, kept * z_(part + t, h));
        rest *= e_(t, h);
      }
    }
  }

  // Computes M; each thread has pairs of tokens.
  LAMINA_GPU_FUNCTION void make_products() {
    for (int pair = gpu::thread_index(); pair < kC * kC; pair += gpu::num_threads()) {
      const int t = pair / kC, j = pair % kC;
      float qk = 0, qa = 0, bk = 0, ba = 0;
      if (j == t && !r_.read_before) {
        for (int h = 0; h < keys_; ++h) {
          qk = gpu::fma(x_(t, h), z_(t, h), qk);
          if (ranked_) qa = gpu::fma(x_(t, h), z_(kC + t, h), qa);
        }
      } else if (j < t && joined(t, j)) {
        for (int h = 0; h < keys_; ++h) {
          float before = 1;
          for (int s = j + 1; s < t; ++s) before *= e_(s, h);
          const float after = before * e_(t, h);
          const float q = x_(t, h) * (r_.read_before ? before : after);
          qk = gpu::fma(q, z_(j, h), qk);
          if (!ranked_) continue;
          const float b = x_(kC + t, h) * (r_.decay_first ? after : before);
          qa = gpu::fma(q, z_(kC + j, h), qa);
          bk = gpu::fma(b, z_(j, h), bk);
          ba = gpu::fma(b, z_(kC + j, h), ba);
        }
      }
      m_.set(t, j, qk);
      if (!ranked_) continue;
      m_.set(t, kC + j, qa);
      m_.set(kC + t, j, bk);
      m_.set(kC + t, kC + j, ba);
    }
  }

  // Inverts row by row; a lane has a column. Rows are read before one of them is replaced.
  LAMINA_GPU_FUNCTION void invert() {
    const SharedMatrix triangle = m_.from_row(kC);
    const int j = gpu::lane();
    for (int i = 0; i < kC; ++i) {
      float sum = i == j ? 1.0f : 0.0f;
      for (int k = 0; j < kC && k < i; ++k)
        sum = gpu::fma(triangle(i, kC + k), triangle(k, kC + j), sum);
      gpu::sync_warp();
      if (j < kC) triangle.set(i, kC + j, sum);
      gpu::sync_warp();
    }
  }
};

}  // namespace
}  // namespace lamina::cuda
