// Opens packed weights: checks that the tensors of a weight fit each other and the configuration.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/round_up.h"
#include "formats/lookup.h"
#include "io/packed_weight.h"
#include "io/weight_files.h"

namespace lamina::io {
namespace {

using Order = PackedTensors::Order;

constexpr const char* kExportAgain = "the checkpoint is inconsistent: download or export it again";

std::int64_t integer_at(const TensorView& view, std::int64_t at) {
  if (view.dtype == DType::i32) {
    std::int32_t value;
    std::memcpy(&value, view.bytes.data() + at * 4, sizeof value);
    return value;
  }
  std::int64_t value;
  std::memcpy(&value, view.bytes.data() + at * 8, sizeof value);
  return value;
}

std::string text(const TensorView& view) {
  return fmt::format("{}{}", name(view.dtype), to_string(view.shape));
}

[[noreturn]] void refuse_packed(const WeightFiles& files, const TensorView& tensor,
                                const std::string& what, const std::string& note = {}) {
  throw UserError(ExitCode::checkpoint, {files.path_of(tensor.name),
                                         fmt::format("tensor '{}' {}", tensor.name, what),
                                         {note.empty() ? kExportAgain : note}});
}

const TensorView& require_type(const WeightFiles& files, const TensorView& tensor,
                               std::initializer_list<DType> dtypes) {
  if (std::ranges::find(dtypes, tensor.dtype) != dtypes.end()) return tensor;
  std::string expected;
  for (const DType dtype : dtypes)
    expected += fmt::format("{}{}", expected.empty() ? "" : " or ", name(dtype));
  refuse_packed(files, tensor,
                fmt::format("has element type {}; expected {}", name(tensor.dtype), expected));
}

// Compares the tensor 'weight_shape', if there is one, with the shape that the values give.
void check_stated_shape(const WeightFiles& files, const PackedTensors& tensors,
                        const Shape& shape) {
  if (tensors.shape.empty()) return;
  const TensorView stated = files.tensor(tensors.shape);
  require_type(files, stated, {DType::i64, DType::i32});
  if (stated.shape.num_elements() != shape.ndim())
    refuse_packed(files, stated,
                  fmt::format("is {}; expected {} numbers", text(stated), shape.ndim()));
  std::vector<std::int64_t> dims;
  for (std::int64_t i = 0; i < shape.ndim(); ++i) dims.push_back(integer_at(stated, i));
  if (!std::ranges::equal(dims, shape.dims()))
    refuse_packed(files, stated,
                  fmt::format("says [{}], but '{}' has the values of {}", fmt::join(dims, ", "),
                              tensors.values, to_string(shape)));
}

// Returns the group of each column; nothing if they are in order. compressed-tensors writes -1 for
// all columns if they are.
std::vector<std::int32_t> read_group_index(const WeightFiles& files, const PackedTensors& tensors,
                                           std::int64_t columns, std::int64_t num_groups,
                                           std::int64_t group_size) {
  const TensorView index = files.tensor(tensors.group_index);
  require_type(files, index, {DType::i32, DType::i64});
  if (index.shape.num_elements() != columns)
    refuse_packed(files, index,
                  fmt::format("is {}; expected the groups of {} columns", text(index), columns));
  std::vector<std::int64_t> groups;
  for (std::int64_t i = 0; i < columns; ++i) groups.push_back(integer_at(index, i));
  const bool may_be_unused = tensors.order != Order::gptq && tensors.order != Order::awq;
  if (may_be_unused && std::ranges::all_of(groups, [](std::int64_t group) { return group == -1; }))
    return {};
  bool in_order = true;
  for (std::int64_t i = 0; i < columns; ++i) {
    const std::int64_t group = groups[static_cast<std::size_t>(i)];
    if (group < 0 || group >= num_groups)
      refuse_packed(
          files, index,
          fmt::format("has group {} at column {}; expected 0 to {}", group, i, num_groups - 1));
    in_order = in_order && group == i / group_size;
  }
  if (in_order) return {};
  return {groups.begin(), groups.end()};
}

[[noreturn]] void refuse_zero_points_of_fp4(const WeightFiles& files,
                                            const PackedTensors& tensors) {
  refuse_packed(
      files, files.tensor(tensors.zero_points),
      fmt::format("belongs to '{}', whose FP4 numbers have no zero points", tensors.values));
}

}  // namespace

void check_parts_of_mxfp4(const WeightFiles& files, const PackedTensors& tensors,
                          const Shape& shape, std::int64_t group_size) {
  if (!tensors.zero_points.empty()) refuse_zero_points_of_fp4(files, tensors);
  check_stated_shape(files, tensors, shape);
  if (tensors.group_index.empty()) return;
  const std::int64_t columns = shape[-1];
  if (!read_group_index(files, tensors, columns, divide_up(columns, group_size), group_size)
           .empty())
    refuse_packed(
        files, files.tensor(tensors.group_index),
        fmt::format("gives the columns of '{}' another order, which lamina does not read for "
                    "MXFP4",
                    tensors.values),
        "use a checkpoint without actorder");
}

void PackedWeight::fail(const TensorView& tensor, const std::string& what,
                        const std::string& note) const {
  refuse_packed(*files_, tensor, what, note);
}

PackedWeight::PackedWeight(const WeightFiles& files, const PackedTensors& tensors)
    : files_(&files), tensors_(&tensors), values_(files.tensor(tensors.values)) {
  if (tensors.scales.empty())
    fail(values_, "has no scales",
         "a quantised weight needs a tensor with the scales of its groups: download the missing "
         "files");
  scales_ = files.tensor(tensors.scales);
  if (!tensors.zero_points.empty()) zero_points_ = files.tensor(tensors.zero_points);
  if (values_.shape.ndim() != 2)
    fail(values_, fmt::format("is {}; expected a matrix", text(values_)));
  switch (tensors.order) {
    case Order::words:
      open_words();
      break;
    case Order::bytes:
      open_bytes();
      break;
    case Order::gptq:
    case Order::awq:
      open_transposed();
      break;
    case Order::pairs:
      open_pairs();
      break;
  }
  if (tensors.order != Order::pairs && !tensors.global_scale.empty())
    fail(files.tensor(tensors.global_scale),
         fmt::format("belongs to '{}', whose integers have no global scale", values_.name),
         "global scales are for NVFP4 weights (nvfp4-pack-quantized): use the config.json and the "
         "tensors of one model");
  shape_ = Shape{rows_, columns_};
  open_group_index();
  format_ = choose_format();
}

const TensorView& PackedWeight::require_dtype(const TensorView& tensor,
                                              std::initializer_list<DType> dtypes) const {
  return require_type(*files_, tensor, dtypes);
}

// The number of columns is in another tensor, because words may have unused bits at their end.
void PackedWeight::open_words() {
  require_dtype(values_, {DType::i32});
  if (tensors_->shape.empty())
    fail(values_, "has no shape beside it",
         "a packed weight needs a tensor 'weight_shape' with its rows and columns");
  const TensorView shape = files_->tensor(tensors_->shape);
  require_dtype(shape, {DType::i64, DType::i32});
  if (shape.shape.num_elements() != 2)
    fail(shape, fmt::format("is {}; expected 2 numbers", text(shape)));
  rows_ = integer_at(shape, 0);
  columns_ = integer_at(shape, 1);
  const std::int64_t words = values_.shape[1];
  if (rows_ != values_.shape[0] || columns_ <= 0 || columns_ > words * 8)
    fail(shape, fmt::format("says [{}, {}], but '{}' is {}", rows_, columns_, values_.name,
                            text(values_)));
  bits_ = words == divide_up(columns_, std::int64_t{8}) ? 4 : 8;
  if (words != divide_up(columns_, std::int64_t{32 / bits_}))
    fail(values_,
         fmt::format("is {} for a weight of [{}, {}]; expected [{}, {}] of 4 bits or "
                     "[{}, {}] of 8 bits",
                     text(values_), rows_, columns_, rows_, divide_up(columns_, std::int64_t{8}),
                     rows_, divide_up(columns_, std::int64_t{4})));
  open_scales();
  open_zero_points();
}

void PackedWeight::open_bytes() {
  require_dtype(values_, {DType::i8});
  bits_ = 8;
  rows_ = values_.shape[0];
  columns_ = values_.shape[1];
  open_scales();
  open_zero_points();
}

void PackedWeight::open_pairs() {
  require_dtype(values_, {DType::u8});
  rows_ = values_.shape[0];
  columns_ = values_.shape[1] * 2;
  require_dtype(scales_, {DType::f8_e4m3});
  if (!tensors_->zero_points.empty()) refuse_zero_points_of_fp4(*files_, *tensors_);
  check_stated_shape(*files_, *tensors_, {rows_, columns_});
  open_scales();
  if (tensors_->global_scale.empty())
    fail(values_, "has no global scale",
         "NVFP4 weights have a tensor 'weight_global_scale', by which their scales are divided");
  const TensorView global = files_->tensor(tensors_->global_scale);
  require_dtype(global, {DType::f32});
  if (global.shape.num_elements() != 1)
    fail(global, fmt::format("is {}; expected 1 number", text(global)));
  std::memcpy(&global_scale_, global.bytes.data(), sizeof global_scale_);
  if (!(global_scale_ > 0) || !std::isfinite(global_scale_))
    fail(global, fmt::format("is {}; expected a positive number", global_scale_));
}

// [rows, groups], [rows, 1] or one number.
void PackedWeight::open_scales() {
  if (!is_float()) require_dtype(scales_, {DType::bf16, DType::f16, DType::f32});
  const Shape& shape = scales_.shape;
  const bool of_rows =
      shape.ndim() >= 1 && shape.ndim() <= 2 && shape[0] == rows_ && shape.num_elements() > 0;
  if (of_rows) {
    num_groups_ = shape.ndim() == 2 ? shape[1] : 1;
    scale_row_stride_ = num_groups_;
    scale_group_stride_ = 1;
  } else if (shape.num_elements() != 1) {
    fail(scales_, fmt::format("is {}, but '{}' has {} rows of {} values; expected [{}, groups], "
                              "[{}, 1] or [1]",
                              text(scales_), values_.name, rows_, columns_, rows_, rows_));
  }
  if (columns_ % num_groups_ != 0)
    fail(scales_, fmt::format("has {} groups for rows of {} values, which they do not divide",
                              num_groups_, columns_));
  group_size_ = std::max<std::int64_t>(1, columns_ / num_groups_);
}

// Integers of the form of the scales, or words whose numbers belong to adjacent rows.
void PackedWeight::open_zero_points() {
  default_zero_ = 1 << (bits_ - 1);
  if (tensors_->zero_points.empty()) return;
  const bool in_words = tensors_->order == Order::words;
  require_dtype(zero_points_, {in_words ? DType::i32 : DType::i8});
  const std::int64_t per_word = in_words ? 32 / bits_ : 1;
  const bool right = in_words ? zero_points_.shape == Shape{divide_up(rows_, per_word), num_groups_}
                              : zero_points_.shape.num_elements() == scales_.shape.num_elements();
  if (!right)
    fail(zero_points_,
         fmt::format(
             "is {}, but the scales are {}; expected {}", text(zero_points_), text(scales_),
             to_string(in_words ? Shape{divide_up(rows_, per_word), num_groups_} : scales_.shape)));
  // Exporters also write zeros for symmetric weights.
  has_zero_points_ = in_words || std::ranges::any_of(zero_points_.bytes, [](std::byte zero) {
                       return zero != std::byte{0};
                     });
}

void PackedWeight::open_transposed() {
  const Compression& config = files_->compression();
  const bool awq = tensors_->order == Order::awq;
  bits_ = config.bits;
  default_zero_ = 1 << (bits_ - 1);
  // One subtraction takes 1 from all numbers of a word, so a zero point of 0 borrows from the next.
  if (config.zero_points_minus_one) zero_offset_ = bits_ == 8 ? 0x01010101 : 0x11111111;
  has_zero_points_ = !config.symmetric;
  const std::int64_t per_word = 32 / bits_;
  require_dtype(values_, {DType::i32});
  require_dtype(scales_, {DType::f16, DType::bf16, DType::f32});
  if (scales_.shape.ndim() != 2)
    fail(scales_, fmt::format("is {}; expected [groups, rows]", text(scales_)));
  rows_ = scales_.shape[1];
  columns_ = values_.shape[0] * (awq ? 1 : per_word);
  if (values_.shape[1] != (awq ? rows_ / per_word : rows_) || (awq && rows_ % per_word != 0))
    fail(
        values_,
        fmt::format("is {} and its scales are {}, which does not fit the order of {} with {} bits: "
                    "expected [{}, {}]",
                    text(values_), text(scales_), config.method, bits_,
                    awq ? "columns" : fmt::format("columns / {}", per_word),
                    awq ? rows_ / per_word : rows_),
        fmt::format("{} says quant_method \"{}\" and {} bits; check that it belongs to these "
                    "weights",
                    config.where, config.method, bits_));
  group_size_ = std::max<std::int64_t>(1, config.group_size == -1 ? columns_ : config.group_size);
  num_groups_ = scales_.shape[0];
  if (num_groups_ != divide_up(columns_, group_size_))
    fail(scales_,
         fmt::format("has {} groups; expected {}, of {} columns each in {} columns", num_groups_,
                     divide_up(columns_, group_size_), group_size_, columns_),
         fmt::format("{} gives group_size {}", config.where, config.group_size));
  scale_row_stride_ = 1;
  scale_group_stride_ = rows_;
  if (tensors_->zero_points.empty())
    fail(values_, "has no zero points", "expected a tensor 'qzeros'");
  require_dtype(zero_points_, {DType::i32});
  if (zero_points_.shape != Shape{num_groups_, divide_up(rows_, per_word)})
    fail(zero_points_, fmt::format("is {}; expected [{}, {}]", text(zero_points_), num_groups_,
                                   divide_up(rows_, per_word)));
}

void PackedWeight::open_group_index() {
  const bool expected =
      tensors_->order == Order::gptq && files_->compression().reordered && num_groups_ > 1;
  if (tensors_->group_index.empty()) {
    if (expected)
      fail(values_, "has no 'g_idx'",
           fmt::format("{} says desc_act = true, so the group of each column must be given",
                       files_->compression().where));
    return;
  }
  group_index_ = read_group_index(*files_, *tensors_, columns_, num_groups_, group_size_);
}

// Blocks contain one scale, so that they cannot span groups, nor columns of different groups.
const formats::BlockFormat* PackedWeight::choose_format() const {
  if (is_reordered() || columns_ == 0) return nullptr;
  if (is_float()) {
    const formats::BlockFormat& format = formats::nvfp4_format();
    return group_size_ == 16 && columns_ % format.num_values == 0 ? &format : nullptr;
  }
  for (const std::int64_t n : {128, 64, 32})
    if (group_size_ % n == 0 && columns_ % n == 0)
      return formats::int_format({bits_, has_zero_points_, scales_.dtype, n});
  return nullptr;
}

}  // namespace lamina::io
