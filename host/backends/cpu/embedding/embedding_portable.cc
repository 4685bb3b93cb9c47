// Embedding rows for any machine.
#include "backends/cpu/embedding/embedding_simd.cc"

namespace lamina::cpu {
const EmbeddingKernels kEmbeddingPortable = kKernels;
}
