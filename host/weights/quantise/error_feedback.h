// Rounds rows so that their products with typical inputs change little: the error of each value is
// passed on to the values after it (GPTQ; Frantar et al. 2022).
#pragma once

#include <cstddef>
#include <string>

#include "core/workers.h"
#include "weights/quantise/input_factor.h"
#include "weights/quantise/quantise.h"

namespace lamina::weights {

// Like encode_rows(), for formats that formats::ValueRounder rounds. A row depends on its own
// values and the factor alone. `values` is called from all threads. REQUIRES: matrix.width ==
// factor.width().
void encode_rows_with_feedback(const RowsToEncode& matrix, const std::string& where,
                               const RowSource& values, const InputFactor& factor,
                               const Workers& workers, std::byte* out);

}  // namespace lamina::weights
