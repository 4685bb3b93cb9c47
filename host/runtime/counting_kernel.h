// Kernels whose blocks count, eg the parts of a row that have ended.
//
// Counters are part of the arena of a program, so that its plan contains them. The program zeroes
// the counters of all its kernels at once before it runs them: one fill per run, and one per scan.
#pragma once

#include "runtime/kernel.h"

namespace lamina {

class CountingKernel : public Kernel {
 public:
  // Bytes of its counters. KernelArgs::outputs has their address after the results: aligned to 64
  // bytes, zero before run(). The work of run() must leave them zero, because a body of a scan
  // runs several times.
  virtual std::size_t counter_bytes() const = 0;
};

}  // namespace lamina
