// Reports of a trace: a file for trace viewers, and the time per kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "runtime/trace.h"

namespace lamina::inspect {

// A named part of the time: "step 10".
struct Phase {
  std::string name;
  double begin_seconds = 0, seconds = 0;  // as in TraceEvent
};

// The JSON of Chrome's trace viewer (chrome://tracing, ui.perfetto.dev): complete events in
// microseconds, named by op, with kernel, scope, type, layer of a scan, operations and bytes. One
// row, because a kernel runs on all threads, and kernels run one after the other.
std::string chrome_trace(const Trace& trace, const std::vector<Phase>& phases);

// All calls of one kernel of an op with results of one type, or all copies in one direction, which
// are the op "copy" and have the bytes alone.
struct KernelTime {
  std::string op, kernel, type;
  bool is_copy = false;
  DType dtype = DType::f32;  // the type of products, given by the first operand
  std::int64_t calls = 0;
  double seconds = 0;
  double flops = 0;  // of products, as in OpCost; 0 for an op without products or count
  double bytes = 0;  // minimum read and written
};

// The longest first. Scans are not included, only the kernels in their bodies.
std::vector<KernelTime> kernel_times(const Trace& trace);

}  // namespace lamina::inspect
