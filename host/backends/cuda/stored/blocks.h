// Values stored in blocks, decoded in registers, for the formats of formats/block_formats.h: by the
// same products and sums, so with the same bits.
//
// A format has kValues values in kBytes bytes, which begin at a multiple of kAlignment bytes if the
// first block does, and
//   widen8(block, first, out): values [first, first + 8) of a block; first is a multiple of 8.
#pragma once

#include "backends/cuda/stored/gguf_blocks.h"
#include "backends/cuda/stored/group_blocks.h"

namespace lamina::cuda::stored {

// X(name, type) for each format; the name is the one of formats/block_formats.h in small letters.
// Formats of GGUF files only:
#define LAMINA_GGUF_FORMATS(X) \
  X(q4_0, Q40)                 \
  X(q4_1, Q41)                 \
  X(q5_0, Q50)                 \
  X(q5_1, Q51)                 \
  X(q8_0, Int8F16<32>)         \
  X(q2_k, Q2K)                 \
  X(q3_k, Q3K)                 \
  X(q4_k, Q4K)                 \
  X(q5_k, Q5K)                 \
  X(q6_k, Q6K)                 \
  X(iq4_nl, Iq4Nl)             \
  X(iq4_xs, Iq4Xs)
// Groups with a scale, also of other files:
#define LAMINA_GROUP_FORMATS(X) \
  X(mxfp4, Mxfp4)               \
  X(fp8, Fp8<128>)              \
  X(fp8_32, Fp8<32>)            \
  X(nvfp4, Nvfp4)               \
  X(int8_32, Int8Bf16<32>)      \
  X(int8_64, Int8Bf16<64>)      \
  X(int8_128, Int8Bf16<128>)    \
  X(int8_64_f16, Int8F16<64>)   \
  X(int8_128_f16, Int8F16<128>) \
  X(int4_32, Int4Bf16<32>)      \
  X(int4_64, Int4Bf16<64>)      \
  X(int4_128, Int4Bf16<128>)    \
  X(int4_64_f16, Int4F16<64>)   \
  X(int4_128_f16, Int4F16<128>) \
  X(int4z_32, Int4ZBf16<32>)    \
  X(int4z_64, Int4ZBf16<64>)    \
  X(int4z_128, Int4ZBf16<128>)  \
  X(int4z_32_f16, Int4ZF16<32>) \
  X(int4z_64_f16, Int4ZF16<64>) \
  X(int4z_128_f16, Int4ZF16<128>)
#define LAMINA_STORED_FORMATS(X) \
  LAMINA_GGUF_FORMATS(X)         \
  LAMINA_GROUP_FORMATS(X)

}  // namespace lamina::cuda::stored
