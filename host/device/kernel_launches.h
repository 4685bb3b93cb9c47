// The kernels that a program launches on a described GPU: one known only by its data sheet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "runtime/program.h"

namespace lamina::device {

// The launches of one kernel for one op.
struct KernelLaunches {
  std::string op, kernel;   // "cuBLASLt": a product of the library, without the numbers below
  std::int64_t count = 0;   // launches of a run
  std::int64_t blocks = 0;  // of the largest launch, and so on
  int threads = 0;
  std::int64_t shared_bytes = 0;  // static and dynamic
  int registers = 0;              // of a thread; 0: the tables do not have the kernel
  int warps = 0, most_warps = 0;  // on a multiprocessor at once, and that it takes at most
  std::string limited_by;         // the resource that allows no further block
};

// Runs the program without computing. Returns the kernels in the order of their first launches.
// REQUIRES: the program was compiled for `gpu`, and gpu.computes() is false.
std::vector<KernelLaunches> kernel_launches(const Device& gpu, Program& program);

}  // namespace lamina::device
