#include "data/packing.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "core/error.h"

namespace lamina::data {
namespace {

constexpr std::pair<Packing, std::string_view> kNames[] = {
    {Packing::concat_then_split, "concat_then_split"},
    {Packing::concat_then_split_keep_full, "concat_then_split_keep_full"},
    {Packing::first_fit, "first_fit"},
    {Packing::best_fit, "best_fit"},
    {Packing::best_fit_decreasing, "best_fit_decreasing"},
    {Packing::best_fit_decreasing_split, "best_fit_decreasing_split"},
    {Packing::pad_or_trim, "pad_or_trim"},
    {Packing::chunk, "chunk"},
};

class Packer {
 public:
  Packer(std::span<const std::uint64_t> document_begin, std::size_t tokens_per_row,
         const PackingOptions& options)
      : begin_(document_begin), row_tokens_(tokens_per_row), options_(options) {}

  PackedRows run() {
    switch (options_.packing) {
      case Packing::concat_then_split:
        concat_then_split(false);
        break;
      case Packing::concat_then_split_keep_full:
        concat_then_split(true);
        break;
      case Packing::first_fit:
        fit(false);
        break;
      case Packing::best_fit:
        fit(true);
        break;
      case Packing::best_fit_decreasing:
        best_fit_decreasing(false);
        break;
      case Packing::best_fit_decreasing_split:
        best_fit_decreasing(true);
        break;
      case Packing::pad_or_trim:
        one_per_row(false);
        break;
      case Packing::chunk:
        one_per_row(true);
        break;
    }
    return std::move(rows_);
  }

 private:
  std::size_t num_documents() const { return begin_.size() - 1; }
  std::uint64_t length(std::size_t document) const {
    return begin_[document + 1] - begin_[document];
  }
  static Piece piece(std::uint64_t first, std::uint64_t num_tokens) {
    return {first, static_cast<std::uint32_t>(num_tokens)};
  }

  void close_row() { rows_.row_begin.push_back(rows_.pieces.size()); }

  void emit(std::span<const Piece> pieces) {
    rows_.pieces.insert(rows_.pieces.end(), pieces.begin(), pieces.end());
    close_row();
  }

  void concat_then_split(bool keep_full) {
    std::vector<Piece> open, full;
    std::uint64_t room = row_tokens_;
    const auto emit_full = [&] {
      for (const Piece& document : full) emit({&document, 1});
      full.clear();
    };
    for (std::size_t d = 0; d < num_documents(); ++d) {
      if (keep_full && length(d) == row_tokens_) {
        full.push_back(piece(begin_[d], length(d)));
        if (open.empty()) emit_full();
        continue;
      }
      for (std::uint64_t at = begin_[d]; at < begin_[d + 1];) {
        const std::uint64_t take = std::min(room, begin_[d + 1] - at);
        open.push_back(piece(at, take));
        at += take;
        room -= take;
        if (room > 0) continue;
        emit(open);
        open.clear();
        room = row_tokens_;
        emit_full();
      }
    }
    if (!open.empty()) emit(open);
    emit_full();
  }

  void fit(bool best) {
    struct Open {
      std::vector<Piece> pieces;
      std::uint64_t used = 0;
    };
    const std::size_t most_segments = options_.max_segments_per_row
                                          ? static_cast<std::size_t>(*options_.max_segments_per_row)
                                          : row_tokens_;
    std::vector<Open> open(static_cast<std::size_t>(std::max(1, options_.open_rows)));
    const auto close_all = [&] {
      for (Open& row : open)
        if (!row.pieces.empty()) emit(row.pieces);
      for (Open& row : open) row = {};
    };
    for (std::size_t d = 0; d < num_documents(); ++d) {
      const std::uint64_t tokens = length(d);
      if (tokens == 0) continue;
      if (tokens > row_tokens_)
        throw UserError(
            ExitCode::data,
            {"packing",
             fmt::format("document {} has {} tokens; a row of '{}' holds at most {}", d, tokens,
                         name(options_.packing), row_tokens_),
             {"use concat_then_split, chunk or best_fit_decreasing_split, which cut documents"}});
      Open* chosen = nullptr;
      for (Open& row : open) {
        if (row.used + tokens > row_tokens_ || row.pieces.size() >= most_segments) continue;
        if (!chosen || row.used > chosen->used) chosen = &row;
        if (!best) break;
      }
      if (!chosen) {
        close_all();
        chosen = &open.front();
      }
      chosen->pieces.push_back(piece(begin_[d], tokens));
      chosen->used += tokens;
    }
    close_all();
  }

  void best_fit_decreasing(bool split) {
    std::vector<Piece> pieces;
    for (std::size_t d = 0; d < num_documents(); ++d)
      for (std::uint64_t at = begin_[d]; at < begin_[d + 1]; at += row_tokens_) {
        pieces.push_back(piece(at, std::min<std::uint64_t>(row_tokens_, begin_[d + 1] - at)));
        if (!split) break;
      }
    std::stable_sort(pieces.begin(), pieces.end(),
                     [](const Piece& a, const Piece& b) { return a.num_tokens > b.num_tokens; });
    std::vector<std::vector<Piece>> rows;
    std::set<std::pair<std::uint64_t, std::size_t>> rooms;  // free tokens, row
    for (const Piece& next : pieces) {
      std::uint64_t room = row_tokens_;
      std::size_t row = rows.size();
      if (const auto found = rooms.lower_bound({next.num_tokens, 0}); found != rooms.end()) {
        std::tie(room, row) = *found;
        rooms.erase(found);
      } else {
        rows.emplace_back();
      }
      rows[row].push_back(next);
      if (room > next.num_tokens) rooms.emplace(room - next.num_tokens, row);
    }
    for (const auto& row : rows) emit(row);
  }

  void one_per_row(bool all_pieces) {
    for (std::size_t d = 0; d < num_documents(); ++d)
      for (std::uint64_t at = begin_[d]; at < begin_[d + 1]; at += row_tokens_) {
        const Piece next = piece(at, std::min<std::uint64_t>(row_tokens_, begin_[d + 1] - at));
        emit({&next, 1});
        if (!all_pieces) break;
      }
  }

  std::span<const std::uint64_t> begin_;
  std::uint64_t row_tokens_;
  const PackingOptions& options_;
  PackedRows rows_;
};

}  // namespace

std::string_view name(Packing packing) {
  for (const auto& [value, text] : kNames)
    if (value == packing) return text;
  return "";
}

std::optional<Packing> parse_packing(std::string_view text) {
  for (const auto& [value, known] : kNames)
    if (known == text) return value;
  return std::nullopt;
}

std::vector<std::string_view> packing_names() {
  std::vector<std::string_view> names;
  for (const auto& [value, text] : kNames) names.push_back(text);
  return names;
}

PackedRows pack(std::span<const std::uint64_t> document_begin, std::size_t tokens_per_row,
                const PackingOptions& options) {
  LAMINA_ASSERT(!document_begin.empty() && tokens_per_row > 0);
  return Packer(document_begin, tokens_per_row, options).run();
}

void write_row(std::span<const std::int32_t> tokens, std::span<const Piece> pieces,
               std::int32_t pad_id, const RowView& row,
               std::optional<std::int32_t> first_token_of_piece) {
  std::size_t at = 0;
  std::int32_t segment = 0;
  for (const Piece& piece : pieces) {
    const std::size_t n = piece.num_tokens;
    const auto source = tokens.subspan(piece.first_token, n);
    std::copy(source.begin(), source.end(), row.inputs.begin() + static_cast<std::ptrdiff_t>(at));
    if (first_token_of_piece) row.inputs[at] = *first_token_of_piece;
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
