// A file about a step whose loss or gradient was not finite, or that was skipped as a spike: its
// numbers, the op where it began, and the rows that were read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "text/tokenizer.h"
#include "train/loop/train_step.h"

namespace lamina::train {

struct BadStep {
  std::int64_t step = 0;  // counted from 1
  const StepResult& result;
  const NumericalError* error = nullptr;  // null: a spike
  std::int64_t microbatch_size = 0;       // rows
  data::DataCursor cursor;                // of the step's first row
  std::uint64_t rows_per_epoch = 0;
  const data::Batch& batch;  // the whole step's
};

// Writes <run>/non-finite-step-00000012.json, or spike-step-.., and returns its path. If the disk
// refuses it, logs a warning and returns "".
std::string write_bad_step(const std::string& run, const BadStep& bad,
                           const text::Tokenizer& tokenizer);

// The contents of such a file.
struct BadStepRecord {
  struct Row {
    std::uint64_t epoch = 0, index = 0;  // in the order in which rows are read
    std::int64_t microbatch = 0;
    std::string text;
  };
  std::int64_t step = 0;
  bool is_spike = false;
  std::string loss, gradient_norm;  // as numbers are printed: "nan"
  std::string origin;               // NonFinite::text(), and the microbatch; "" if unknown
  std::string weight;               // as NumericalError
  std::vector<Row> rows;
};

// Returns the records of a run directory, by step. Throws UserError (exit 4) for a damaged file.
std::vector<BadStepRecord> read_bad_steps(const std::string& run);

}  // namespace lamina::train
