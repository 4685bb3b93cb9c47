// Rows of tokens in a random order, as batches; a position in it is two integers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/packing.h"
#include "data/row_order.h"
#include "data/token_store.h"

namespace lamina::data {

// Position of the next row. It does not depend on batch sizes or on the number of ranks, so a run
// can resume with others. A checkpoint needs no other state of the data.
struct DataCursor {
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;  // rows of this epoch that are done

  friend bool operator==(const DataCursor&, const DataCursor&) = default;
};

// Rows for one step; each field is [num_rows, tokens_per_row], row-major.
struct Batch {
  std::int64_t num_rows = 0;
  std::int64_t tokens_per_row = 0;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;       // the next token of the document, or kIgnoredLabel
  std::vector<std::int32_t> segment_ids;  // 1, 2, ... within a row; 0 is padding
  std::vector<std::int32_t> positions;    // from 0 in every segment
  std::vector<std::uint64_t> rows;        // index of each row in the data set, unordered

  // Returns the number of labels in the loss.
  std::int64_t num_labels() const;
};

struct DatasetOptions {
  std::int64_t tokens_per_row = 512;  // T: inputs of a row, which has T + 1 tokens
  Packing packing = Packing::concat_then_split;
  Grouping grouping = {};  // for packings that keep documents whole
  std::int32_t pad_id = 0;
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool shuffle_documents = false;  // before packing, in one order for all epochs
  std::string on_no_label = {};    // what to change if no document has a token in the loss
};

struct DatasetCounts {
  std::uint64_t num_tokens = 0;  // in rows
  std::uint64_t padding = 0;     // positions in rows without a token
  // For packings that keep documents whole: documents longer than a row, and the tokens cut off;
  // documents skipped because none of their remaining tokens is in the loss.
  std::uint64_t num_cut_documents = 0;
  std::uint64_t num_cut_tokens = 0;
  std::uint64_t num_unlearned_documents = 0;
  // For packings that cut documents: rows skipped because no token follows another of the same
  // document.
  std::uint64_t num_unlearned_rows = 0;

  DatasetCounts& operator+=(const DatasetCounts& other);
};

// A part of the rows of a store. Immutable: a batch depends only on the cursor, the seed and the
// data. [any thread]
//   auto data = split(std::make_shared<TokenStore>(...), 0.1, {.tokens_per_row = 256});
//   DataCursor cursor;
//   Batch batch;
//   data.train.next(cursor, 8, batch);
class Dataset {
 public:
  std::uint64_t num_rows() const { return num_rows_; }
  std::int64_t tokens_per_row() const { return options_.tokens_per_row; }
  // Returns the number of labels in the loss over all rows, which is what one epoch trains on.
  std::uint64_t num_labels() const;

  // Writes the `num_rows` rows after the cursor into `batch` (reusing its memory) and moves the
  // cursor past them. The first row of the next epoch follows the last row of an epoch.
  void next(DataCursor& cursor, std::int64_t num_rows, Batch& batch) const;
  // Returns rows starting at `skip` without moving the cursor: for a rank that reads its share of a
  // global batch.
  void read(DataCursor cursor, std::int64_t skip, std::int64_t num_rows, Batch& batch) const;
  // Returns rows by number, from `first` on, as in Batch::rows; the first row follows the last.
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
  std::vector<std::uint64_t> shares_;  // relative weights of several parts
  std::uint64_t num_rows_;
  DatasetOptions options_;
};

// Interleaves the rows of several datasets by weight: the first n rows of the mixture contain n
// times the share of each dataset, give or take a few. Every dataset has its own epochs and row
// orders. An epoch of the mixture has as many rows as all datasets together; with weights
// proportional to their numbers of rows, each row occurs once. The position is a DataCursor.
// REQUIRES: a weight above 0 for each; equal options except for the seed.
Dataset mix(const std::vector<Dataset>& datasets, const std::vector<double>& weights);

struct DatasetSplit {
  Dataset train;
  std::vector<Dataset> validation;  // one, or none if the fraction is 0; never shuffled
  DatasetCounts counts;             // of both parts
  // Depends on the tokens, the packing and the split, not on the order of rows: a checkpoint stores
  // it to detect that a run is resumed with other data.
  std::string fingerprint;
};

// Packs the tokens and keeps the last `validation_fraction` of the rows (rounded, at least one if
// the fraction is above 0) for validation. Packings that keep documents whole hold out the last
// documents instead, and pack them separately. The split depends only on data, packing, fraction
// and, with shuffled documents, the seed. Errors (class data): fewer tokens than one row; nothing
// in the loss; nothing left for training.
DatasetSplit split(TokenView tokens, double validation_fraction, const DatasetOptions& options);
DatasetSplit split(std::shared_ptr<const TokenStore> store, double validation_fraction,
                   const DatasetOptions& options);

}  // namespace lamina::data
