// Converting published tensors to ours and back: the transforms of the map's rows.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/float16.h"
#include "decoder/tensor_map.h"

namespace lamina::decoder {
namespace {

float element_as_float(const io::TensorView& view, std::size_t i) {
  const std::byte* at = view.bytes.data() + i * static_cast<std::size_t>(size_bytes(view.dtype));
  auto load = [&]<typename T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (view.dtype) {
    case DType::f32:
      return load(float{});
    case DType::bf16:
      return to_float(load(bfloat16{}));
    case DType::f16:
      return to_float(load(float16{}));
    case DType::f64:
      return static_cast<float>(load(double{}));
    default:
      user_error(ExitCode::checkpoint, std::string(view.name),
                 "has element type {}; parameters are f32, f16, bf16 or f64", name(view.dtype));
  }
}

void transpose(std::span<const float> in, std::int64_t rows, std::int64_t cols,
               std::span<float> out) {
  constexpr std::int64_t kTile = 32;
  for (std::int64_t r0 = 0; r0 < rows; r0 += kTile)
    for (std::int64_t c0 = 0; c0 < cols; c0 += kTile)
      for (std::int64_t r = r0; r < std::min(rows, r0 + kTile); ++r)
        for (std::int64_t c = c0; c < std::min(cols, c0 + kTile); ++c)
          out[static_cast<std::size_t>(c * rows + r)] = in[static_cast<std::size_t>(r * cols + c)];
}

// Applies one transform, forwards or undone, to a tensor of `shape`, which changes with it.
void apply(const registry::Transform& t, bool undo, Shape& shape, std::vector<float>& values) {
  switch (t.kind) {
    case registry::Transform::Kind::transpose: {
      std::vector<float> turned(values.size());
      transpose(values, shape[0], shape[1], turned);
      std::swap(shape[0], shape[1]);
      values = std::move(turned);
      return;
    }
    case registry::Transform::Kind::add: {
      float number = static_cast<float>(undo ? -t.number : t.number);
      for (float& v : values) v += number;
      return;
    }
    case registry::Transform::Kind::mul: {
      float number = static_cast<float>(t.number);
      for (float& v : values) v = undo ? v / number : v * number;
      return;
    }
  }
}

}  // namespace

void from_published(const PublishedTensor& tensor, const io::TensorView& view,
                    std::span<float> out) {
  std::vector<float> values(out.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = element_as_float(view, i);
  Shape shape = view.shape;
  if (tensor.row)
    for (const registry::Transform& t : tensor.row->transforms) apply(t, false, shape, values);
  std::ranges::copy(values, out.begin());
}

std::vector<float> to_published(const PublishedTensor& tensor, std::span<const float> ours) {
  std::vector<float> values(ours.begin(), ours.end());
  if (!tensor.row) return values;
  Shape shape = tensor.shape;  // of ours: undo every transpose once more
  for (const registry::Transform& t : tensor.row->transforms)
    if (t.kind == registry::Transform::Kind::transpose) std::swap(shape[0], shape[1]);
  for (std::size_t i = tensor.row->transforms.size(); i-- > 0;)
    apply(tensor.row->transforms[i], true, shape, values);
  return values;
}

}  // namespace lamina::decoder
