// A libcudnn.so.9 for tests: it has all functions, and versions.
#include <string_view>

#include "backends/cuda/dnn/api.h"

namespace {

// Returns the answer of the function with this name.
constexpr std::size_t answer(std::string_view function) {
  return function == "cudnnGetCudartVersion" ? FAKE_CUDA_VERSION : FAKE_VERSION;
}

}  // namespace

#define FAKE(member, name) \
  extern "C" __attribute__((visibility("default"))) std::size_t name() { return answer(#name); }
LAMINA_CUDNN_FUNCTIONS(FAKE)
