// What this machine can do at most, measured: the denominators of every benchmark's ratios.
#pragma once

#include "core/dtype.h"

namespace lamina::cpu {

// Bytes per second that all threads of the pool read from memory together: the best pass of at
// least `seconds` over a buffer much larger than the caches, on 2 MiB and on ordinary pages, each
// thread walking its own contiguous part. Allocates that buffer: 256 MiB, or 4 times the last cache
// if that is more. DeviceError (memory) when it cannot. [main thread, machine otherwise idle]
double measure_read_bandwidth(double seconds = 0.4);

// Floating point operations per second of all threads of the pool: multiply-adds between registers,
// counted as two, in f32, or in bf16 with f32 sums (vdpbf16ps). Where best_isa() has no bf16
// products the answer for bf16 is that for f32. The best of repeats that take `seconds` together.
// [main thread, machine otherwise idle]
double measure_peak_flops(DType dtype, double seconds = 0.2);

}  // namespace lamina::cpu
