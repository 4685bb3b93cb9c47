// Quantises weights while they are loaded.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/workers.h"
#include "io/weight_files.h"
#include "weights/match/tensor_map.h"
#include "weights/quantise/rules.h"

namespace lamina::weights {

// Sets the storage of the parameters of `what`; others keep theirs. Weights::load() then rounds
// their values to blocks. `files` is null for random weights.
// UserError (exit 2): as choose_storage(); a parameter to be quantised is compressed in the files.
void quantise(decoder::Model& model, const io::WeightFiles* files, DType compute,
              const Quantisation& what);

// Likewise with the result of choose_storage(), or formats of the same parameters. REQUIRES: they
// are plain in the files (check_are_plain()).
void set_quantised(decoder::Model& model, std::vector<const formats::BlockFormat*> storages);

// UserError (exit 2) at `what.option`: some of these parameters, which are to be quantised, are
// compressed in the files. REQUIRES: `map` is match_weights(model, files).
void check_are_plain(const decoder::Model& model, std::span<const int> parameters,
                     const Quantisation& what, const TensorMap& map, const io::WeightFiles& files);
// Returns the parameters with a storage.
std::vector<int> quantised_parameters(std::span<const formats::BlockFormat* const> storages);

// A parameter or a published tensor to be stored in blocks, as rows.
struct RowsToEncode {
  std::string name;  // for errors
  const formats::BlockFormat* format;
  std::int64_t rows, width;
};
RowsToEncode rows_of(const decoder::Parameter& parameter);

// Rounds f32 values to blocks, row-major, in parallel. `values` writes the elements first, first +
// 1, .. (whole rows) and is called from all threads.
// UserError (exit 4) at `where`: values that are not finite.
using RowSource = std::function<void(std::int64_t first, std::span<float> out)>;
void encode_rows(const RowsToEncode& matrix, const std::string& where, const RowSource& values,
                 const Workers& workers, std::byte* out);

// Throws the error of encode_rows() for a row with a value that is not finite.
[[noreturn]] void refuse_row(const RowsToEncode& matrix, const std::string& where,
                             std::int64_t row);

// Reads a parameter with pieces and rounds it to its storage. Uses memory for some rows per thread.
// REQUIRES: `map` is match_weights(model, files).
void read_quantised(const decoder::Parameter& parameter, const TensorMap& map,
                    const io::WeightFiles& files, int index, const Workers& workers,
                    std::byte* out);

}  // namespace lamina::weights
