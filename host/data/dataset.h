// Rows of tokens in a random order, as batches; where one is in them is two numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/packing.h"
#include "data/row_order.h"
#include "data/token_store.h"

namespace lamina::data {

// Which row comes next. It does not depend on batch sizes or on the number of ranks, so a run can
// go on with others. All that a checkpoint needs to keep of the data.
struct DataCursor {
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;  // rows of this epoch that are done

  friend bool operator==(const DataCursor&, const DataCursor&) = default;
};

// Rows ready for a step; each field is [num_rows, tokens_per_row], row-major.
struct Batch {
  std::int64_t num_rows = 0;
  std::int64_t tokens_per_row = 0;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;       // the next token of the document, or kIgnoredLabel
  std::vector<std::int32_t> segment_ids;  // 1, 2, ... within a row; 0 is padding
  std::vector<std::int32_t> positions;    // from 0 in every segment
  std::vector<std::uint64_t> rows;        // which row of the data set each is, in no order

  // Labels that count in the loss.
  std::int64_t num_labels() const;
};

struct DatasetOptions {
  std::int64_t tokens_per_row = 512;  // T: inputs of a row; it holds T + 1 tokens
  Packing packing = Packing::concat_then_split;
  Grouping grouping = {};  // of packings that keep documents whole
  std::int32_t pad_id = 0;
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool shuffle_documents = false;  // before they are packed, in one order for all epochs
};

struct DatasetCounts {
  std::uint64_t num_tokens = 0;  // in rows
  std::uint64_t padding = 0;     // places in rows that hold no token
  // Of packings that keep documents whole: those that were longer than a row, and the tokens that
  // were cut off; those left out because nothing in them, as far as it fits, is in the loss.
  std::uint64_t num_cut_documents = 0;
  std::uint64_t num_cut_tokens = 0;
  std::uint64_t num_unlearned_documents = 0;
  // For packings that cut documents: rows left out, in which no token follows another of its
  // document.
  std::uint64_t num_unlearned_rows = 0;

  DatasetCounts& operator+=(const DatasetCounts& other);
};

// A part of the rows of a store. Immutable: every batch is a function of the cursor, the seed and
// the data alone. [any thread]
//   auto data = split(std::make_shared<TokenStore>(...), 0.1, {.tokens_per_row = 256});
//   DataCursor cursor;
//   Batch batch;
//   data.train.next(cursor, 8, batch);
class Dataset {
 public:
  std::uint64_t num_rows() const { return num_rows_; }
  std::int64_t tokens_per_row() const { return options_.tokens_per_row; }
  // Labels that count, over all rows: what one epoch trains on.
  std::uint64_t num_labels() const;

  // Writes the `num_rows` rows that follow the cursor into `batch` (its memory is used again) and
  // moves the cursor past them. After the last row of an epoch comes the first of the next.
  void next(DataCursor& cursor, std::int64_t num_rows, Batch& batch) const;
  // The rows from `skip` on, without moving: for a rank that takes its share of a global batch.
  void read(DataCursor cursor, std::int64_t skip, std::int64_t num_rows, Batch& batch) const;
  // Those with the numbers `first` and on, as Batch::rows has them; after the last comes the first.
  void read_numbered(std::uint64_t first, std::int64_t num_rows, Batch& batch) const;

 private:
  struct PackedTokens {
    TokenView tokens;
    PackedRows packed;
  };
  struct Part {
    std::shared_ptr<const PackedTokens> rows;  // shared by both parts of a split
    std::uint64_t first_row, last_row;
    std::uint64_t seed;

    std::uint64_t num_rows() const { return last_row - first_row; }
  };
  struct Place {
    const Part* part;
    std::uint64_t row;
  };
  friend struct DatasetSplit split(TokenView, double, const DatasetOptions&);
  friend struct DatasetSplit split_documents(TokenView, double, const DatasetOptions&);
  friend Dataset mix(const std::vector<Dataset>&, const std::vector<double>&);
  Dataset(std::shared_ptr<const PackedTokens> rows, std::uint64_t first, std::uint64_t last,
          DatasetOptions options)
      : parts_{{std::move(rows), first, last, options.seed}},
        num_rows_(last - first),
        options_(options) {}
  Place place(std::uint64_t epoch, std::uint64_t index) const;
  Place numbered(std::uint64_t row) const;
  std::uint64_t number_of(const Place& place) const;
  template <typename PlaceOf>
  void write(std::int64_t num_rows, Batch& batch, const PlaceOf& place_of) const;

  std::vector<Part> parts_;
  std::vector<std::uint64_t> shares_;  // of several parts, in no unit
  std::uint64_t num_rows_;
  DatasetOptions options_;
};

// The rows of several datasets in turn, of each as many as its weight says: the first n rows of the
// mixture have n times its share of each, give or take two. Every dataset goes through its own
// epochs, in orders of its own; an epoch of the mixture is as many rows as all have together, and
// with weights in proportion to their rows it has each row once. Where it is, is a DataCursor.
// REQUIRES: a weight above 0 for each; equal options but for the seed.
Dataset mix(const std::vector<Dataset>& datasets, const std::vector<double>& weights);

struct DatasetSplit {
  Dataset train;
  std::vector<Dataset> validation;  // one, or none where the fraction is 0; never shuffled
  DatasetCounts counts;             // of both together
  // Changes with the tokens, the packing and the split, not with the order of rows: a checkpoint
  // keeps it to notice that a run is resumed on other data.
  std::string fingerprint;
};

// Packs the tokens and keeps the last `validation_fraction` of the rows (rounded, at least one if
// the fraction is above 0) for validation; of packings that keep documents whole the last of the
// documents, which are then packed for themselves. The split depends on nothing but data, packing,
// fraction and, with shuffled documents, the seed. Errors (class data): fewer tokens than one row;
// nothing that is in the loss; a split that leaves nothing to train on.
DatasetSplit split(TokenView tokens, double validation_fraction, const DatasetOptions& options);
DatasetSplit split(std::shared_ptr<const TokenStore> store, double validation_fraction,
                   const DatasetOptions& options);

}  // namespace lamina::data
