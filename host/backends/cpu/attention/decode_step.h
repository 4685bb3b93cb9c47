// One step of a decoding pass over a cache, and its prefetches. Internal to each file that includes
// it.
#pragma once

#include "backends/cpu/attention/cells.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kDecodeKeys = 32;  // slots of a step
constexpr std::int64_t kDecodeRows = 16;  // maximum rows of a key head
constexpr std::int64_t kFoldedRows = 3;   // with more rows per head the keys are transposed

// One step: `count` <= kDecodeKeys slots of one batch row, all heads. The slots of the next step,
// if any, follow directly in the caches. S: the elements of the caches.
template <class S>
struct DecodeStep {
  const S *k, *v;                                 // slot 0 of head 0
  std::int64_t k_token, k_head, v_token, v_head;  // strides in elements
  std::int64_t heads, rows, count, qk_dim, v_dim, qk_vectors, v_vectors;
  std::int64_t lines;  // cache lines of one head in a step
  const Word* q;       // [heads, rows, query_words()]
  float* dots;         // [L, rows, L]
  float* scores;       // [heads * rows, kDecodeKeys]
  Word* weights;       // [heads * rows, kDecodeKeys]: words along the slots
  float* k_scale;      // [heads, kDecodeKeys]
  float* o;            // [heads * rows, v_vectors, elements of a vector]
};

// Prefetches one head's part of the next step, a few lines at a time, spread evenly over the
// arithmetic of this step: half during the scores, an eighth during the softmax, the rest during
// the values. Requests in bursts would stall the core, and without requests memory would idle.
class Ahead {
 public:
  // `slots` rows of `bytes` each; one row with all of them if the heads are contiguous.
  struct Run {
    const char* at;
    std::int64_t rows, lines, stride_bytes;
  };
  Ahead(const Run& k, const Run& v) : run_(k), next_(v) { begin_row(); }

  LAMINA_SIMD void ask(std::int64_t lines) {
    for (; lines > 0; --lines) {
      __builtin_prefetch(line_, 0, 2);
      line_ += 64;
      if (line_ >= end_) begin_row();
    }
  }

 private:
  void begin_row() {
    if (run_.rows == 0) {
      run_ = next_;
      next_.rows = 0;
    }
    if (run_.rows == 0) run_ = {line_, 1, 1, 0};  // all requested: repeats the last line
    line_ = run_.at;
    end_ = line_ + run_.lines * 64;
    run_.at += run_.stride_bytes;
    --run_.rows;
  }
  Run run_, next_;
  const char *line_ = nullptr, *end_ = nullptr;
};

}  // namespace
}  // namespace lamina::cpu
