// Multi-token prediction: after the stack, blocks that each look one token further ahead.
// DeepSeek-AI 2024, section 2.2.
//
// Block j (from 0) sees at token t what token t + 1 + j is, and predicts the one after it. Where
// that is of another document (or, chained, where the token before it is) it counts as token 0 and
// has no label.
#pragma once

#include <cstdint>

namespace lamina::decoder {

// The labels that all blocks together count: what the sum of their losses is divided by. [batch,
// tokens] each, row-major; `segments` may be null.
std::int64_t count_mtp_labels(const std::int32_t* labels, const std::int32_t* segments,
                              std::int64_t batch, std::int64_t tokens, std::int64_t depth,
                              bool chained);

}  // namespace lamina::decoder
