// Products of few rows with matrices in the formats with groups.
#include "backends/cuda/gemm/few_rows_stored.h"

namespace lamina::cuda {

LAMINA_GROUP_FORMATS(LAMINA_FEW_STORED_ROWS)

}  // namespace lamina::cuda
