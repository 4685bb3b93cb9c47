// Weights as stored in checkpoints, plain or compressed, decoded to f32.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"
#include "io/packed_weight.h"
#include "io/weight_files.h"

namespace lamina::io {

// A weight of a checkpoint by its published name, with its scales under the names of
// publishers/formats.h:
//   plain: f32, bf16, f16, f64, or integers
//   f8 times the scale of its block of rows and columns; blocks have a size of
//     quantization_config, else 128 x 128. One scale for each row, for equal groups of a row, or
//     for the tensor, is also read. Scales in u8 are powers of two, like f8_e8m0
//   packed weights of several tensors (io/packed_weight.h), under the name of the weight
//   MXFP4 (kMxfp4Name), under the name of its blocks: u8[.., G, 16] and u8[.., G] are the values
//     [.., 32 G], E2M1 times 2^(scale - 127); Open Compute Project 2023
//   the same values with separate scales (kScalesNames): i8 or u8[.., N / 2], the low half of
//     each byte first, and f8_e8m0[.., N / 32 rounded up] give [.., N]
//   blocks of GGUF files (formats/block_formats.h), which contain their scales
// Rows of a head that are paired in the file are returned in the order of halves: row j of the
// first half is row 2 j of the file, and row j of the second half is row 2 j + 1.
// Errors (class checkpoint): f8 or i8 without scales, scales with a wrong shape, a type without
// values; scales that are not finite or negative, for FP4 when its values are read.
//   StoredWeight w(files, "model.layers.0.mlp.up_proj.weight");
//   std::vector<float> row(w.shape()[1]);
//   w.decode(7 * w.shape()[1], 1, row);
class StoredWeight {
 public:
  // REQUIRES: `files` outlives the object.
  StoredWeight(const WeightFiles& files, std::string_view name);

  const Shape& shape() const { return shape_; }
  // Returns whether the bytes are the values, in data().dtype.
  bool is_plain() const { return is_uncompressed() && head_rows_ == 0; }
  // Returns whether the bytes are the values, perhaps with rows in another order.
  bool is_uncompressed() const { return form_ == Form::plain; }
  const TensorView& data() const { return data_; }
  // Returns the packed form; null for other weights, and for MXFP4.
  const PackedWeight* packed() const { return packed_ ? &*packed_ : nullptr; }
  // Returns the tensors in the files that it consists of, and unused tensors that belong to it.
  std::vector<std::string_view> names() const;
  // out[i] = element first + i * stride, in row-major order.
  void decode(std::int64_t first, std::int64_t stride, std::span<float> out) const;

  // Returns the format of blocks along the last dim that has exactly these values; null for plain
  // values, and for blocks that do not divide the rows.
  const formats::BlockFormat* block_format() const;
  // Returns whether the bytes of data() are these blocks, in row-major order.
  bool is_in_blocks() const { return form_ == Form::blocks && head_rows_ == 0; }
  // Writes the blocks of elements first, first + 1, .. of one row. REQUIRES: block_format(); they
  // are `count` elements in whole blocks.
  void read_blocks(std::int64_t first, std::int64_t count, std::byte* out) const;

 private:
  enum class Form { plain, f8_blocks, fp4, blocks, packed };
  [[noreturn]] void fail(const std::string& what, const std::string& note) const;
  void open_f8();
  void open_mxfp4();
  void open_packed(const PackedTensors& tensors);
  void open_fp4_pairs(const std::string& scales);
  void check_f8_scales() const;
  Compression::Block f8_block() const;
  float fp4_scale(std::int64_t block) const;
  std::string scales_name() const;
  void decode_stored(std::int64_t first, std::int64_t stride, std::span<float> out) const;
  void decode_fp4(std::int64_t first, std::int64_t stride, std::span<float> out) const;
  void decode_blocks(std::int64_t first, std::int64_t stride, std::span<float> out) const;
  float f8_scale(std::int64_t element) const;
  std::int64_t stored_row(std::int64_t row) const;

  const WeightFiles* files_;
  Form form_ = Form::plain;
  TensorView data_, scales_;
  const formats::BlockFormat* blocks_ = nullptr;
  const PackedTensors* tensors_ = nullptr;
  std::optional<PackedWeight> packed_;  // for Form::packed
  std::vector<float> scale_values_;     // for f8_blocks, row-major
  std::int64_t block_rows_ = 0, block_columns_ = 0, grid_rows_ = 0, grid_columns_ = 0;
  std::int64_t head_rows_ = 0;  // WeightFiles::paired_rows()
  Shape shape_;
};

}  // namespace lamina::io
