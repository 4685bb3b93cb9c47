// Measures the time from a model's description to programs that can run.
#pragma once

#include <functional>
#include <memory>

#include "decoder/model.h"
#include "runtime/backend.h"

namespace lamina::bench {

// Seconds, medians of the repeats: tracing, passes, choice of kernels, memory plan. Plugins are
// loaded and the configuration is read before; each repeat counts the first use of a fresh model.
struct CompileTimes {
  double train = 0;    // rows of `tokens` tokens with their gradients
  double prefill = 0;  // `tokens` tokens into decode state
  double decode = 0;   // one token
};

struct CompileOptions {
  DType dtype = DType::bf16;
  std::int64_t tokens = 512;  // at most the number of the model's positions
  int repeats = 3;
};

CompileTimes bench_compile(const std::function<std::unique_ptr<decoder::Model>()>& open,
                           const CompileOptions& options, const Backend& backend);

}  // namespace lamina::bench
