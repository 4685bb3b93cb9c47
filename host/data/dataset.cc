#include "data/dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/split_mix.h"
#include "io/durable_file.h"

namespace lamina::data {
namespace {

// Removes rows without a label.
DatasetCounts drop_unlearned_rows(PackedRows& rows, std::uint64_t row_tokens) {
  DatasetCounts counts;
  PackedRows kept;
  for (std::size_t i = 0; i < rows.num_rows(); ++i) {
    const std::span<const PackedPiece> row = rows.row(i);
    if (std::ranges::none_of(row, [](const PackedPiece& piece) { return piece.num_tokens > 1; })) {
      ++counts.num_unlearned_rows;
      continue;
    }
    kept.pieces.insert(kept.pieces.end(), row.begin(), row.end());
    kept.row_begin.push_back(kept.pieces.size());
    for (const PackedPiece& piece : row) counts.num_tokens += piece.num_tokens;
  }
  if (counts.num_unlearned_rows > 0) rows = std::move(kept);
  counts.padding = rows.num_rows() * row_tokens - counts.num_tokens;
  return counts;
}

std::string fingerprint(const TokenView& tokens, std::uint64_t num_rows, std::uint64_t first_row,
                        const DatasetOptions& options) {
  std::string all = fmt::format("{} {} {} {} {}", tokens.digest, options.tokens_per_row,
                                name(options.packing), num_rows, first_row);
  if (options.shuffle_documents) all += fmt::format(" shuffled by {}", options.seed);
  return io::xxh3_128_hex(std::as_bytes(std::span(all)));
}

// Returns the order of `num` documents or groups. It differs from the row order of every epoch.
RowOrder document_order(std::uint64_t num, std::uint64_t seed) {
  return RowOrder(num, split_mix(seed), 0);
}

// Returns the number of rows or documents, out of `num`, that are held out for validation.
std::uint64_t num_kept_back(double fraction, std::uint64_t num, std::string_view what,
                            const std::string& where) {
  std::uint64_t kept_back = 0;
  if (fraction > 0)
    kept_back = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(std::llround(fraction * static_cast<double>(num))));
  if (kept_back >= num)
    throw UserError(ExitCode::data,
                    {where,
                     fmt::format("{} of {} {} would be held out for validation; at least one must "
                                 "remain for training",
                                 kept_back, num, what),
                     {"add more text, or lower data.validation_fraction or data.sequence_length"}});
  return kept_back;
}

// Returns whether any of the first `n` tokens of a document is in the loss.
bool has_labels(const TokenView& tokens, std::uint64_t begin, std::uint64_t n) {
  if (n < 2) return false;
  if (tokens.in_loss.empty()) return true;
  const auto labels = tokens.in_loss.subspan(begin + 1, n - 1);  // the first token is no label
  return std::ranges::count(labels, 0) != std::ssize(labels);
}

// Returns how many tokens of each document of a group fit into a row. Only documents longer than an
// equal share are cut.
std::vector<std::uint64_t> fitting(std::span<const std::uint64_t> sizes, std::uint64_t row_tokens) {
  std::vector<std::size_t> by_size(sizes.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::ranges::stable_sort(by_size, {}, [&](std::size_t i) { return sizes[i]; });
  std::vector<std::uint64_t> out(sizes.size());
  std::uint64_t left = row_tokens;
  for (std::size_t k = 0; k < by_size.size(); ++k) {
    const std::size_t i = by_size[k];
    out[i] = std::min(sizes[i], left / (by_size.size() - k));
    left -= out[i];
  }
  return out;
}

// Returns whether two documents are equal, or, if both were cut, equal over the length of the
// shorter one.
bool same_tokens(const TokenView& tokens, const std::uint64_t* begins,
                 std::span<const std::uint64_t> sizes, std::span<const std::uint64_t> kept) {
  const bool both_cut = sizes[0] > kept[0] && sizes[1] > kept[1];
  if (!both_cut && kept[0] != kept[1]) return false;
  std::vector<std::int32_t> first(std::min(kept[0], kept[1])), second(first.size());
  tokens.tokens.copy(begins[0], first);
  tokens.tokens.copy(begins[1], second);
  return first == second;
}

// Returns the documents, cut to the row length. Skips groups in which a document has no token in
// the loss, and pairs that are equal after the cut.
std::vector<PackedPiece> whole_documents(const TokenView& tokens, std::uint64_t row_tokens,
                                         std::size_t group, DatasetCounts& counts) {
  std::vector<PackedPiece> out;
  for (std::size_t d = 0; d + group <= tokens.num_documents(); d += group) {
    std::vector<std::uint64_t> sizes;
    for (std::size_t i = d; i < d + group; ++i)
      sizes.push_back(tokens.document_begin[i + 1] - tokens.document_begin[i]);
    const std::vector<std::uint64_t> kept = fitting(sizes, row_tokens);
    bool learned = true;
    for (std::size_t i = 0; i < group; ++i)
      learned = learned && has_labels(tokens, tokens.document_begin[d + i], kept[i]);
    if (group == 2)
      learned = learned && !same_tokens(tokens, &tokens.document_begin[d], sizes, kept);
    if (!learned) {
      counts.num_unlearned_documents += group;
      continue;
    }
    for (std::size_t i = 0; i < group; ++i) {
      counts.num_cut_documents += sizes[i] > kept[i];
      counts.num_cut_tokens += sizes[i] - kept[i];
      counts.num_tokens += kept[i];
      out.push_back({tokens.document_begin[d + i], static_cast<std::uint32_t>(kept[i])});
    }
  }
  return out;
}

// Says why no document is left.
ErrorText nothing_fits(const TokenView& tokens, std::uint64_t row_tokens,
                       const DatasetOptions& options) {
  const std::size_t group = options.grouping.documents;
  const std::size_t num_documents = tokens.num_documents();
  if (group == 1 || num_documents < group)
    return {
        tokens.name,
        fmt::format("none of the {} documents has a token in the loss among its first {} tokens",
                    num_documents, row_tokens),
        options.on_no_label.empty() ? std::vector<std::string>()
                                    : std::vector<std::string>{options.on_no_label}};
  // A whole pair has tokens in the loss, and its answers differ.
  std::uint64_t shortest = tokens.tokens.size();
  for (std::size_t d = 0; d + group <= num_documents; d += group)
    shortest = std::min(shortest, tokens.document_begin[d + group] - tokens.document_begin[d]);
  return {tokens.name,
          fmt::format("no pair fits: both answers of a pair are in one row, which has {} tokens, "
                      "and the shortest pair has {}",
                      row_tokens, shortest),
          {fmt::format("set data.sequence_length to at least {}", shortest - 1)}};
}

// Returns whole groups in a random order.
std::vector<PackedPiece> shuffled(const std::vector<PackedPiece>& documents, std::size_t group,
                                  std::uint64_t seed) {
  const std::size_t num_groups = documents.size() / group;
  const RowOrder order = document_order(num_groups, seed);
  std::vector<PackedPiece> out;
  for (std::size_t i = 0; i < num_groups; ++i) {
    const auto first = documents.begin() + static_cast<std::ptrdiff_t>(order[i] * group);
    out.insert(out.end(), first, first + static_cast<std::ptrdiff_t>(group));
  }
  return out;
}

}  // namespace

DatasetCounts& DatasetCounts::operator+=(const DatasetCounts& other) {
  num_tokens += other.num_tokens;
  padding += other.padding;
  num_cut_documents += other.num_cut_documents;
  num_cut_tokens += other.num_cut_tokens;
  num_unlearned_documents += other.num_unlearned_documents;
  num_unlearned_rows += other.num_unlearned_rows;
  return *this;
}

std::int64_t Batch::num_labels() const {
  return static_cast<std::int64_t>(labels.size()) -
         std::count(labels.begin(), labels.end(), kIgnoredLabel);
}

std::uint64_t Dataset::num_labels() const {
  std::uint64_t total = 0;
  for (const Part& part : parts_) {
    const std::span<const std::uint8_t> in_loss = part.rows->tokens.in_loss;
    for (std::uint64_t row = part.first_row; row < part.last_row; ++row)
      for (const PackedPiece& piece : part.rows->packed.row(row)) {
        total += piece.num_tokens - 1;
        if (!in_loss.empty())
          total -= static_cast<std::uint64_t>(
              std::ranges::count(in_loss.subspan(piece.first_token + 1, piece.num_tokens - 1), 0));
      }
  }
  return total;
}

Dataset::Place Dataset::place(std::uint64_t epoch, std::uint64_t index) const {
  const Part* part = &parts_.front();
  if (parts_.size() > 1) {
    // Each part takes its share of the remaining rows, evenly spread.
    std::uint64_t n = epoch * num_rows_ + index, left = 0;
    for (std::uint64_t share : shares_) left += share;
    for (std::size_t i = 0;; ++i, ++part) {
      const auto taken = [&](std::uint64_t rows) {
        __extension__ using Wide = unsigned __int128;
        return static_cast<std::uint64_t>((static_cast<Wide>(rows) * shares_[i] + left / 2) / left);
      };
      const std::uint64_t before = taken(n);
      if (i + 1 == parts_.size() || taken(n + 1) > before) {
        if (i + 1 < parts_.size()) n = before;
        break;
      }
      n -= before;
      left -= shares_[i];
    }
    epoch = n / part->num_rows();
    index = n % part->num_rows();
  }
  return {part,
          part->first_row +
              (options_.shuffle ? RowOrder(part->num_rows(), part->seed, epoch)[index] : index)};
}

Dataset mix(const std::vector<Dataset>& datasets, const std::vector<double>& weights) {
  LAMINA_ASSERT(!datasets.empty() && datasets.size() == weights.size());
  Dataset out = datasets.front();
  out.parts_.clear();
  out.num_rows_ = 0;
  double sum = 0;
  for (double weight : weights) sum += weight;
  constexpr double kUnits = 0x1p40;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    Dataset::Part part = datasets[i].parts_.front();
    if (i > 0) part.seed = split_mix(part.seed + i);
    out.num_rows_ += part.num_rows();
    out.parts_.push_back(std::move(part));
    const auto share = static_cast<std::uint64_t>(std::llround(weights[i] / sum * kUnits));
    out.shares_.push_back(std::max<std::uint64_t>(1, share));
  }
  return out;
}

void Dataset::next(DataCursor& cursor, std::int64_t num_rows, Batch& batch) const {
  read(cursor, 0, num_rows, batch);
  cursor.index += static_cast<std::uint64_t>(num_rows);
  cursor.epoch += cursor.index / this->num_rows();
  cursor.index %= this->num_rows();
}

Dataset::Place Dataset::numbered(std::uint64_t row) const {
  const Part* part = &parts_.front();
  for (; row >= part->num_rows(); ++part) row -= part->num_rows();
  return {part, part->first_row + row};
}

std::uint64_t Dataset::number_of(const Place& place) const {
  std::uint64_t before = 0;
  for (const Part* part = &parts_.front(); part != place.part; ++part) before += part->num_rows();
  return before + place.row - place.part->first_row;
}

void Dataset::read(DataCursor cursor, std::int64_t skip, std::int64_t num_rows,
                   Batch& batch) const {
  cursor.index += static_cast<std::uint64_t>(skip);
  write(num_rows, batch, [&](std::int64_t) {
    cursor.epoch += cursor.index / this->num_rows();
    cursor.index %= this->num_rows();
    return place(cursor.epoch, cursor.index++);
  });
}

void Dataset::read_numbered(std::uint64_t first, std::int64_t num_rows, Batch& batch) const {
  write(num_rows, batch, [&](std::int64_t i) {
    return numbered((first + static_cast<std::uint64_t>(i)) % this->num_rows());
  });
}

template <typename PlaceOf>
void Dataset::write(std::int64_t num_rows, Batch& batch, const PlaceOf& place_of) const {
  const auto width = static_cast<std::size_t>(options_.tokens_per_row);
  const std::size_t size = static_cast<std::size_t>(num_rows) * width;
  batch.num_rows = num_rows;
  batch.tokens_per_row = options_.tokens_per_row;
  // One element more than the batch has: each row is written with its last token, which is the
  // label of the previous position. The next row then overwrites that element.
  for (auto* field : {&batch.tokens, &batch.labels, &batch.segment_ids, &batch.positions})
    field->resize(size + 1);
  batch.rows.clear();
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const Place at_row = place_of(i);
    const auto [part, row] = at_row;
    batch.rows.push_back(number_of(at_row));
    const std::size_t at = static_cast<std::size_t>(i) * width;
    const auto field = [&](std::vector<std::int32_t>& values) {
      return std::span(values).subspan(at, width + 1);
    };
    write_row(part->rows->tokens.tokens, part->rows->packed.row(row), options_.pad_id,
              {field(batch.tokens), field(batch.segment_ids), field(batch.positions),
               field(batch.labels)},
              part->rows->tokens.in_loss);
  }
  for (auto* field : {&batch.tokens, &batch.labels, &batch.segment_ids, &batch.positions})
    field->resize(size);
}

DatasetSplit split_documents(TokenView tokens, double validation_fraction,
                             const DatasetOptions& options) {
  const auto row_tokens = static_cast<std::uint64_t>(options.tokens_per_row) + 1;
  DatasetCounts counts;
  const std::size_t group = options.grouping.documents;
  std::vector<PackedPiece> documents = whole_documents(tokens, row_tokens, group, counts);
  if (documents.empty()) throw UserError(ExitCode::data, nothing_fits(tokens, row_tokens, options));
  if (options.shuffle_documents) documents = shuffled(documents, group, options.seed);
  const std::uint64_t kept_back =
      group * num_kept_back(validation_fraction, documents.size() / group,
                            group == 1 ? "documents" : "pairs", tokens.name);
  const std::uint64_t num_trained = documents.size() - kept_back;
  const auto border = documents.begin() + static_cast<std::ptrdiff_t>(num_trained);
  std::string print = fingerprint(tokens, documents.size(), num_trained, options);
  const auto rows_of = [&](auto begin, auto end) {
    return std::make_shared<const Dataset::PackedTokens>(
        Dataset::PackedTokens{tokens, pack_whole(std::vector<PackedPiece>(begin, end), row_tokens,
                                                 options.packing, options.grouping)});
  };
  const auto rows = rows_of(documents.begin(), border);
  std::uint64_t num_rows = rows->packed.num_rows();
  DatasetSplit out{Dataset(rows, 0, num_rows, options), {}, counts, std::move(print)};
  if (kept_back > 0) {
    DatasetOptions validation_options = options;
    validation_options.shuffle = false;
    const auto kept = rows_of(border, documents.end());
    out.validation.push_back(Dataset(kept, 0, kept->packed.num_rows(), validation_options));
    num_rows += kept->packed.num_rows();
  }
  out.counts.padding = num_rows * row_tokens - counts.num_tokens;
  return out;
}

DatasetSplit split(TokenView tokens, double validation_fraction, const DatasetOptions& options) {
  LAMINA_ASSERT(validation_fraction >= 0 && validation_fraction < 1);
  if (keeps_documents_whole(options.packing))
    return split_documents(std::move(tokens), validation_fraction, options);
  const auto row_tokens = static_cast<std::uint64_t>(options.tokens_per_row) + 1;
  // Rows of packings with one document per row are padded.
  if (options.packing == Packing::concat_then_split && tokens.tokens.size() < row_tokens)
    throw UserError(ExitCode::data,
                    {tokens.name,
                     fmt::format("the text has {} tokens in total; one row needs {}",
                                 tokens.tokens.size(), row_tokens),
                     {fmt::format("add more text, or set data.sequence_length to at most {}",
                                  tokens.tokens.size() - 1)}});
  auto rows = std::make_shared<Dataset::PackedTokens>();
  const RowOrder order = document_order(tokens.num_documents(), options.seed);
  rows->packed = pack(tokens.document_begin, row_tokens, options.packing,
                      options.shuffle_documents ? &order : nullptr);
  const DatasetCounts counts = drop_unlearned_rows(rows->packed, row_tokens);
  if (rows->packed.num_rows() == 0)
    throw UserError(ExitCode::data,
                    {tokens.name,
                     fmt::format("there is nothing to train on: no document of the {} has more "
                                 "than one token",
                                 tokens.num_documents()),
                     {"check data.form, data.tokenizer and data.document_separator; `lamina data "
                      "show` prints the rows"}});
  const std::uint64_t num_rows = rows->packed.num_rows();
  const std::uint64_t kept_back = num_kept_back(validation_fraction, num_rows, "rows", tokens.name);
  const std::uint64_t first_kept = num_rows - kept_back;
  std::string print = fingerprint(tokens, num_rows, first_kept, options);
  rows->tokens = std::move(tokens);
  DatasetOptions validation_options = options;
  validation_options.shuffle = false;
  DatasetSplit out{Dataset(rows, 0, first_kept, options), {}, counts, std::move(print)};
  if (kept_back > 0)
    out.validation.push_back(Dataset(rows, first_kept, num_rows, validation_options));
  return out;
}

DatasetSplit split(std::shared_ptr<const TokenStore> store, double validation_fraction,
                   const DatasetOptions& options) {
  return split(view_of(std::move(store)), validation_fraction, options);
}

}  // namespace lamina::data
