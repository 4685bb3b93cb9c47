// A libcudnn.so.9 for tests with a cuDNN that is too old: it has all functions, and a version.
#include "backends/cuda/dnn/api.h"

#define FAKE(member, name) \
  extern "C" __attribute__((visibility("default"))) std::size_t name() { return 91002; }
LAMINA_CUDNN_FUNCTIONS(FAKE)
