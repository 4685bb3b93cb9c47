// Describes the data of a run, for its banner and its log.
#pragma once

#include <string>
#include <vector>

#include "data/load.h"

namespace lamina::cli {

// One line about the rows, then one per entry of data.train and data.validation with its files,
// bytes, documents and tokens, so that missing text is noticed. If there are many entries, the last
// ones share a line.
//   24,030 tokens in 750 rows of 32, 30 of them in no row; no rows to validate on
//   books: 12 files, 3.4 MiB, 56 documents (2 empty skipped), 24,030 tokens
std::vector<std::string> data_lines(const data::RunData& data);

}  // namespace lamina::cli
