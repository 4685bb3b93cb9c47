// What a trace says: a file that browsers show, and where the time went by kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "runtime/trace.h"

namespace lamina::inspect {

// A part of the time that has a name of its own: "step 10".
struct Phase {
  std::string name;
  double begin_seconds = 0, seconds = 0;  // as in TraceEvent
};

// The JSON of Chrome's trace viewer (chrome://tracing, ui.perfetto.dev): complete events in
// microseconds, named by op, with kernel, scope, type, layer of a scan, operations and bytes. One
// row: a kernel runs on all threads, and one after the other.
std::string chrome_trace(const Trace& trace, const std::vector<Phase>& phases);

// All calls of one kernel of an op with results of one type.
struct KernelTime {
  std::string op, kernel, type;
  DType dtype = DType::f32;  // that products are made in: of the first operand
  std::int64_t calls = 0;
  double seconds = 0;
  double flops = 0;  // of products, as OpCost counts them; 0 where an op has none or no count
  double bytes = 0;  // read and written at least
};

// The longest first. Scans are not among them: what runs in them is.
std::vector<KernelTime> kernel_times(const Trace& trace);

}  // namespace lamina::inspect
