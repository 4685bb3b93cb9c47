// The interface of formats whose values are integers times scales and are read 64 at a time.
// Internal to each file that includes it.
//
//   struct F { kValues, kBytes;   // of a block
//              kOffset;           // code - kOffset is the integer; codes are unsigned bytes
//              kMaxCode;          // the largest code; the offset is 128 if it exceeds 127
//              kHasMinimum;       // value = scale * integer + minimum
//              kScaleValues;      // that share a scale: 16, or 32 and more
//              X;                 // the form of x for few rows: QuantisedStep, or see below
//              open(blocks), codes(blocks, step), scales(...), minima(...); };
//
// A step is 64 values, of two blocks if they have 32. A scale belongs to a lane of 4 values: see
// QuantisedStep. A form that costs less to read than two or four steps has more functions:
//
//   QuantisedHalves: halves(blocks, codes[2]), scales_of_four(blocks), minima_of_four(blocks)
//   QuantisedParts: part_codes(block, pair, codes[2]), scales and minima of open(block): eight
#pragma once

#include "backends/cpu/stored/integer_bytes_simd.h"
#include "backends/cpu/stored/integer_scales_simd.h"

namespace lamina::cpu {
namespace {

struct None {};

}  // namespace
}  // namespace lamina::cpu
