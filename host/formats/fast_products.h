// Formats whose products need no widened rows.
#pragma once

#include "formats/block_formats.h"

namespace lamina::formats {

// Returns whether backends multiply blocks of the format as they are, in runs of bf16. Rows of the
// other formats are widened before each product, which is slower than reading widened weights.
bool has_fast_products(const BlockFormat& format);

}  // namespace lamina::formats
