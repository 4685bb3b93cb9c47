// A described GPU, known only by its data sheet: programs are compiled for it, with kernels and
// workspaces, but nothing runs. Needs neither a driver nor lamina_cuda.so nor cuBLASLt.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/described/cards.h"
#include "runtime/backend.h"

namespace lamina::cuda {

// Work that is put on its queue throws DeviceError (exit 7). Its products have the largest
// workspace that cuBLASLt may ask for.
std::unique_ptr<Backend> describe_backend(const Card& card);

// A kernel that was put on a queue.
struct Launch {
  std::string kernel;  // "cuBLASLt" for its products
  std::int64_t blocks = 1;
  int threads = 0;                // 0: of cuBLASLt, which decides
  std::int64_t shared_bytes = 0;  // dynamic
};

// While one exists, work of this thread for described GPUs is noted instead of refused. Nothing is
// computed: memory keeps its contents.
class LaunchNotes {
 public:
  LaunchNotes();
  ~LaunchNotes();
  LaunchNotes(const LaunchNotes&) = delete;
  LaunchNotes& operator=(const LaunchNotes&) = delete;

  // Returns the launches since the last call.
  std::vector<Launch> take();
};

}  // namespace lamina::cuda
