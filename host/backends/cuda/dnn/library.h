// cuDNN, opened for one GPU.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "backends/cuda/dnn/api.h"

namespace lamina::cuda::dnn {

// Throws DeviceError (exit 7), or InternalError if the arguments were wrong, unless `status` is
// success. `function` is the name in NVIDIA's documentation.
void check(const DnnApi& api, DnnStatus status, std::string_view function);

// Returns the library's reason for the last failure on this thread, or "".
std::string last_error(const DnnApi& api);

class AttentionPlan;
struct DnnAttentionSpec;
// The plan of a problem, or the library's reason against it.
struct Planned {
  std::shared_ptr<const AttentionPlan> plan;
  std::string why_not;
};

class DnnLibrary {
 public:
  // REQUIRES: the context of the GPU is current on this thread, here and at the end of the object's
  // life.
  explicit DnnLibrary(const DnnApi& api);
  ~DnnLibrary();
  DnnLibrary(const DnnLibrary&) = delete;
  DnnLibrary& operator=(const DnnLibrary&) = delete;

  const DnnApi& api() const { return api_; }
  DnnHandle handle() const { return handle_; }

  // Plans are made once for each problem: one takes half a second. [any thread]
  Planned plan(const DnnAttentionSpec& spec);
  // Enqueues a plan on the stream. [any thread]
  void execute(DnnStream stream, Descriptor plan, Descriptor variant_pack);

 private:
  struct Plans;

  const DnnApi& api_;
  DnnHandle handle_ = nullptr;
  std::mutex mutex_;
  DnnStream stream_ = nullptr;  // of the handle
  std::unique_ptr<Plans> plans_;
};

}  // namespace lamina::cuda::dnn
