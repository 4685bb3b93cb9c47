// Parameters that keep the blocks of their files in memory.
#pragma once

#include <cstddef>

#include "core/workers.h"
#include "decoder/model.h"
#include "io/weight_files.h"
#include "weights/match/tensor_map.h"

namespace lamina::weights {

// The blocks that stay in memory: all, or only parameters in bf16 whose format has fast products
// (formats::has_fast_products), because reading blocks is faster than reading bf16 then.
enum class KeptBlocks { all, fast };

// Sets the storage (Parameter::storage) of the parameters that Weights::load() shall read in blocks
// in runs of `compute`: the files contain them in blocks, and graphs without training can read them
// so; with `losses` also graphs of losses. Does nothing if the files have no blocks.
void keep_blocks(decoder::Model& model, const io::WeightFiles& files, DType compute,
                 KeptBlocks kept = KeptBlocks::all, bool losses = false);

// Returns the format in which the files contain all rows of a parameter, as whole blocks; null if
// there is none.
const formats::BlockFormat* stored_format(const decoder::Parameter& parameter, const TensorMap& map,
                                          const io::WeightFiles& files, int index);
// Returns the blocks of a parameter with storage in the files, if they are adjacent; else null.
const std::byte* blocks_in_place(const TensorMap& map, const io::WeightFiles& files, int parameter);
// Reads the blocks of a parameter with storage, row-major, with `workers`.
void read_blocks(const TensorMap& map, const io::WeightFiles& files, int parameter, std::byte* out,
                 const Workers& workers = {});

// Returns the first element of row `row` of a piece, in the published tensor.
std::int64_t begin_of_row(const StridedView& view, std::int64_t row);

}  // namespace lamina::weights
