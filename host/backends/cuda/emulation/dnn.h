// A fake cuDNN for the emulated GPU: graphs of products, pointwise operations and reductions,
// computed operation by operation as NVIDIA documents them, as work of a stream. Calls that break a
// rule of the documentation return its status, and last_error() has the reason: attributes of
// another type or count, descriptors that are not finished or are changed afterwards, shapes that
// do not fit, tensors without a place, places that are not aligned or outside of the GPU's memory.
// Graphs that no engine of the Hopper generation takes have no engines.
#pragma once

#include <string_view>

#include "backends/cuda/dnn/open.h"

namespace lamina::cuda::emulation {

// [any thread]
const dnn::Opened& dnn_opened();

// The next call of the function with this name, eg "cudnnBackendExecute", returns the status.
void fail_next_dnn_call(std::string_view function, dnn::DnnStatus status);

// While one exists, no engine takes a graph.
class NoDnnEngines {
 public:
  NoDnnEngines();
  ~NoDnnEngines();
  NoDnnEngines(const NoDnnEngines&) = delete;
  NoDnnEngines& operator=(const NoDnnEngines&) = delete;
};

// Counts since the start of the process.
struct DnnCalls {
  int plans;
  int executions;
};
DnnCalls dnn_calls();

// Number of handles and descriptors that are not destroyed.
int num_dnn_objects();

}  // namespace lamina::cuda::emulation
