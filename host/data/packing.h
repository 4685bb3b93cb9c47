// Packs documents of different lengths into rows of one length: which tokens are in which row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lamina::data {

enum class Packing {
  // Documents one after another, cut at the end of each row; the rest begins the next row as a
  // segment of its own.
  concat_then_split,
  // Likewise, but documents that fill exactly one row are not cut.
  concat_then_split_keep_full,
  // Into the first of `open_rows` rows that has room, resp. into the one that it fills best. If
  // none has room all are closed. Longer documents are refused.
  first_fit,
  best_fit,
  // Longest document first, each into the fullest row that has room (TRL's "bfd"); longer
  // documents are cut off, resp. cut into pieces.
  best_fit_decreasing,
  best_fit_decreasing_split,
  pad_or_trim,  // one document a row, the rest of a longer one dropped
  chunk,        // one piece of a document a row, longer ones in pieces
};

std::string_view name(Packing packing);
std::optional<Packing> parse_packing(std::string_view text);
// Every name, in the order above.
std::vector<std::string_view> packing_names();

struct PackingOptions {
  Packing packing = Packing::concat_then_split;
  int open_rows = 64;                            // of first_fit and best_fit
  std::optional<int> max_segments_per_row = {};  // of first_fit and best_fit
};

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
// and the end of the last. Empty documents are left out. Fails with a UserError (class data) where
// a document is longer than a row and the packing cannot cut it.
PackedRows pack(std::span<const std::uint64_t> document_begin, std::size_t tokens_per_row,
                const PackingOptions& options);

// One row written out; all spans have the same length, that of the row.
struct RowView {
  std::span<std::int32_t> inputs;
  std::span<std::int32_t> segment_ids;  // 1, 2, ...; 0 is padding
  std::span<std::int32_t> positions;    // from 0 in every segment
  // The next token of the same segment; kIgnoredLabel for the last token of a segment and for
  // padding: no document is trained to predict the next.
  std::span<std::int32_t> labels;
};

inline constexpr std::int32_t kIgnoredLabel = -100;

// `first_token_of_piece`: replaces the first token of every piece, eg by BOS, so that the
// continuation of a cut document begins like a document (and loses a token).
void write_row(std::span<const std::int32_t> tokens, std::span<const Piece> pieces,
               std::int32_t pad_id, const RowView& row,
               std::optional<std::int32_t> first_token_of_piece = std::nullopt);

}  // namespace lamina::data
