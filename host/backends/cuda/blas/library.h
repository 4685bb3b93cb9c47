// cuBLASLt, opened for one GPU, and the algorithms that were chosen.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "backends/cuda/blas/api.h"
#include "backends/cuda/blas/choice_file.h"

namespace lamina::cuda::blas {

// Throws DeviceError (exit 7), or InternalError if the arguments were wrong, unless `status` is
// success. `function` is the name in NVIDIA's documentation.
void check(const Api& api, Status status, std::string_view function);

class Library {
 public:
  // REQUIRES: the context of the GPU is current on this thread, here and at the end of the object's
  // life.
  // `tf32`: products of f32 may use it. `file` keeps choices for later processes; null for none.
  Library(const Api& api, bool tf32, std::unique_ptr<ChoiceFile> file = nullptr);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Api& api() const { return api_; }
  Handle handle() const { return handle_; }
  bool tf32() const { return tf32_; }

  // Returns the algorithm for the problem; `choose` is called for each problem once, if the file
  // does not know it. [any thread]
  AlgorithmChoice choice(const ProblemKey& problem, const std::function<AlgorithmChoice()>& choose);

 private:
  Api api_;
  bool tf32_;
  Handle handle_ = nullptr;
  std::mutex mutex_;
  std::map<ProblemKey, AlgorithmChoice> choices_;
  std::unique_ptr<ChoiceFile> file_;
};

}  // namespace lamina::cuda::blas
