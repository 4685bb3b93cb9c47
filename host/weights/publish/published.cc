#include "weights/publish/published.h"

#include <algorithm>

#include "core/error.h"
#include "core/round_up.h"
#include "io/stored_weight.h"

namespace lamina::weights {
namespace {

constexpr std::int64_t kStretch = 1 << 16;  // elements per read
constexpr std::int64_t kTileRows = 64;      // of a transposed matrix

// A view as rows: the last dim is a row, the others enumerate the rows.
class ViewRows {
 public:
  explicit ViewRows(const StridedView& view) : view_(view) {
    if (!view.is_contiguous()) return;
    view_.shape = Shape{view.shape.num_elements()};
    view_.strides[0] = 1;
  }

  bool is_line() const { return view_.shape.ndim() < 2; }
  std::int64_t width() const { return view_.shape.ndim() == 0 ? 1 : view_.shape[-1]; }
  // Elements that a part of the view must consist of: a row, or one of a line.
  std::int64_t row_width() const { return is_line() ? 1 : width(); }
  std::int64_t count() const { return width() == 0 ? 0 : view_.shape.num_elements() / width(); }
  std::int64_t stride() const { return view_.shape.ndim() == 0 ? 1 : stride_of(1); }
  // True if the rows of a matrix are interleaved: columns are contiguous.
  bool is_transposed() const { return !is_line() && stride() != 1 && stride_of(2) == 1; }
  std::int64_t rows_per_matrix() const { return is_line() ? 1 : view_.shape[-2]; }
  // Returns the offset of row `row`.
  std::int64_t begin(std::int64_t row) const {
    std::int64_t at = view_.offset;
    for (int i = view_.shape.ndim() - 1; i-- > 0;) {
      at += row % view_.shape[i] * view_.strides[static_cast<std::size_t>(i)];
      row /= view_.shape[i];
    }
    return at;
  }

 private:
  std::int64_t stride_of(int from_last) const {
    return view_.strides[static_cast<std::size_t>(view_.shape.ndim() - from_last)];
  }
  StridedView view_;
};

void decode_columns(const io::StoredWeight& weight, const ViewRows& rows, std::int64_t first,
                    std::int64_t count, std::span<float> out) {
  float column[kTileRows];
  for (std::int64_t r = 0; r < count; r += kTileRows) {
    const std::int64_t n = std::min(kTileRows, count - r), begin = rows.begin(first + r);
    for (std::int64_t c = 0; c < rows.width(); ++c) {
      weight.decode(begin + c * rows.stride(), 1,
                    std::span(column).first(static_cast<std::size_t>(n)));
      for (std::int64_t i = 0; i < n; ++i)
        out[static_cast<std::size_t>((r + i) * rows.width() + c)] = column[i];
    }
  }
}

void to_ours(const Piece& piece, std::span<float> values) {
  const float factor = static_cast<float>(piece.factor), shift = static_cast<float>(piece.shift);
  if (piece.factor != 1)
    for (float& v : values) v *= factor;
  if (piece.shift != 0)
    for (float& v : values) v += shift;
}

float to_published(const Piece& piece, float value, Values values) {
  const float factor = static_cast<float>(piece.factor), shift = static_cast<float>(piece.shift);
  if (values == Values::gradients) return value * factor;
  return piece.changes_values() ? (value - shift) / factor : value;
}

// Reads elements [begin, end) of a piece (whole rows) in stretches of bounded size.
void read_piece(const io::StoredWeight& weight, const Piece& piece, std::int64_t begin,
                std::int64_t end, const ValueSink& sink) {
  std::vector<float> values;
  auto emit = [&](std::int64_t at) {
    to_ours(piece, values);
    sink(piece.first + at, values);
  };
  const ViewRows rows(piece.view);
  const std::int64_t width = rows.width();
  if (rows.is_line()) {
    for (std::int64_t at = begin; at < end; at += kStretch) {
      values.resize(static_cast<std::size_t>(std::min(kStretch, end - at)));
      weight.decode(rows.begin(0) + at * rows.stride(), rows.stride(), values);
      emit(at);
    }
    return;
  }
  if (width == 0) return;
  const std::int64_t max_rows = std::max(kTileRows, kStretch / width),
                     matrix = rows.rows_per_matrix();
  const std::int64_t last = divide_up(end, width);
  for (std::int64_t row = begin / width, n; row < last; row += n) {
    n = std::min({max_rows, matrix - row % matrix, last - row});
    values.resize(static_cast<std::size_t>(n * width));
    if (rows.is_transposed())
      decode_columns(weight, rows, row, n, values);
    else
      for (std::int64_t i = 0; i < n; ++i)
        weight.decode(rows.begin(row + i), rows.stride(),
                      std::span(values).subspan(static_cast<std::size_t>(i * width),
                                                static_cast<std::size_t>(width)));
    emit(row * width);
  }
}

}  // namespace

void read_parameter(const TensorMap& map, const io::WeightFiles& files, int parameter,
                    const ValueSink& sink, const Workers& workers) {
  LAMINA_ASSERT(!map.pieces_of(parameter).empty());
  for (const Piece& piece : map.pieces_of(parameter)) {
    const io::StoredWeight weight(files, map.tensor_of(piece).name);
    const std::int64_t count = piece.num_elements();
    const std::int64_t width = std::max<std::int64_t>(1, ViewRows(piece.view).row_width());
    const std::int64_t part = std::max(kTileRows, divide_up(kValuesOfPart, width)) * width;
    work_on_all(workers, divide_up(count, part), [&](std::int64_t i) {
      read_piece(weight, piece, i * part, std::min(count, (i + 1) * part), sink);
    });
  }
}

void read_parameter(const TensorMap& map, const io::WeightFiles& files, int parameter,
                    std::int64_t first, std::span<float> out) {
  const std::int64_t last = first + std::ssize(out);
  for (const Piece& piece : map.pieces_of(parameter)) {
    const std::int64_t begin = std::max(first - piece.first, std::int64_t{0}),
                       end = std::min(last - piece.first, piece.num_elements());
    if (begin >= end) continue;
    read_piece(io::StoredWeight(files, map.tensor_of(piece).name), piece, begin, end,
               [&](std::int64_t at, std::span<const float> values) {
                 const std::int64_t from = std::max(at, first),
                                    to = std::min(at + std::ssize(values), last);
                 if (from < to)
                   std::copy(values.begin() + (from - at), values.begin() + (to - at),
                             out.begin() + (from - first));
               });
  }
}

std::vector<float> assemble(const TensorMap& map, int tensor, const ValueSource& ours,
                            Values values) {
  const PublishedTensor& published = map.tensors()[static_cast<std::size_t>(tensor)];
  std::vector<float> out(static_cast<std::size_t>(published.shape.num_elements()));
  for (int index : published.pieces) {
    const Piece& piece = map.pieces()[static_cast<std::size_t>(index)];
    const std::span<const float> from = ours(piece.parameter, piece.first, piece.num_elements());
    const ViewRows rows(piece.view);
    const float* next = from.data();
    for (std::int64_t row = 0; row < rows.count(); ++row) {
      float* to = out.data() + rows.begin(row);
      for (std::int64_t c = 0; c < rows.width(); ++c)
        to[c * rows.stride()] = to_published(piece, *next++, values);
    }
  }
  return out;
}

}  // namespace lamina::weights
