// Embedding rows for AVX-512.
#include "backends/cpu/embedding/embedding_simd.cc"

namespace lamina::cpu {
const EmbeddingKernels kEmbeddingAvx512 = kKernels;
}
