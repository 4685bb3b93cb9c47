// Packs documents of different lengths into rows of equal length: which tokens are in which row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/row_order.h"
#include "data/token_view.h"

namespace lamina::data {

enum class Packing {
  // Concatenates documents and cuts them at the end of each row; the rest starts the next row as a
  // separate segment.
  concat_then_split,
  chunk,  // one document per row, long documents in several rows
  // Places whole documents, longest first, each into the fullest row with enough space (best-fit
  // decreasing, as in TRL); documents longer than a row are cut and the rest is dropped.
  best_fit,
  one,  // one document per row; longer documents are cut
};

// Returns whether a document is never split over two rows.
inline bool keeps_documents_whole(Packing packing) {
  return packing == Packing::best_fit || packing == Packing::one;
}

// Returns the name of the packing in the fingerprint of a run's data.
std::string_view name(Packing packing);

// Consecutive tokens of one document: one segment of a row.
struct PackedPiece {
  std::uint64_t first_token;
  std::uint32_t num_tokens;
};

// Rows as lists of pieces; every row has at least one.
struct PackedRows {
  std::vector<PackedPiece> pieces;
  std::vector<std::uint64_t> row_begin = {0};  // indices into pieces; num_rows() + 1 values

  std::size_t num_rows() const { return row_begin.size() - 1; }
  std::span<const PackedPiece> row(std::size_t i) const {
    return std::span(pieces).subspan(row_begin[i], row_begin[i + 1] - row_begin[i]);
  }
};

// Packs documents. `document_begin` has the offset of each document in the tokens, and the end of
// the last one. Empty documents are skipped. Every token is in exactly one row, except for tokens
// cut off documents that are kept whole.
// With `order`, a permutation of the documents, they are packed in that order; for packings that
// keep documents whole, use pack_whole().
PackedRows pack(std::span<const std::uint64_t> document_begin, std::size_t tokens_per_row,
                Packing packing, const RowOrder* order = nullptr);

// Documents that are kept together in one row, in their order.
struct Grouping {
  std::size_t documents = 1;      // per group
  std::size_t max_documents = 0;  // per row; 0: as many as fit
};

// Returns the maximum number of documents in a row of `tokens` tokens when something is computed
// per document.
std::size_t max_segments(std::int64_t tokens);

// Packs whole groups of documents, none longer than a row. REQUIRES:
// keeps_documents_whole(packing).
PackedRows pack_whole(std::vector<PackedPiece> documents, std::size_t tokens_per_row,
                      Packing packing, const Grouping& grouping = {});

// Output of one row; all spans have the length of the row.
struct RowView {
  std::span<std::int32_t> inputs;
  std::span<std::int32_t> segment_ids;  // 1, 2, ...; 0 is padding
  std::span<std::int32_t> positions;    // from 0 in every segment
  // The next token of the same segment. kIgnoredLabel if it is not in the loss, for the last token
  // of a segment and for padding: no document is trained to predict the next one.
  std::span<std::int32_t> labels;
};

inline constexpr std::int32_t kIgnoredLabel = -100;

// See TokenView for `in_loss`.
void write_row(const TokenIds& tokens, std::span<const PackedPiece> pieces, std::int32_t pad_id,
               const RowView& row, std::span<const std::uint8_t> in_loss = {});

}  // namespace lamina::data
