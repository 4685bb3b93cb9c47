// cuBLASLt, opened for one GPU, and the algorithms that were chosen in this process.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>

#include "backends/cuda/blas/api.h"

namespace lamina::cuda::blas {

// Throws DeviceError (exit 7), or InternalError if the arguments were wrong, unless `status` is
// success. `function` is the name in NVIDIA's documentation.
void check(const Api& api, Status status, std::string_view function);

// All facts that the choice of an algorithm depends on. The library's version and the GPU do not
// change for the life of a Library.
struct ProblemKey {
  std::int64_t batch, m, n, k, lda, ldc;  // other strides follow from them
  std::int32_t in, out;                   // DataType
  bool a_transposed, b_transposed, accumulate, bias;
  std::uint32_t alignment;  // of all operands, bytes
  friend auto operator<=>(const ProblemKey&, const ProblemKey&) = default;
};

struct AlgorithmChoice {
  Algorithm algorithm;
  std::size_t workspace_bytes;
};

class Library {
 public:
  // REQUIRES: the context of the GPU is current on this thread, here and at the end of the object's
  // life.
  explicit Library(const Api& api);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Api& api() const { return api_; }
  Handle handle() const { return handle_; }

  // Returns the algorithm for the problem; `choose` is called for each problem once. [any thread]
  AlgorithmChoice choice(const ProblemKey& problem, const std::function<AlgorithmChoice()>& choose);

 private:
  Api api_;
  Handle handle_ = nullptr;
  std::mutex mutex_;
  std::map<ProblemKey, AlgorithmChoice> choices_;
};

}  // namespace lamina::cuda::blas
