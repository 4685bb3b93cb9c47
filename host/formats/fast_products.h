// Formats whose products need no widened rows.
#pragma once

#include "formats/block_formats.h"

namespace lamina::formats {

// Returns whether the CPU backend multiplies blocks of the format as they are, in runs of bf16.
// Rows of the other formats (FP8) are widened before products of many rows.
bool has_fast_products(const BlockFormat& format);

// Returns whether the integers of a format with fast products have up to six bits. Some CPUs
// multiply these at twice the rate of bytes, because their sums fit into fewer bits.
bool has_small_integers(const BlockFormat& format);

}  // namespace lamina::formats
