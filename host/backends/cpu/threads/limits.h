// Measured limits of this machine: the denominators of every benchmark's ratios.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/dtype.h"
#include "formats/block_formats.h"

namespace lamina::cpu {

// Reads a buffer much larger than the caches once per pass with all threads of the pool, each a
// contiguous part as fast as it can. Measures the current bandwidth, for comparison with work
// between the passes.
class MemoryReader {
 public:
  // Allocates and touches the buffer, 256 MiB or 4 times the last cache if that is more, on 2 MiB
  // or on ordinary pages. DeviceError (memory) if there is no room.
  explicit MemoryReader(bool huge_pages = true);
  ~MemoryReader();
  std::size_t bytes() const;
  // Takes one pass and returns its seconds. [main thread]
  double pass() const;

 private:
  class Pages;
  std::unique_ptr<Pages> pages_;
  std::size_t bytes_ = 0;
};

// Returns the bytes per second that all threads of the pool read from memory together: the best
// pass of a MemoryReader in at least `seconds`, on 2 MiB and on ordinary pages. DeviceError
// (memory) if there is no room. [main thread, machine otherwise idle]
double measure_read_bandwidth(double seconds = 0.4);

// Returns the operations per second of all threads of the pool: multiply-adds between registers,
// counted as two, by the fastest unit that has them: in f32; in bf16 with f32 sums (AMX,
// vdpbf16ps); in i8 with i32 sums (AMX, vpdpbusd, vpmaddwd). If there is no such unit, bf16 and i8
// are measured as f32. The best of repeats that take `seconds` together. [main thread, machine
// otherwise idle]
double measure_peak_flops(DType dtype, double seconds = 0.2);

// Likewise for products of bf16 with a matrix that is stored in blocks of `storage`; null: not in
// blocks. Formats with fast products are multiplied in i8, their integers of few bits by a faster
// instruction if there is one. [main thread, machine otherwise idle]
double measure_peak_flops(DType dtype, const formats::BlockFormat* storage, double seconds = 0.2);

// Below: the loops that limits.cc times. Private to limits*.cc.

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
