#include "data/packing.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "core/error.h"

namespace lamina::data {
namespace {

class Packer {
 public:
  Packer(std::span<const std::uint64_t> document_begin, std::size_t tokens_per_row,
         const RowOrder* order)
      : begin_(document_begin), row_tokens_(tokens_per_row), order_(order) {}

  PackedRows concat_then_split() {
    std::uint64_t room = row_tokens_;
    for (std::size_t i = 0; i < num_documents(); ++i)
      for (std::uint64_t d = document(i), at = begin_[d]; at < begin_[d + 1];) {
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
    for (std::size_t i = 0; i < num_documents(); ++i)
      for (std::uint64_t d = document(i), at = begin_[d]; at < begin_[d + 1]; at = end_of_last()) {
        add(at, std::min<std::uint64_t>(row_tokens_, begin_[d + 1] - at));
        close_row();
      }
    return std::move(rows_);
  }

 private:
  std::size_t num_documents() const { return begin_.size() - 1; }
  std::uint64_t document(std::size_t i) const { return order_ ? (*order_)[i] : i; }
  // Adds tokens of the piece to the open row and returns their number.
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
  const RowOrder* order_;
  PackedRows rows_;
};

// Converts rows from lists of documents into one list.
PackedRows flatten(const std::vector<std::vector<PackedPiece>>& rows) {
  PackedRows out;
  for (const std::vector<PackedPiece>& row : rows) {
    out.pieces.insert(out.pieces.end(), row.begin(), row.end());
    out.row_begin.push_back(out.pieces.size());
  }
  return out;
}

PackedRows best_fit(const std::vector<PackedPiece>& documents, std::size_t tokens_per_row,
                    const Grouping& grouping) {
  struct Group {
    std::size_t first;  // document
    std::size_t num_tokens;
  };
  std::vector<Group> groups;
  for (std::size_t d = 0; d < documents.size(); d += grouping.documents) {
    groups.push_back({d, 0});
    for (std::size_t i = 0; i < grouping.documents; ++i)
      groups.back().num_tokens += documents[d + i].num_tokens;
  }
  std::ranges::stable_sort(groups, std::greater<>(), &Group::num_tokens);
  std::vector<std::vector<PackedPiece>> rows;
  std::set<std::pair<std::size_t, std::size_t>> room;  // free tokens of a row, and the row
  for (const Group& group : groups) {
    const auto fullest = room.lower_bound({group.num_tokens, 0});
    std::size_t row = rows.size(), left = tokens_per_row;
    if (fullest == room.end()) {
      rows.emplace_back();
    } else {
      std::tie(left, row) = *fullest;
      room.erase(fullest);
    }
    const auto first = documents.begin() + static_cast<std::ptrdiff_t>(group.first);
    rows[row].insert(rows[row].end(), first,
                     first + static_cast<std::ptrdiff_t>(grouping.documents));
    if (grouping.max_documents == 0 ||
        rows[row].size() + grouping.documents <= grouping.max_documents)
      room.emplace(left - group.num_tokens, row);
  }
  return flatten(rows);
}

}  // namespace

std::string_view name(Packing packing) {
  switch (packing) {
    case Packing::concat_then_split:
      return "concat_then_split";
    case Packing::chunk:
      return "chunk";
    case Packing::best_fit:
      return "best_fit";
    case Packing::one:
      break;
  }
  return "one";
}

std::size_t max_segments(std::int64_t tokens) {
  constexpr std::int64_t kTokensOfPair = 32, kMostPairs = 64;
  return static_cast<std::size_t>(2 *
                                  std::clamp<std::int64_t>(tokens / kTokensOfPair, 1, kMostPairs));
}

PackedRows pack_whole(std::vector<PackedPiece> documents, std::size_t tokens_per_row,
                      Packing packing, const Grouping& grouping) {
  LAMINA_ASSERT(keeps_documents_whole(packing) && documents.size() % grouping.documents == 0);
  if (packing == Packing::best_fit) return best_fit(documents, tokens_per_row, grouping);
  PackedRows out;
  out.pieces = std::move(documents);
  for (std::size_t i = grouping.documents; i <= out.pieces.size(); i += grouping.documents)
    out.row_begin.push_back(i);
  return out;
}

PackedRows pack(std::span<const std::uint64_t> document_begin, std::size_t tokens_per_row,
                Packing packing, const RowOrder* order) {
  LAMINA_ASSERT(!document_begin.empty() && tokens_per_row > 0);
  if (keeps_documents_whole(packing)) {
    LAMINA_ASSERT(order == nullptr);
    std::vector<PackedPiece> documents;
    for (std::size_t d = 0; d + 1 < document_begin.size(); ++d)
      if (const std::uint64_t n = document_begin[d + 1] - document_begin[d]; n > 0)
        documents.push_back({document_begin[d], static_cast<std::uint32_t>(
                                                    std::min<std::uint64_t>(n, tokens_per_row))});
    return pack_whole(std::move(documents), tokens_per_row, packing);
  }
  Packer packer(document_begin, tokens_per_row, order);
  return packing == Packing::chunk ? packer.chunk() : packer.concat_then_split();
}

void write_row(const TokenIds& tokens, std::span<const PackedPiece> pieces, std::int32_t pad_id,
               const RowView& row, std::span<const std::uint8_t> in_loss) {
  std::size_t at = 0;
  std::int32_t segment = 0;
  for (const PackedPiece& piece : pieces) {
    const std::size_t n = piece.num_tokens;
    tokens.copy(piece.first_token, row.inputs.subspan(at, n));
    std::fill_n(row.segment_ids.begin() + static_cast<std::ptrdiff_t>(at), n, ++segment);
    std::iota(row.positions.begin() + static_cast<std::ptrdiff_t>(at),
              row.positions.begin() + static_cast<std::ptrdiff_t>(at + n), 0);
    for (std::size_t i = 0; i + 1 < n; ++i)
      row.labels[at + i] = in_loss.empty() || in_loss[piece.first_token + i + 1] != 0
                               ? row.inputs[at + i + 1]
                               : kIgnoredLabel;
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
