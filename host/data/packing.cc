#include "data/packing.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace lamina::data {
namespace {

class Packer {
 public:
  Packer(std::span<const std::uint64_t> document_begin, std::size_t tokens_per_row)
      : begin_(document_begin), row_tokens_(tokens_per_row) {}

  PackedRows concat_then_split() {
    std::uint64_t room = row_tokens_;
    for (std::size_t d = 0; d < num_documents(); ++d)
      for (std::uint64_t at = begin_[d]; at < begin_[d + 1];) {
        room -= add(at, std::min(room, begin_[d + 1] - at));
        at = end_of_last();
        if (room > 0) continue;
        close_row();
        room = row_tokens_;
      }
    if (room < row_tokens_) close_row();
    return std::move(rows_);
  }

  PackedRows chunk() {
    for (std::size_t d = 0; d < num_documents(); ++d)
      for (std::uint64_t at = begin_[d]; at < begin_[d + 1]; at = end_of_last()) {
        add(at, std::min<std::uint64_t>(row_tokens_, begin_[d + 1] - at));
        close_row();
      }
    return std::move(rows_);
  }

 private:
  std::size_t num_documents() const { return begin_.size() - 1; }
  // To the open row; the tokens of the piece.
  std::uint64_t add(std::uint64_t first, std::uint64_t num_tokens) {
    rows_.pieces.push_back({first, static_cast<std::uint32_t>(num_tokens)});
    return num_tokens;
  }
  std::uint64_t end_of_last() const {
    return rows_.pieces.back().first_token + rows_.pieces.back().num_tokens;
  }
  void close_row() { rows_.row_begin.push_back(rows_.pieces.size()); }

  std::span<const std::uint64_t> begin_;
  std::uint64_t row_tokens_;
  PackedRows rows_;
};

}  // namespace

std::string_view name(Packing packing) {
  return packing == Packing::chunk ? "chunk" : "concat_then_split";
}

PackedRows pack(std::span<const std::uint64_t> document_begin, std::size_t tokens_per_row,
                Packing packing) {
  LAMINA_ASSERT(!document_begin.empty() && tokens_per_row > 0);
  Packer packer(document_begin, tokens_per_row);
  return packing == Packing::chunk ? packer.chunk() : packer.concat_then_split();
}

void write_row(std::span<const std::int32_t> tokens, std::span<const Piece> pieces,
               std::int32_t pad_id, const RowView& row) {
  std::size_t at = 0;
  std::int32_t segment = 0;
  for (const Piece& piece : pieces) {
    const std::size_t n = piece.num_tokens;
    const auto source = tokens.subspan(piece.first_token, n);
    std::copy(source.begin(), source.end(), row.inputs.begin() + static_cast<std::ptrdiff_t>(at));
    std::fill_n(row.segment_ids.begin() + static_cast<std::ptrdiff_t>(at), n, ++segment);
    std::iota(row.positions.begin() + static_cast<std::ptrdiff_t>(at),
              row.positions.begin() + static_cast<std::ptrdiff_t>(at + n), 0);
    for (std::size_t i = 0; i + 1 < n; ++i) row.labels[at + i] = row.inputs[at + i + 1];
    row.labels[at + n - 1] = kIgnoredLabel;
    at += n;
  }
  const auto rest = static_cast<std::ptrdiff_t>(at);
  std::fill(row.inputs.begin() + rest, row.inputs.end(), pad_id);
  std::fill(row.segment_ids.begin() + rest, row.segment_ids.end(), 0);
  std::fill(row.positions.begin() + rest, row.positions.end(), 0);
  std::fill(row.labels.begin() + rest, row.labels.end(), kIgnoredLabel);
}

}  // namespace lamina::data
