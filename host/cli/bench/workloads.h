// The workloads of `lamina bench`, each timed together with the limit of the machine that it is
// measured against.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "decoder/model.h"
#include "runtime/backend.h"

namespace lamina::cli {

struct BenchOptions {
  std::string directory;  // with weights; empty: random ones
  DType dtype = DType::bf16;
  std::int64_t batch = 1;     // sequences
  std::int64_t tokens = 512;  // of a sequence: read, trained on, or written
  int repeats = 3;
  std::function<void(const std::string&)> profile =
      {};  // given the time of every kernel, at the end
};

// One measured workload: the median of the repeats, and the larger of the limits measured before
// and after them.
struct BenchResult {
  double tokens = 0;            // of a repeat, all sequences together
  std::vector<double> seconds;  // of each repeat
  double read_bandwidth = 0;    // bytes per second; 0 where it is not the limit
  double peak_flops = 0;        // per second; 0 where it is not the limit
  double bytes_per_token = 0;   // that must be read
  double flops_per_token = 0;   // of products and attention

  double median_seconds() const;
  double tokens_per_second() const { return tokens / median_seconds(); }
  double limit_tokens_per_second() const;
  double ratio() const { return tokens_per_second() / limit_tokens_per_second(); }
};

// Writes `tokens` tokens after 16 others, greedily. Limited by reading weights and decode state.
BenchResult bench_decode(const decoder::Model& model, const BenchOptions& options,
                         const Backend& backend);
// Reads `tokens` tokens into empty decode state. Limited by products and attention.
BenchResult bench_prefill(const decoder::Model& model, const BenchOptions& options,
                          const Backend& backend);
// One optimizer step, forward to update, after one that is not timed; always random weights.
BenchResult bench_train(const decoder::Model& model, const BenchOptions& options,
                        const Backend& backend);

}  // namespace lamina::cli
