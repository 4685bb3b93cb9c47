// The memory of cross_entropy_grad.
#pragma once

#include <cstdint>

namespace lamina::cuda {

// The logits of a block of rows. Tests make it small.
inline std::int64_t most_logit_bytes = std::int64_t{1} << 30;

}  // namespace lamina::cuda
