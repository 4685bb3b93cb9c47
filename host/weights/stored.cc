#include "weights/stored.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/error.h"
#include "core/round_up.h"
#include "formats/fast_products.h"
#include "io/stored_weight.h"
#include "weights/publish/published.h"

namespace lamina::weights {
namespace {

using Storage = const formats::BlockFormat*;

bool may_be_compressed(const io::StoredTensor& tensor) {
  return std::ranges::any_of(std::array{DType::f8_e4m3, DType::u8, DType::i8}, [&](DType dtype) {
    return tensor.type == io::safetensors_type(dtype);
  });
}

// A cheap test of names and types; StoredWeight decides. Tensors that the model does not use may
// have types that lamina does not support.
bool has_blocks(const io::WeightFiles& files) {
  return std::ranges::any_of(files.names(),
                             [&](std::string_view name) {
                               return files.block_format(name) || files.packed(name);
                             }) ||
         std::ranges::any_of(files.files(), [](const io::SafetensorsFile& file) {
           return std::ranges::any_of(file.tensors(), may_be_compressed);
         });
}

// Returns the format of a piece's rows if they are whole blocks in the file.
Storage storage_of(const TensorMap& map, const io::WeightFiles& files, const Piece& piece,
                   std::int64_t width) {
  const io::StoredWeight weight(files, map.tensor_of(piece).name);
  const Storage format = weight.block_format();
  if (!format || piece.changes_values()) return nullptr;
  const StridedView& view = piece.view;
  const int last = view.shape.ndim() - 1;
  if (last < 0 || view.shape[last] != width || view.strides[static_cast<std::size_t>(last)] != 1)
    return nullptr;
  // Rows may be in another order in the file, or blocks of a row.
  const std::int64_t columns = weight.shape()[-1];
  if (view.offset % columns + width > columns || view.offset % format->num_values != 0)
    return nullptr;
  for (int i = 0; i < last; ++i)
    if (view.shape[i] > 1 && view.strides[static_cast<std::size_t>(i)] % columns != 0)
      return nullptr;
  return format;
}

}  // namespace

std::int64_t begin_of_row(const StridedView& view, std::int64_t row) {
  std::int64_t at = view.offset;
  for (int dim = view.shape.ndim() - 1; dim-- > 0;) {
    at += row % view.shape[dim] * view.strides[static_cast<std::size_t>(dim)];
    row /= view.shape[dim];
  }
  return at;
}

Storage stored_format(const decoder::Parameter& parameter, const TensorMap& map,
                      const io::WeightFiles& files, int index) {
  const Shape& shape = parameter.desc.shape;
  const auto pieces = map.pieces_of(index);
  if (shape.ndim() < 2 || shape.num_elements() == 0 || pieces.empty()) return nullptr;
  const std::int64_t width = shape[-1];
  const Storage format = storage_of(map, files, pieces.front(), width);
  if (!format || width % format->num_values != 0) return nullptr;
  for (const Piece& piece : pieces)
    if (piece.first % width != 0 || storage_of(map, files, piece, width) != format) return nullptr;
  return format;
}

void keep_blocks(decoder::Model& model, const io::WeightFiles& files, DType compute,
                 KeptBlocks kept, bool losses) {
  if (!has_blocks(files)) return;
  const TensorMap map = match_weights(model, files);
  const std::vector<bool> storable = model.storable_parameters(losses);
  std::vector<Storage> storages(storable.size());
  for (std::size_t i = 0; i < storable.size(); ++i) {
    const decoder::Parameter& parameter = model.parameters().all()[i];
    const DType dtype = parameter.used_dtype(compute);
    const bool is_kept = dtype == DType::bf16 || (dtype == DType::f32 && kept == KeptBlocks::all);
    if (!storable[i] || !is_kept) continue;
    storages[i] = stored_format(parameter, map, files, static_cast<int>(i));
    if (kept == KeptBlocks::fast && storages[i] && !formats::has_fast_products(*storages[i]))
      storages[i] = nullptr;
  }
  model.set_storage(storages);
}

const std::byte* blocks_in_place(const TensorMap& map, const io::WeightFiles& files,
                                 int parameter) {
  const std::byte *begin = nullptr, *next = nullptr;
  for (const Piece& piece : map.pieces_of(parameter)) {
    const io::StoredWeight weight(files, map.tensor_of(piece).name);
    if (!weight.is_in_blocks() || !piece.view.is_contiguous()) return nullptr;
    const formats::BlockFormat& format = *weight.block_format();
    const std::byte* bytes = weight.data().bytes.data() + format.bytes_of(piece.view.offset);
    if (begin && bytes != next) return nullptr;
    if (!begin) begin = bytes;
    next = bytes + format.bytes_of(piece.num_elements());
  }
  return begin;
}

void read_blocks(const TensorMap& map, const io::WeightFiles& files, int parameter, std::byte* out,
                 const Workers& workers) {
  for (const Piece& piece : map.pieces_of(parameter)) {
    const io::StoredWeight weight(files, map.tensor_of(piece).name);
    const formats::BlockFormat& format = *weight.block_format();
    const std::int64_t width = piece.view.shape[-1], rows = piece.num_elements() / width;
    const std::int64_t rows_of_part = divide_up(kValuesOfPart, width);
    work_on_all(workers, divide_up(rows, rows_of_part), [&](std::int64_t part) {
      const std::int64_t past = std::min(rows, (part + 1) * rows_of_part);
      for (std::int64_t row = part * rows_of_part; row < past; ++row)
        weight.read_blocks(begin_of_row(piece.view, row), width,
                           out + format.bytes_of(piece.first + row * width));
    });
  }
}

}  // namespace lamina::weights
