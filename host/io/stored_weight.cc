#include "io/stored_weight.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/float16.h"
#include "core/round_up.h"
#include "formats/fp4.h"
#include "formats/fp8.h"
#include "publishers/formats.h"

namespace lamina::io {
namespace {

constexpr std::int64_t kFp4Block = 32;  // values that share a scale

template <typename T, typename Convert>
void gather(const std::byte* from, std::int64_t first, std::int64_t stride, std::span<float> out,
            Convert convert) {
  from += first * static_cast<std::int64_t>(sizeof(T));
  for (float& value : out) {
    T element;  // tensors may be unaligned
    std::memcpy(&element, from, sizeof element);
    value = convert(element);
    from += stride * static_cast<std::int64_t>(sizeof(T));
  }
}

// Returns false for a type without values.
bool gather(const TensorView& view, std::int64_t first, std::int64_t stride, std::span<float> out) {
  auto as = [&]<typename T>(T, auto convert) {
    gather<T>(view.bytes.data(), first, stride, out, convert);
    return true;
  };
  auto number = [](auto value) { return static_cast<float>(value); };
  switch (view.dtype) {
    case DType::f32:
      return as(float{}, number);
    case DType::bf16:
      return as(bfloat16{}, [](bfloat16 v) { return to_float(v); });
    case DType::f16:
      return as(float16{}, [](float16 v) { return to_float(v); });
    case DType::f64:
      return as(double{}, number);
    case DType::i32:
      return as(std::int32_t{}, number);
    case DType::i64:
      return as(std::int64_t{}, number);
    case DType::f8_e4m3:
      return as(std::uint8_t{}, [](std::uint8_t v) { return formats::kE4m3[v]; });
    case DType::f8_e5m2:
      return as(std::uint8_t{}, [](std::uint8_t v) {
        return to_float(float16{static_cast<std::uint16_t>(v << 8)});
      });
    case DType::f8_e8m0:
      return as(std::uint8_t{}, formats::e8m0);
    default:
      return false;
  }
}

// Writes 32 values whose even ones are the low halves of bytes as a block of mxfp4_format().
void write_fp4_block(const std::byte* pairs, std::byte scale, std::byte* out) {
  const auto value = [&](std::int64_t i) { return pairs[i / 2] >> (i % 2 * 4) & std::byte{15}; };
  out[0] = scale;
  for (std::int64_t i = 0; i < kFp4Block / 2; ++i)
    out[1 + i] = value(i) | value(i + kFp4Block / 2) << 4;
}

// A scale of 0 gives values of 0: returns the first one for a value that is not.
std::optional<std::size_t> zero_scale_of_values(std::span<const std::byte> values,
                                                std::span<const float> scales, std::int64_t columns,
                                                const Shape& grid, std::int64_t block_rows,
                                                std::int64_t block_columns) {
  if (values.empty() || std::ranges::find(scales, 0.f) == scales.end()) return {};
  const std::int64_t rows = std::ssize(values) / columns, grid_rows = grid[-2];
  const std::int64_t matrices = grid.num_elements() / (grid_rows * grid[-1]);
  const std::int64_t matrix_rows = rows / matrices;
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    const std::int64_t row = i / columns, matrix = row / matrix_rows;
    const std::int64_t scale = (matrix * grid_rows + row % matrix_rows / block_rows) * grid[-1] +
                               i % columns / block_columns;
    const bool is_zero = (values[static_cast<std::size_t>(i)] & std::byte{0x7f}) == std::byte{0};
    if (!is_zero && scales[static_cast<std::size_t>(scale)] == 0)
      return static_cast<std::size_t>(scale);
  }
  return {};
}

}  // namespace

void StoredWeight::fail(const std::string& what, const std::string& note) const {
  throw UserError(
      ExitCode::checkpoint,
      {files_->path_of(data_.name), fmt::format("tensor '{}' {}", data_.name, what), {note}});
}

StoredWeight::StoredWeight(const WeightFiles& files, std::string_view name)
    : files_(&files),
      data_(files.tensor(name)),
      blocks_(files.block_format(name)),
      head_rows_(files.paired_rows(name)),
      shape_(data_.shape) {
  if (const PackedTensors* packed = files.packed(name)) {
    open_packed(*packed);
  } else if (blocks_) {
    form_ = Form::blocks;
    shape_[-1] = shape_[-1] / blocks_->num_bytes * blocks_->num_values;
  } else if (data_.dtype == DType::f8_e4m3 || data_.dtype == DType::f8_e5m2) {
    open_f8();
  } else if (data_.dtype == DType::u8 && name.ends_with(publishers::kMxfp4Name.weight)) {
    open_mxfp4();
  } else if ((data_.dtype == DType::i8 && !files.gguf()) ||
             (data_.dtype == DType::u8 && files.contains(scales_name()))) {
    open_fp4_pairs(scales_name());
  } else if (float none[1];
             data_.dtype == DType::f8_e8m0 || !gather(data_, 0, 0, std::span(none, 0))) {
    // f8_e8m0 is only for scales: powers of two without a sign.
    fail(fmt::format("has element type {}; expected f32, bf16, f16 or f64",
                     lamina::name(data_.dtype)),
         files.gguf() ? "use a file of the same model with weights of such a type or in blocks"
                      : "compressed weights are f8 with scales, MXFP4, pairs of FP4 values with "
                        "scales, or packed as quantization_config of config.json says");
  }
  if (head_rows_ > 0 && (shape_.ndim() > 2 || shape_[0] % head_rows_ != 0))
    fail(fmt::format("is {}, which does not divide into heads of {} "
                     "rows",
                     to_string(shape_), head_rows_),
         "the file is inconsistent: convert the model again");
}

// MXFP4 in pairs has powers of two as scales, and no global scale.
void StoredWeight::open_packed(const PackedTensors& tensors) {
  tensors_ = &tensors;
  if (tensors.order == PackedTensors::Order::pairs && tensors.global_scale.empty() &&
      !tensors.scales.empty() && files_->tensor(tensors.scales).dtype != DType::f8_e4m3) {
    open_fp4_pairs(tensors.scales);
    return check_parts_of_mxfp4(*files_, tensors, shape_, kFp4Block);
  }
  form_ = Form::packed;
  packed_.emplace(*files_, tensors);
  shape_ = packed_->shape();
}

// Returns the first possible name of scales that the files contain, else the usual name.
std::string StoredWeight::scales_name() const {
  const std::vector<std::string> names = publishers::scales_names(data_.name);
  auto found =
      std::ranges::find_if(names, [&](const auto& name) { return files_->contains(name); });
  return found == names.end() ? names.back() : *found;
}

void StoredWeight::open_f8() {
  const std::string scales = scales_name();
  if (!files_->contains(scales))
    fail(fmt::format("is stored as {}, but its scales are missing", lamina::name(data_.dtype)),
         fmt::format("expected a tensor '{}' beside it",
                     fmt::join(publishers::scales_names(data_.name), "' or '")));
  form_ = Form::f8_blocks;
  scales_ = files_->tensor(scales);
  if (scales_.dtype == DType::u8) scales_.dtype = DType::f8_e8m0;
  scale_values_.resize(static_cast<std::size_t>(scales_.shape.num_elements()));
  constexpr DType kScaleTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f8_e8m0};
  if (std::ranges::find(kScaleTypes, scales_.dtype) == std::end(kScaleTypes) ||
      !gather(scales_, 0, 1, scale_values_))
    fail(fmt::format("has scales '{}' of type {}", scales, lamina::name(scales_.dtype)),
         "expected scales of type f32, bf16, f16, f8_e8m0 or u8");
  if (shape_.ndim() < 2 || shape_.num_elements() == 0)
    fail(fmt::format("is {} of f8", to_string(shape_)), "f8 weights must be matrices");
  const std::int64_t rows = shape_[-2], columns = shape_[-1];
  check_f8_scales();
  const auto check_zeros = [&](const Shape& grid, std::int64_t in_rows, std::int64_t in_columns) {
    if (const auto i =
            zero_scale_of_values(data_.bytes, scale_values_, columns, grid, in_rows, in_columns))
      fail(fmt::format("has the scale 0 at element {} of '{}' for values that are not zero; "
                       "expected a positive number",
                       *i, scales_.name),
           "the checkpoint is damaged: download or export it again");
  };
  if (scale_values_.size() == 1)  // one for the whole tensor
    return check_zeros(Shape{{1, 1}}, shape_.num_elements(), columns);
  const Compression::Block block = f8_block();
  block_rows_ = block.rows;
  block_columns_ = block.columns;
  grid_rows_ = divide_up(rows, block_rows_);
  grid_columns_ = divide_up(columns, block_columns_);
  check_zeros(scales_.shape, block_rows_, block_columns_);
}

// Returns the block of each scale: of a size in the configuration, or a row or an equal part of it.
Compression::Block StoredWeight::f8_block() const {
  const std::vector<Compression::Block>& blocks = files_->compression().blocks;
  const Compression::Block* found = nullptr;
  for (const Compression::Block& block : blocks) {
    if (scales_.shape != scales_shape(shape_, block)) continue;
    if (found && ((scales_.shape[-2] > 1 && block.rows != found->rows) ||
                  (scales_.shape[-1] > 1 && block.columns != found->columns)))
      fail(fmt::format("is {}, and its scales {} fit blocks of {} x {} and of {} x {}",
                       to_string(shape_), to_string(scales_.shape), found->rows, found->columns,
                       block.rows, block.columns),
           "lamina takes the size of blocks from the shapes: use a checkpoint with blocks of one "
           "size");
    if (!found) found = &block;
  }
  if (found) return *found;
  const std::int64_t columns = shape_[-1];
  const std::int64_t groups = scales_.shape.ndim() > 0 ? scales_.shape[-1] : 0;
  if (groups > 0 && columns % groups == 0)
    if (const Compression::Block block{1, columns / groups};
        scales_.shape == scales_shape(shape_, block))
      return block;
  fail(fmt::format("is {}, in blocks of {} x {}: its scales must be {}, but '{}' is {}",
                   to_string(shape_), blocks.front().rows, blocks.front().columns,
                   to_string(scales_shape(shape_, blocks.front())), scales_.name,
                   to_string(scales_.shape)),
       "quantization_config of config.json gives the size of blocks");
}

void StoredWeight::check_f8_scales() const {
  for (std::size_t i = 0; i < scale_values_.size(); ++i)
    if (const float scale = scale_values_[i]; !(scale >= 0) || !std::isfinite(scale))
      fail(fmt::format("has the scale {} at element {} of '{}'; expected a finite positive number",
                       scale, i, scales_.name),
           "the checkpoint is damaged: download or export it again");
}

// Returns the scale of a block of FP4 values.
float StoredWeight::fp4_scale(std::int64_t block) const {
  const auto bits = std::to_integer<std::uint8_t>(scales_.bytes[static_cast<std::size_t>(block)]);
  if (bits == 255)
    fail(fmt::format("has a scale that is not a number at element {} of '{}'", block, scales_.name),
         "the checkpoint is damaged: download or export it again");
  return formats::e8m0(bits);
}

void StoredWeight::open_mxfp4() {
  const std::string scales = publishers::scales_name(data_.name, publishers::kMxfp4Name);
  if (!files_->contains(scales))
    fail("has no scales", fmt::format("expected a tensor '{}' beside it", scales));
  form_ = Form::fp4;
  scales_ = files_->tensor(scales);
  if (shape_.ndim() < 2 || shape_[-1] != kFp4Block / 2 || scales_.dtype != DType::u8 ||
      scales_.shape != Shape(shape_.dims().first(static_cast<std::size_t>(shape_.ndim() - 1))))
    fail(fmt::format("is u8{}, and '{}' is {}{}; expected u8[.., G, 16] and u8[.., G]",
                     to_string(shape_), scales, lamina::name(scales_.dtype),
                     to_string(scales_.shape)),
         "the checkpoint is inconsistent: download or export it again");
  const std::int64_t columns = shape_[-2] * kFp4Block;
  shape_ = Shape(shape_.dims().first(static_cast<std::size_t>(shape_.ndim() - 1)));
  shape_[-1] = columns;
}

void StoredWeight::open_fp4_pairs(const std::string& scales) {
  if (!files_->contains(scales))
    fail(fmt::format("is stored as {}, but its scales are missing", lamina::name(data_.dtype)),
         fmt::format("expected a tensor '{}' beside it: {} weights contain pairs of FP4 values",
                     publishers::scales_names(data_.name).front(), lamina::name(data_.dtype)));
  form_ = Form::fp4;
  scales_ = files_->tensor(scales);
  if (shape_.ndim() < 2)
    fail(fmt::format("is {} of pairs of FP4 values", to_string(shape_)),
         "such weights must be matrices");
  shape_[-1] *= 2;
  Shape grid = shape_;
  grid[-1] = divide_up(shape_[-1], kFp4Block);
  const bool powers = scales_.dtype == DType::f8_e8m0 || scales_.dtype == DType::u8;
  if (!powers || scales_.shape != grid)
    fail(fmt::format("is {}{}, pairs of FP4 values in blocks of {}: its scales must be f8_e8m0{}, "
                     "but '{}' is {}{}",
                     lamina::name(data_.dtype), to_string(data_.shape), kFp4Block, to_string(grid),
                     scales, lamina::name(scales_.dtype), to_string(scales_.shape)),
         "the checkpoint is inconsistent: download or export it again");
}

std::vector<std::string_view> StoredWeight::names() const {
  if (tensors_) return tensors_->names();
  if (is_uncompressed() || blocks_) return {data_.name};
  std::vector<std::string_view> out{data_.name, scales_.name};
  if (form_ != Form::f8_blocks) return out;
  for (const publishers::ScalesName& row : publishers::kActivationScalesNames)
    if (data_.name.ends_with(row.weight))
      if (const std::string name = publishers::scales_name(data_.name, row); files_->contains(name))
        out.push_back(files_->tensor(name).name);
  return out;
}

float StoredWeight::f8_scale(std::int64_t element) const {
  if (scale_values_.size() == 1) return scale_values_[0];
  const std::int64_t row = element / shape_[-1], column = element % shape_[-1];
  const std::int64_t matrix = row / shape_[-2], block_row = row % shape_[-2] / block_rows_;
  return scale_values_[static_cast<std::size_t>((matrix * grid_rows_ + block_row) * grid_columns_ +
                                                column / block_columns_)];
}

// The low half of a byte is the even element.
void StoredWeight::decode_fp4(std::int64_t first, std::int64_t stride, std::span<float> out) const {
  const auto* pairs = reinterpret_cast<const std::uint8_t*>(data_.bytes.data());
  const std::int64_t columns = shape_[-1], blocks = divide_up(columns, kFp4Block);
  std::int64_t at = first;
  for (std::size_t i = 0; i < out.size();) {
    const std::int64_t row = at / columns, block = at % columns / kFp4Block;
    const std::int64_t end = row * columns + std::min(columns, (block + 1) * kFp4Block);
    const float scale = fp4_scale(row * blocks + block);
    do {
      out[i++] = formats::kE2m1[pairs[at / 2] >> (at % 2 * 4) & 15] * scale;
      at += stride;
    } while (i < out.size() && at < end);
  }
}

// Rows are whole blocks, so blocks are numbered across rows.
void StoredWeight::decode_blocks(std::int64_t first, std::int64_t stride,
                                 std::span<float> out) const {
  std::array<float, formats::kMaxBlockValues> values;
  const std::int64_t count = blocks_->num_values;
  std::int64_t at = first;
  for (std::size_t i = 0; i < out.size();) {
    const std::int64_t block = at / count, begin = block * count;
    const std::byte* bytes = data_.bytes.data() + block * blocks_->num_bytes;
    if (stride == 1 && at == begin && std::ssize(out) - static_cast<std::int64_t>(i) >= count) {
      blocks_->widen(bytes, out.data() + i);
      i += static_cast<std::size_t>(count);
      at += count;
      continue;
    }
    blocks_->widen(bytes, values.data());
    do {
      out[i++] = values[static_cast<std::size_t>(at - begin)];
      at += stride;
    } while (i < out.size() && at >= begin && at < begin + count);
  }
}

// Returns the row of the file of a row in published order.
std::int64_t StoredWeight::stored_row(std::int64_t row) const {
  if (head_rows_ == 0) return row;
  const std::int64_t of_head = row % head_rows_, half = head_rows_ / 2;
  return row - of_head + (of_head < half ? 2 * of_head : 2 * (of_head - half) + 1);
}

const formats::BlockFormat* StoredWeight::block_format() const {
  if (form_ == Form::plain || shape_.ndim() < 2) return nullptr;
  const auto divides = [&](const formats::BlockFormat* format) {
    return shape_[-1] % format->num_values == 0;
  };
  if (form_ == Form::blocks) return blocks_;
  if (form_ == Form::packed) return packed_->block_format();
  if (form_ == Form::fp4)
    return divides(&formats::mxfp4_format()) ? &formats::mxfp4_format() : nullptr;
  if (data_.dtype != DType::f8_e4m3) return nullptr;
  for (const std::int64_t values : {128, 32}) {
    const formats::BlockFormat* format = formats::fp8_format(values);
    const bool one_scale = scale_values_.size() == 1 || block_columns_ % values == 0;
    if (one_scale && divides(format)) return format;
  }
  return nullptr;
}

void StoredWeight::read_blocks(std::int64_t first, std::int64_t count, std::byte* out) const {
  const formats::BlockFormat& format = *block_format();
  const std::int64_t columns = shape_[-1];
  const std::int64_t begin = stored_row(first / columns) * columns + first % columns;
  if (form_ == Form::blocks) {
    std::memcpy(out, data_.bytes.data() + format.bytes_of(begin),
                static_cast<std::size_t>(format.bytes_of(count)));
    return;
  }
  if (form_ == Form::packed) return packed_->read_blocks(begin, count, out);
  for (std::int64_t at = begin; at < begin + count; at += format.num_values) {
    if (form_ == Form::fp4) {
      fp4_scale(at / kFp4Block);
      write_fp4_block(data_.bytes.data() + at / 2,
                      scales_.bytes[static_cast<std::size_t>(at / kFp4Block)], out);
    } else {
      const float scale = f8_scale(at);
      std::memcpy(out, &scale, sizeof scale);
      std::memcpy(out + sizeof scale, data_.bytes.data() + at,
                  static_cast<std::size_t>(format.num_values));
    }
    out += format.num_bytes;
  }
}

void StoredWeight::decode(std::int64_t first, std::int64_t stride, std::span<float> out) const {
  if (head_rows_ == 0) return decode_stored(first, stride, out);
  const std::int64_t columns = shape_.ndim() > 1 ? shape_[-1] : 1;
  std::int64_t at = first;
  for (std::size_t i = 0; i < out.size();) {
    const std::int64_t row = at / columns, column = at % columns;
    const std::size_t count =
        std::min(out.size() - i, static_cast<std::size_t>(divide_up(columns - column, stride)));
    decode_stored(stored_row(row) * columns + column, stride, out.subspan(i, count));
    i += count;
    at += static_cast<std::int64_t>(count) * stride;
  }
}

void StoredWeight::decode_stored(std::int64_t first, std::int64_t stride,
                                 std::span<float> out) const {
  if (form_ == Form::blocks) return decode_blocks(first, stride, out);
  if (form_ == Form::fp4) return decode_fp4(first, stride, out);
  if (form_ == Form::packed) return packed_->decode(first, stride, out);
  gather(data_, first, stride, out);
  if (form_ == Form::plain) return;
  std::int64_t at = first;
  for (float& value : out) {
    value *= f8_scale(at);
    at += stride;
  }
}

}  // namespace lamina::io
