// The loops that limits.cc times.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lamina::cpu {

// Does `rounds` rounds of independent multiply-adds on registers and returns the operations done.
// *sink receives a value that depends on all of them.
using FlopLoop = double (*)(std::int64_t rounds, float* sink);

// Reads num_bytes (a multiple of 512) front to back, asking for them 4 KiB ahead; returns a sum of
// them. The memory is 64-byte aligned.
using ReadLoop = std::uint64_t (*)(const std::byte* memory, std::size_t num_bytes);

struct LimitLoops {
  ReadLoop read;
  FlopLoop multiply_add;
  FlopLoop multiply_add_bf16 = nullptr;  // by vdpbf16ps: for avx512_bf16 only
  // Products of bytes by vpdpbusd; for avx2 by vpmaddwd, of bytes that are widened to 16 bits. Not
  // for portable.
  FlopLoop multiply_add_int8 = nullptr;
  // Products of bytes with integers of up to six bits, if these are faster: by vpmaddubsw, with
  // sums in 16 bits. For avx2 only.
  FlopLoop multiply_add_small_integers = nullptr;

  static const LimitLoops avx512, avx2, avx2_vnni, portable;
};

}  // namespace lamina::cpu
