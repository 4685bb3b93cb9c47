// Weights of quantised checkpoints that consist of several tensors: integers or FP4 numbers, their
// scales and zero points.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"
#include "formats/block_formats.h"
#include "io/safetensors.h"

namespace lamina::io {

class WeightFiles;

// The tensors of one weight by their names in the files; empty if there is none.
struct PackedTensors {
  // Order of the stored numbers of a matrix [rows, columns]:
  enum class Order {
    words,  // u32[rows, columns / n]: n numbers of a row, the lowest bits first
    bytes,  // i8[rows, columns]
    gptq,   // u32[columns / n, rows]: n numbers of a row, the lowest bits first
    awq,    // u32[columns, rows / 8]: a number of 8 rows, in the order 0, 2, 4, 6, 1, 3, 5, 7
    pairs,  // u8[rows, columns / 2] of FP4 numbers, the low half first
  };
  Order order;
  std::string values, scales, zero_points, group_index, shape, global_scale;
  std::vector<std::string> others;  // scales of activations

  std::vector<std::string_view> names() const;
};

// Finds the packed weights among the tensors of `files`, by the name of the weight. Errors (class
// checkpoint): packed tensors without a matching quantization_config, and a weight that is stored
// twice.
std::map<std::string, PackedTensors, std::less<>> find_packed(const WeightFiles& files);

// Refuses tensors beside MXFP4 values of this shape that would change or contradict them (class
// checkpoint): zero points, columns in another order, another shape.
void check_parts_of_mxfp4(const WeightFiles& files, const PackedTensors& tensors,
                          const Shape& shape, std::int64_t group_size);

// A packed matrix. Value = scale * (number - zero point), rounded to f32 once; FP4 numbers:
// number * (scale / global scale).
// Errors (class checkpoint), with the tensor, found and expected: shapes, types and group sizes
// that contradict each other or quantization_config; when values are read, scales that are not
// finite, of FP4 negative, or of integers zero for numbers other than zero.
class PackedWeight {
 public:
  // REQUIRES: both outlive the object.
  PackedWeight(const WeightFiles& files, const PackedTensors& tensors);

  const Shape& shape() const { return shape_; }
  int bits() const { return bits_; }
  bool is_float() const { return tensors_->order == PackedTensors::Order::pairs; }
  bool has_zero_points() const { return has_zero_points_; }
  bool is_reordered() const { return !group_index_.empty(); }
  // Columns with one scale; the width of the matrix if a row or more has one scale.
  std::int64_t group_size() const { return group_size_; }
  // The scales in the files: one for each group of each row, for each row, or for the matrix.
  std::int64_t num_scales() const { return scales_.shape.num_elements(); }

  // out[i] = element first + i * stride, in row-major order.
  void decode(std::int64_t first, std::int64_t stride, std::span<float> out) const;
  // As in StoredWeight.
  const formats::BlockFormat* block_format() const { return format_; }
  void read_blocks(std::int64_t first, std::int64_t count, std::byte* out) const;

 private:
  struct Group {
    float scale, zero;  // for FP4 the quotient of the scales
  };

  [[noreturn]] void fail(const TensorView& tensor, const std::string& what,
                         const std::string& note = {}) const;
  [[noreturn]] void refuse_scale(std::int64_t row, std::int64_t group, float scale) const;
  const TensorView& require_dtype(const TensorView& tensor,
                                  std::initializer_list<DType> dtypes) const;
  void open_words();
  void open_bytes();
  void open_transposed();
  void open_pairs();
  void open_scales();
  void open_zero_points();
  void open_group_index();
  const formats::BlockFormat* choose_format() const;
  std::int64_t group_of(std::int64_t column) const {
    return group_index_.empty() ? column / group_size_
                                : group_index_[static_cast<std::size_t>(column)];
  }
  std::int64_t place_of_scale(std::int64_t row, std::int64_t group) const {
    return row * scale_row_stride_ + group * scale_group_stride_;
  }
  float scale_of(std::int64_t row, std::int64_t group) const;
  int zero_of(std::int64_t row, std::int64_t group) const;
  Group group_at(std::int64_t row, std::int64_t group) const;
  template <typename Use>
  void with_numbers(std::int64_t row, const Use& use) const;
  template <typename Number>
  void check_zero(std::int64_t row, std::int64_t of, std::int64_t first, std::int64_t count,
                  const Group& group, const Number& number) const;
  void decode_row(std::int64_t row, std::int64_t first, std::span<float> out) const;
  template <typename Number>
  void write_pairs(std::int64_t first, const Number& number, std::byte* out) const;
  template <typename Number>
  void write_floats(std::int64_t row, std::int64_t first, const Number& number,
                    std::byte* out) const;
  template <typename Number>
  void write_integers(std::int64_t row, std::int64_t first, const Number& number,
                      std::byte* out) const;

  const WeightFiles* files_;
  const PackedTensors* tensors_;
  TensorView values_, scales_, zero_points_;
  Shape shape_;
  std::int64_t rows_ = 0, columns_ = 0, group_size_ = 0, num_groups_ = 1;
  std::int64_t scale_row_stride_ = 0, scale_group_stride_ = 0;
  int bits_ = 4, default_zero_ = 8;
  std::uint32_t zero_offset_ = 0;  // is added to stored words of zero points
  bool has_zero_points_ = false;   // that differ from default_zero_
  float global_scale_ = 1;
  std::vector<std::int32_t> group_index_;  // group of each column; empty: in order
  const formats::BlockFormat* format_ = nullptr;
};

}  // namespace lamina::io
