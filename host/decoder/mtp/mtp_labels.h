// The labels of multi-token prediction, see mtp.h.
#pragma once

#include <cstdint>

namespace lamina::decoder {

// Returns the number of labels that all blocks together count, the denominator of their loss.
// [batch, tokens] each, row-major; `segments` may be null.
std::int64_t count_mtp_labels(const std::int32_t* labels, const std::int32_t* segments,
                              std::int64_t batch, std::int64_t tokens, std::int64_t depth,
                              bool chained);

}  // namespace lamina::decoder
