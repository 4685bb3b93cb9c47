// Embedding rows for AVX-512.
#include "backends/cpu/embedding_kernel.h"

namespace lamina::cpu {
const EmbeddingKernels kEmbeddingAvx512 = kKernels;
}
