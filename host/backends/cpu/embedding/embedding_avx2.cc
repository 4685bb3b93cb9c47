// Embedding rows for AVX2.
#include "backends/cpu/embedding/embedding_simd.cc"

namespace lamina::cpu {
const EmbeddingKernels kEmbeddingAvx2 = kKernels;
}
