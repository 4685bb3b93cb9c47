// Embedding rows for any machine.
#include "backends/cpu/embedding_kernel.h"

namespace lamina::cpu {
const EmbeddingKernels kEmbeddingPortable = kKernels;
}
