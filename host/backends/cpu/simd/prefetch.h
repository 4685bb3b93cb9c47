// Requests of cache lines that will be written. Internal to each file that includes it.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace lamina::cpu {
namespace {

// Requests the line of an address, which need not be valid, for writing. Without -mprfchw compilers
// turn __builtin_prefetch(p, 1) into a request for reading: stores to a line that several cores
// have read then wait until the others have dropped it. CPUs with AVX2 have the instruction, or
// ignore it.
LAMINA_SIMD void prefetch_for_writing(const void* p) {
#if defined(__AVX2__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1);
#endif
}

}  // namespace
}  // namespace lamina::cpu
