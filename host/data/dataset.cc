#include "data/dataset.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "io/durable_file.h"

namespace lamina::data {
namespace {

DatasetCounts count(const TokenStore& store, const PackedRows& rows, std::uint64_t row_tokens) {
  DatasetCounts counts;
  counts.num_tokens = store.tokens.size();
  counts.padding = rows.num_rows() * row_tokens - counts.num_tokens;
  return counts;
}

std::string fingerprint(const TokenStore& store, const PackedRows& rows, std::uint64_t first_row,
                        const DatasetOptions& options) {
  const std::string all =
      fmt::format("{} {} {} {} {} {}", io::xxh3_128_hex(std::as_bytes(std::span(store.tokens))),
                  io::xxh3_128_hex(std::as_bytes(std::span(store.document_begin))),
                  options.tokens_per_row, name(options.packing), rows.num_rows(), first_row);
  return io::xxh3_128_hex(std::as_bytes(std::span(all)));
}

}  // namespace

std::int64_t Batch::num_labels() const {
  return static_cast<std::int64_t>(labels.size()) -
         std::count(labels.begin(), labels.end(), kIgnoredLabel);
}

std::uint64_t Dataset::num_labels() const {
  std::uint64_t total = 0;
  for (std::uint64_t row = first_row_; row < last_row_; ++row)
    for (const Piece& piece : rows_->packed.row(row)) total += piece.num_tokens - 1;
  return total;
}

void Dataset::next(DataCursor& cursor, std::int64_t num_rows, Batch& batch) const {
  read(cursor, 0, num_rows, batch);
  cursor.index += static_cast<std::uint64_t>(num_rows);
  cursor.epoch += cursor.index / this->num_rows();
  cursor.index %= this->num_rows();
}

void Dataset::read(DataCursor cursor, std::int64_t skip, std::int64_t num_rows,
                   Batch& batch) const {
  const auto width = static_cast<std::size_t>(options_.tokens_per_row);
  const std::size_t size = static_cast<std::size_t>(num_rows) * width;
  batch.num_rows = num_rows;
  batch.tokens_per_row = options_.tokens_per_row;
  // One place more than the batch has: each row is written with its last token, the label of the
  // place before it, which the next row (or nothing) then overwrites.
  for (auto* field : {&batch.tokens, &batch.labels, &batch.segment_ids, &batch.positions})
    field->resize(size + 1);
  cursor.index += static_cast<std::uint64_t>(skip);
  for (std::int64_t i = 0; i < num_rows; ++i, ++cursor.index) {
    cursor.epoch += cursor.index / this->num_rows();
    cursor.index %= this->num_rows();
    const std::uint64_t row =
        first_row_ + (options_.shuffle
                          ? RowOrder(this->num_rows(), options_.seed, cursor.epoch)[cursor.index]
                          : cursor.index);
    const std::size_t at = static_cast<std::size_t>(i) * width;
    const auto field = [&](std::vector<std::int32_t>& values) {
      return std::span(values).subspan(at, width + 1);
    };
    write_row(rows_->store->tokens, rows_->packed.row(row), options_.pad_id,
              {field(batch.tokens), field(batch.segment_ids), field(batch.positions),
               field(batch.labels)});
  }
  for (auto* field : {&batch.tokens, &batch.labels, &batch.segment_ids, &batch.positions})
    field->resize(size);
}

DatasetSplit split(std::shared_ptr<const TokenStore> store, double validation_fraction,
                   const DatasetOptions& options) {
  LAMINA_ASSERT(validation_fraction >= 0 && validation_fraction < 1);
  const auto row_tokens = static_cast<std::uint64_t>(options.tokens_per_row) + 1;
  const std::string where = store->sources.empty() ? "data" : store->sources.front().name;
  if (store->tokens.size() < row_tokens)
    throw UserError(ExitCode::data,
                    {where,
                     fmt::format("all text together has {} tokens; one row needs {}",
                                 store->tokens.size(), row_tokens),
                     {fmt::format("give more text, or set data.sequence_length to at most {}",
                                  store->tokens.size() - 1)}});
  auto rows = std::make_shared<Dataset::PackedStore>();
  rows->packed = pack(store->document_begin, row_tokens, options.packing);
  const std::uint64_t num_rows = rows->packed.num_rows();
  std::uint64_t kept_back = 0;
  if (validation_fraction > 0)
    kept_back = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(
               std::llround(validation_fraction * static_cast<double>(num_rows))));
  if (kept_back >= num_rows)
    throw UserError(
        ExitCode::data,
        {where,
         fmt::format("{} of {} rows would be held out for validation; at least one must "
                     "remain to train on",
                     kept_back, num_rows),
         {"give more text, or lower data.validation_fraction or "
          "data.sequence_length"}});
  const std::uint64_t first_kept = num_rows - kept_back;
  const DatasetCounts counts = count(*store, rows->packed, row_tokens);
  std::string print = fingerprint(*store, rows->packed, first_kept, options);
  rows->store = std::move(store);
  DatasetOptions validation_options = options;
  validation_options.shuffle = false;
  DatasetSplit out{Dataset(rows, 0, first_kept, options), {}, counts, std::move(print)};
  if (kept_back > 0)
    out.validation.push_back(Dataset(rows, first_kept, num_rows, validation_options));
  return out;
}

}  // namespace lamina::data
