// Products of few rows with matrices in the formats of GGUF files.
#include "backends/cuda/gemm/few_rows_stored.h"

namespace lamina::cuda {

LAMINA_GGUF_FORMATS(LAMINA_FEW_STORED_ROWS)

}  // namespace lamina::cuda
