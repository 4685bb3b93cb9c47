// One step of a decoding pass over a cache. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/cells.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kDecodeKeys = 32;  // slots of a step
constexpr std::int64_t kDecodeRows = 16;  // maximum rows of a key head

// One step: `count` <= kDecodeKeys slots of one batch row, for the `heads` key heads of a task. The
// rows of the heads are counted head by head, and are the lanes of logits and weights. S: the
// elements of the caches.
template <class S>
struct DecodeStep {
  const S *k, *v;                                 // slot 0 of the first head
  std::int64_t k_token, k_head, v_token, v_head;  // strides in elements
  std::int64_t heads, rows, count, qk_dim, v_dim, qk_vectors, v_vectors;
  std::int64_t lanes;    // heads * rows, rounded up to whole vectors
  const Word* q;         // [heads * rows, query_words()]
  float* scores;         // [kDecodeKeys, heads * rows], and one vector
  Word* weights;         // [kDecodeKeys / slots of a word, lanes]
  float* weight_factor;  // [lanes]
  float* o;              // [heads * rows, v_vectors, elements of a vector]
};

// A block of slots of a step, and the memory to request while one head of it is computed.
struct SlotBlock {
  std::int64_t begin, end;  // in the step
  const char* ahead;
  std::int64_t ahead_bytes;
};

}  // namespace
}  // namespace lamina::cpu
