// Quantised matrices in the layout of compressed-tensors 0.20, which transformers and vLLM read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_writer.h"
#include "formats/block_formats.h"
#include "io/safetensors_writer.h"
#include "weights/match/tensor_map.h"

namespace lamina::weights {

// A published matrix "NAME.weight" that is stored in blocks.
struct CompressedMatrix {
  std::string module;  // NAME
  const formats::BlockFormat* format;
  std::int64_t rows, columns;
  bool of_expert;  // one of a layer's experts
};

// Returns the matrix of a published tensor whose parameters have a storage; nothing if they are
// plain. UserError (exit 2): the layout has no form for it, because it is no matrix "NAME.weight",
// its rows are not the parameters' rows, or their formats differ.
std::optional<CompressedMatrix> compressed_matrix(const decoder::Model& model, const TensorMap& map,
                                                  const PublishedTensor& tensor);

// Returns the modules of the other matrices that may be a "Linear" of other programs, under their
// names in files and in the classes of transformers.
std::vector<std::string> plain_modules(const decoder::Model& model, const TensorMap& map,
                                       std::span<const CompressedMatrix> matrices);

// Returns its tensors:
//   int8, int4 (pack-quantized): NAME.weight_packed i32, values plus 2^(bits - 1), the first in the
//     lowest bits; NAME.weight_scale bf16[rows, groups]; NAME.weight_shape i64[2]
//   fp8 (float-quantized): NAME.weight f8_e4m3; NAME.weight_scale bf16[rows, 1]
//   mxfp4 (mxfp4-pack-quantized): NAME.weight_packed u8, the first value in the low half;
//     NAME.weight_scale u8[rows, groups], exponents plus 127
//   nvfp4 (nvfp4-pack-quantized): NAME.weight_packed likewise; NAME.weight_scale f8_e4m3[rows,
//     groups of 16]; NAME.weight_global_scale f32[1], which divides the scales
// REQUIRES: formats::is_encoded(*matrix.format).
std::vector<io::TensorSpec> compressed_tensors(const CompressedMatrix& matrix);

// Returns the bytes of one of these tensors from the blocks of the matrix. UserError (exit 2):
// blocks of NVFP4 whose scales cannot share a global scale, because rows have very different sizes.
std::vector<std::byte> compressed_bytes(const CompressedMatrix& matrix, std::string_view tensor,
                                        std::span<const std::byte> blocks);

// Returns why transformers cannot read the experts: it has one format for the experts of all
// layers, and no global scales for them. Nothing if it can.
std::optional<std::string> obstacle_of_experts(const decoder::Model& model, const TensorMap& map,
                                               std::span<const CompressedMatrix> matrices);

// Writes the value of quantization_config: a group of modules for each format. The first is for all
// "Linear" modules but the modules of other groups and the `ignored` ones. It is the format of most
// values of experts, because transformers uses the first group for them; without experts, of most
// values. REQUIRES: `matrices` is not empty.
void write_quantization_config(JsonWriter& json, std::span<const CompressedMatrix> matrices,
                               std::span<const std::string> ignored);

}  // namespace lamina::weights
