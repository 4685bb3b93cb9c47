// Embedding rows for AVX2.
#include "backends/cpu/embedding_kernel.h"

namespace lamina::cpu {
const EmbeddingKernels kEmbeddingAvx2 = kKernels;
}
