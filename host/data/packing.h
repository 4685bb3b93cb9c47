// Packs documents of different lengths into rows of one length: which tokens are in which row.
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
  // Documents one after another, cut at the end of each row; the rest begins the next row as a
  // segment of its own.
  concat_then_split,
  chunk,  // one piece of a document a row, longer ones in pieces
  // Whole documents, longest first, each into the fullest row that it fits into (best-fit
  // decreasing, as TRL has it); longer ones are cut and their rest left out.
  best_fit,
  one,  // one document a row; longer ones likewise
};

// Whether documents begin in rows of their own or at the end of others, never in their middle.
inline bool keeps_documents_whole(Packing packing) {
  return packing == Packing::best_fit || packing == Packing::one;
}

// Part of the fingerprint of a run's data.
std::string_view name(Packing packing);

// Consecutive tokens of one document: one segment of a row.
struct Piece {
  std::uint64_t first_token;
  std::uint32_t num_tokens;
};

// Rows as lists of pieces; every row has at least one.
struct PackedRows {
  std::vector<Piece> pieces;
  std::vector<std::uint64_t> row_begin = {0};  // into pieces; one more than rows

  std::size_t num_rows() const { return row_begin.size() - 1; }
  std::span<const Piece> row(std::size_t i) const {
    return std::span(pieces).subspan(row_begin[i], row_begin[i + 1] - row_begin[i]);
  }
};

// `document_begin` has one entry more than there are documents: where each begins in the tokens,
// and the end of the last. Empty documents are left out; every token is in one row, except for what
// is cut off documents that are kept whole.
// With `order`, a permutation of the documents, they come in that order; of packings that keep them
// whole, pack_whole() is given them in any.
PackedRows pack(std::span<const std::uint64_t> document_begin, std::size_t tokens_per_row,
                Packing packing, const RowOrder* order = nullptr);

// Documents that stay together, in one row and in their order.
struct Grouping {
  std::size_t documents = 1;      // of a group
  std::size_t max_documents = 0;  // of a row; 0: as many as fit
};

// Documents that a row of `tokens` tokens has room for where something is computed of each.
std::size_t max_segments(std::int64_t tokens);

// Of these documents, no group longer than a row. REQUIRES: keeps_documents_whole(packing); the
// documents are whole groups.
PackedRows pack_whole(std::vector<Piece> documents, std::size_t tokens_per_row, Packing packing,
                      const Grouping& grouping = {});

// One row written out; all spans have the same length, that of the row.
struct RowView {
  std::span<std::int32_t> inputs;
  std::span<std::int32_t> segment_ids;  // 1, 2, ...; 0 is padding
  std::span<std::int32_t> positions;    // from 0 in every segment
  // The next token of the same segment; kIgnoredLabel where that is not in the loss, for the last
  // token of a segment and for padding: no document is trained to predict the next.
  std::span<std::int32_t> labels;
};

inline constexpr std::int32_t kIgnoredLabel = -100;

// `in_loss` as in TokenView.
void write_row(const TokenIds& tokens, std::span<const Piece> pieces, std::int32_t pad_id,
               const RowView& row, std::span<const std::uint8_t> in_loss = {});

}  // namespace lamina::data
