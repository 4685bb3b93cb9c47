// The workloads of `lamina bench`, each timed together with the machine's limit for it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "decoder/model.h"
#include "device/device.h"
#include "io/weight_files.h"
#include "runtime/backend.h"

namespace lamina::bench {

struct BenchOptions {
  std::shared_ptr<const io::WeightFiles> files;  // null: random weights
  DType dtype = DType::bf16;
  std::int64_t batch = 1;     // sequences
  std::int64_t tokens = 512;  // per sequence: read, trained on, or written
  std::int64_t context = 16;  // for decoding: tokens per sequence before those that are written
  int repeats = 3;
  bool lazy_embeddings = false;     // as in [optimizer]
  bool offload = false;             // likewise
  std::string moments = "float32";  // likewise
  std::string remat = "none";       // as in [train]
  std::function<void(const std::string&)> profile =
      {};  // called with the time of every kernel, at the end
};

// The times of a workload's repeats, and the machine's limits during them. The result is the repeat
// with the median ratio: its time and its limits belong together.
struct BenchResult {
  struct Repeat {
    double seconds = 0;
    double bandwidth = 0;  // bytes per second
    double peak = 0;       // operations per second
  };

  double tokens = 0;            // per repeat, all sequences together
  std::vector<Repeat> repeats;  // in order
  double best_bandwidth = 0;    // of the fastest pass
  double bytes_per_token = 0;   // that must be read, in training also written
  double flops_per_token = 0;   // of products and attention

  double tokens_per_second() const { return tokens / median().seconds; }
  // The limit is the larger time of the two: of the bytes and of the operations.
  bool is_limited_by_bytes() const { return is_limited_by_bytes(median()); }
  double limit_tokens_per_second() const { return limit_tokens_per_second(median()); }
  double ratio() const { return ratio(median()); }
  double ratio(const Repeat& r) const { return tokens / r.seconds / limit_tokens_per_second(r); }
  const Repeat& median() const;

 private:
  bool is_limited_by_bytes(const Repeat& r) const {
    return bytes_per_token / r.bandwidth > flops_per_token / r.peak;
  }
  double limit_tokens_per_second(const Repeat& r) const {
    return is_limited_by_bytes(r) ? r.bandwidth / bytes_per_token : r.peak / flops_per_token;
  }
};

// Writes `tokens` tokens after `context` others, greedily. Bytes: weights and decode state. After
// each token a buffer much larger than the caches is read once; the bandwidth of a repeat is the
// mean rate of its passes.
BenchResult bench_decode(const decoder::Model& model, const BenchOptions& options,
                         const Backend& backend, const device::Device& device);
// Reads `tokens` tokens into empty decode state. Bytes: weights.
BenchResult bench_prefill(const decoder::Model& model, const BenchOptions& options,
                          const Backend& backend, const device::Device& device);
// One optimizer step, forward to update, after one that is not timed; always random weights. Bytes:
// weights in the forward and in the backward pass, gradients, and the update.
BenchResult bench_train(const decoder::Model& model, const BenchOptions& options,
                        const Backend& backend, const device::Device& device);

}  // namespace lamina::bench
